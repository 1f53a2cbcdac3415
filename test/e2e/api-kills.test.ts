import { saying } from '../support/builders';
import { apiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

/** Two sweep intervals of one second, and the time that the work itself takes. */
const SWEPT_MS = 2 * 1_000 + 3_000;

const service = useLocal();
let runs: Runs;

beforeAll(async () => {
  runs = new Runs(service, await service.workspace());
});

/** Every execution that the engine knows under an id. */
async function executionsOf(id: string): Promise<string[]> {
  const found: string[] = [];
  const list = service.engine.workflow.list({ query: `WorkflowId = "${id}"` });
  for await (const execution of list) found.push(execution.runId);
  return found;
}

/** A request that is cut off with its server. */
const ignoringItsEnd = (request: Promise<unknown>): void => void request.catch(() => undefined);

/** What a killed API left unstarted, and what has to hold of it once the sweep has found it. */
interface Lost {
  /** Resolves when the sweep has done it, in time; rejects when it has not. */
  swept: () => Promise<void>;
  after: () => Promise<void>;
}

async function runLeftUnstarted(wait: boolean): Promise<Lost> {
  const agent = await runs.agent([]);
  service.hold('generation-committed');
  ignoringItsEnd(
    runs.space.api.post(runs.at(`/agents/${agent.id}/generate${wait ? '?wait=true' : ''}`), saying('hello')),
  );
  await service.held('generation-committed');
  const row = await service.row<{ id: string; status: string; run_seen_at: Date | null }>(
    'select id, status, run_seen_at from generations where agent_id = $1',
    [agent.id],
  );
  expect(row).toMatchObject({ status: 'in_progress', run_seen_at: null });
  expect(await service.runStatus(row.id)).toBeNull();
  return {
    swept: () =>
      eventually(
        async () => {
          expect(await runs.row(row.id)).toMatchObject({ status: 'completed', step_count: 1 });
        },
        { timeoutMs: SWEPT_MS },
      ),
    after: async () => {
      await runs.reached(row.id, 'completed');
      await eventually(async () => {
        expect(await executionsOf(row.id)).toHaveLength(1);
      });
      expect(runs.calls(row.id)).toHaveLength(1);
    },
  };
}

async function mailLeftUnsent(): Promise<Lost> {
  const email = 'swept@people.test';
  service.hold('code-committed');
  expect((await apiClient(service.local.baseUrl).post('/v1/auth/code', { email })).status).toBe(202);
  await service.held('code-committed');
  const { id } = await service.row<{ id: string }>('select id from sign_in_codes where email = $1', [email]);
  expect(await service.runStatus(`mail/${id}`)).toBeNull();
  expect(service.local.mailbox(email)).toEqual([]);
  return {
    swept: () =>
      eventually(
        () => {
          expect(service.local.mailbox(email)).toHaveLength(1);
        },
        { timeoutMs: SWEPT_MS },
      ),
    after: async () => {
      const code = await service.mailedCode(email);
      const session = await apiClient(service.local.baseUrl).post('/v1/auth/code/verify', { email, code });
      expect(session.status).toBe(200);
      expect(await executionsOf(`mail/${id}`)).toHaveLength(1);
    },
  };
}

/** One kill meets all three between their commit and their start; no API is there while the sweep finds them. */
describe('killed once', () => {
  const all: { lost: Lost; swept: PromiseSettledResult<void>; afterMs: number }[] = [];
  const kept = async (index: number): Promise<void> => {
    const found = all[index];
    if (found === undefined) throw new Error('The kill did not happen.');
    const { lost, swept, afterMs } = found;
    if (swept.status === 'rejected') throw swept.reason;
    expect(afterMs).toBeLessThan(SWEPT_MS);
    await lost.after();
  };

  beforeAll(async () => {
    const losses = [await runLeftUnstarted(false), await runLeftUnstarted(true), await mailLeftUnsent()];
    await service.kill('api');
    service.letGo('generation-committed');
    service.letGo('code-committed');
    const killedAt = Date.now();
    const measured = losses.map(async (lost) => {
      const [swept] = await Promise.allSettled([lost.swept()]);
      return { lost, swept, afterMs: Date.now() - killedAt };
    });
    all.push(...(await Promise.all(measured)));
    await service.local.start('api');
  }, 60_000);

  test.each([
    [false, 0],
    [true, 1],
  ])('[durable 2] [engine 2] between commit and start (waiting: %s): the sweep starts the run, once', (_wait, index) =>
    kept(index),
  );

  test('[durable 2] [engine 2] between the commit of a sign-in code and the start of its mail: the mail comes once', () =>
    kept(2));
});

test('[durable 2] killed after the 202, and under a waiting caller: both runs finish, each step bought once', async () => {
  const agent = await runs.agent([{ text: 'finished alone', hold: 'no-api' }]);
  const accepted = await runs.begin(agent.id);
  const waiting = runs.space.api.post(runs.at(`/agents/${agent.id}/generate?wait=true`), saying('hello'));
  const broken = expect(waiting).rejects.toThrow();
  const ids = await eventually(
    async () => {
      const rows = await service.rows<{ id: string }>('select id from generations where agent_id = $1', [agent.id]);
      expect(rows).toHaveLength(2);
      return rows.map(({ id }) => id);
    },
    { timeoutMs: 10_000 },
  );
  expect(ids).toContain(accepted);
  for (const id of ids) await service.modelServer.waitForCall({ generationId: id });
  await service.kill('api');
  await broken;
  service.modelServer.release('no-api');
  for (const id of ids) {
    await eventually(
      async () => {
        expect(await runs.row(id)).toMatchObject({ status: 'completed', step_count: 1 });
      },
      { timeoutMs: 10_000 },
    );
    expect(runs.calls(id)).toHaveLength(1);
  }
  await service.local.start('api');
  for (const id of ids) expect((await runs.transcript(id)).output.content).toBe('finished alone');
}, 60_000);
