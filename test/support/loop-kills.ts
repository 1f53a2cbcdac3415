import { eventually } from './eventually';
import type { LocalService } from './local';
import type { LoopStage, Played } from './loop-runs';
import { unpaired } from './loop-scripts';
import type { SentMessage } from './loop-scripts';

type Part = 'api' | 'worker';

/** What had been bought and stored when a process was gone, by `<generation id>:<step>`. */
interface Mark {
  part: Part;
  calls: Map<string, number>;
  stored: Set<string>;
}

/** Kills processes under runs, and tells afterwards what was bought beyond what the kills explain. */
export class Kills {
  private readonly marks: Mark[] = [];

  constructor(
    private readonly service: LocalService,
    private readonly stage: LoopStage,
  ) {}

  /** Waits until an API makes a step of a stream and a worker makes another one. */
  async whenBothAreAtWork(): Promise<void> {
    const look = () => {
      const parts = this.sent().flatMap(({ waiting, body }) =>
        waiting ? [(body as { stream?: boolean }).stream] : [],
      );
      if (!parts.includes(true) || parts.every((streamed) => streamed === true))
        throw new Error(`${String(parts.length)} calls are under way`);
    };
    await eventually(look, { timeoutMs: 20_000, intervalMs: 5 });
  }

  /** Kills a process and notes what it left. */
  async kill(part: Part): Promise<void> {
    await this.service.kill(part);
    const rows = await this.service.rows<{ key: string }>(
      `select generation_id || ':' || step as key from generation_steps where project_id = $1 and stored_at is not null`,
      [this.stage.space.projectId],
    );
    this.marks.push({ part, calls: this.bought(), stored: new Set(rows.map(({ key }) => key)) });
  }

  /**
   * What must not be: a step that was stored and bought again, requests beyond those that were under way at a kill, steps that
   * the script does not have, and requests whose tool calls and results do not pair.
   */
  problems(runs: Played[]): string[] {
    const bought = this.bought();
    const counts = runs.flatMap((run) => {
      const due = run.expected.bought.map((count, index) => ({ key: `${run.id}:${String(index + 1)}`, count }));
      const begun = [...bought.keys()].filter((key) => key.startsWith(`${run.id}:`));
      const foreign = begun.filter((key) => !due.some((step) => step.key === key)).map((key) => `${key}: is no step`);
      return [...foreign, ...due.flatMap(({ key, count }) => this.miscounted(run, key, count))];
    });
    const pairs = this.sent().flatMap(({ key, body }) =>
      unpaired((body as { messages: SentMessage[] }).messages).map((problem) => `${String(key)}: ${problem}`),
    );
    return [...counts, ...pairs];
  }

  /** Requests beyond those that were due: what the kills took with them. */
  lost(runs: Played[]): number {
    const bought = this.bought();
    const beyond = runs.flatMap(({ id, expected }) =>
      expected.bought.map((due, index) => (bought.get(`${id}:${String(index + 1)}`) ?? 0) - due),
    );
    return beyond.reduce((sum, count) => sum + count, 0);
  }

  private miscounted({ script }: Played, key: string, due: number): string[] {
    const made = this.bought().get(key) ?? 0;
    const again = this.marks.filter(({ stored, calls }) => stored.has(key) && calls.get(key) !== made);
    if (again.length > 0) return [`${key}: was stored, and bought again`];
    // What an API makes is the steps of its streams, and only until their first pause; all else is a worker's.
    const lost = this.marks.filter(
      ({ part, stored, calls }) =>
        calls.has(key) && !stored.has(key) && (part === 'worker' || script.mode === 'stream'),
    );
    if (made >= due && made <= due + lost.length) return [];
    return [`${key}: ${String(made)} requests, ${String(due)} due, ${String(lost.length)} may be lost`];
  }

  private sent() {
    const { server, space } = this.stage;
    return server.calls().filter(({ model }) => model.startsWith(space.model));
  }

  private bought(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { key } of this.sent()) counts.set(key ?? '', (counts.get(key ?? '') ?? 0) + 1);
    return counts;
  }
}
