import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../processes';
import type { Local } from '../supervisor';
import type { Chance } from './random';
import { APIS, WORKERS } from './stage';

type Part = 'api' | 'worker' | 'postgres' | 'temporal';

/** A kill, or a stop of everything, from the moment it came to the moment the process answered again. */
export interface Incident {
  what: string;
  part: Part | 'all';
  /** Unix milliseconds. */
  at: number;
  upAt: number | null;
}

const EXPECTED: Record<Part, string[]> = {
  api: Array.from({ length: APIS }, (_, index) => `api-${String(index)}`),
  worker: Array.from({ length: WORKERS }, (_, index) => `worker-${String(index)}`),
  postgres: ['postgres'],
  temporal: ['temporal'],
};
const PARTS = Object.keys(EXPECTED) as Part[];
const LOOK_MS = 100;
const STOP_MS = 60_000;
/** How long a killed process stays down, at least and at most. */
const DOWN_MS: Record<Part, [number, number]> = {
  api: [100, 3_000],
  worker: [100, 4_000],
  postgres: [100, 2_500],
  temporal: [100, 4_000],
};

const isEngine = (part: Part): part is 'postgres' | 'temporal' => part === 'postgres' || part === 'temporal';

/** Kills processes, and starts again what is down. It alone starts anything, so that no two starts meet. */
export class Keeper {
  readonly incidents: Incident[] = [];
  private readonly downUntil = new Map<string, number>();
  private readonly busy = new Set<Part>();
  private loops: Promise<void>[] = [];
  private state: 'keeping' | 'holding' | 'ended' = 'keeping';

  constructor(
    private readonly local: Local,
    private readonly chance: Chance,
  ) {}

  begin(): void {
    this.loops = PARTS.map((part) => this.keep(part));
  }

  /** Starts nothing any more; resolves when no start is under way. */
  async end(): Promise<void> {
    this.state = 'ended';
    await Promise.all(this.loops);
  }

  /** Kills a process that runs, by SIGKILL. */
  async kill(): Promise<Incident> {
    for (;;) {
      const part = this.chance.pick(PARTS);
      const up = EXPECTED[part].filter((name) => this.isUp(name));
      // An engine in the midst of its start is waited for by the guard: it is killed once it answers.
      if (up.length > 0 && !(isEngine(part) && this.busy.has(part))) return this.killOne(part, this.chance.pick(up));
      await sleep(LOOK_MS);
    }
  }

  /** Resolves when every process runs and none is being started. */
  async allUp(): Promise<void> {
    const names = PARTS.flatMap((part) => EXPECTED[part]);
    const up = await waitUntil(() => this.busy.size === 0 && names.every((name) => this.isUp(name)), 180_000);
    if (!up) throw new Error('Not every process came up again.');
    for (const incident of this.incidents) incident.upAt ??= Date.now();
  }

  /** Stops everything in order, does the work, and lets everything come up again. @returns how long it was down, in words */
  async whileStopped(what: string, work: () => Promise<void>): Promise<string> {
    const incident: Incident = { what, part: 'all', at: Date.now(), upAt: null };
    this.incidents.push(incident);
    this.state = 'holding';
    if (!(await waitUntil(() => this.busy.size === 0, STOP_MS))) throw new Error('A start does not come to an end.');
    for (const part of ['api', 'worker'] as const) {
      EXPECTED[part].forEach((name, index) => {
        if (this.isUp(name)) this.local.kill(part, index, 'SIGTERM');
      });
      await this.allGone(EXPECTED[part]);
    }
    if (this.isUp('temporal')) this.local.engines.kill('temporal', 'SIGTERM');
    await this.allGone(['temporal']);
    if (this.isUp('postgres')) this.local.engines.kill('postgres', 'SIGINT');
    await this.allGone(['postgres']);
    const stopped = Date.now();
    await work();
    const done = Date.now();
    this.downUntil.clear();
    this.state = 'keeping';
    await this.allUp();
    incident.upAt = Date.now();
    const seconds = [stopped - incident.at, done - stopped, incident.upAt - done].map((ms) => (ms / 1000).toFixed(1));
    return `stopped in ${String(seconds[0])} s, copied in ${String(seconds[1])} s, up after ${String(seconds[2])} s`;
  }

  private async allGone(names: string[]): Promise<void> {
    if (!(await waitUntil(() => names.every((name) => !this.isUp(name)), STOP_MS)))
      throw new Error(`${names.join(', ')} does not end.`);
  }

  private isUp(name: string): boolean {
    return this.local.processes().some((process) => process.name === name);
  }

  private killOne(part: Part, name: string): Incident {
    const incident: Incident = { what: `kill of ${name}`, part, at: Date.now(), upAt: null };
    this.incidents.push(incident);
    this.downUntil.set(name, incident.at + this.chance.between(...DOWN_MS[part]));
    if (isEngine(part)) this.local.engines.kill(part, 'SIGKILL');
    else this.local.kill(part, Number(name.split('-')[1]), 'SIGKILL');
    return incident;
  }

  /** Brings the processes of one kind back, one after another, for as long as the keeping lasts. */
  private async keep(part: Part): Promise<void> {
    while (this.state !== 'ended') {
      const due = EXPECTED[part].filter((name) => !this.isUp(name) && Date.now() >= (this.downUntil.get(name) ?? 0));
      if (this.state === 'keeping' && due.length > 0) await this.startOne(part);
      else await sleep(LOOK_MS);
    }
  }

  /** A start that fails, because an engine is down or the process was killed in it, is tried again at the next look. */
  private async startOne(part: Part): Promise<void> {
    this.busy.add(part);
    try {
      let name: string = part;
      if (isEngine(part)) await this.local.engines.restart(part);
      else name = `${part}-${String(await this.local.start(part))}`;
      for (const incident of this.incidents) if (incident.what === `kill of ${name}`) incident.upAt ??= Date.now();
    } catch {
      await sleep(LOOK_MS);
    } finally {
      this.busy.delete(part);
    }
  }
}
