import { WorkflowUpdateStage } from '@temporalio/client';
import { AWAIT_REST } from '../../src/workflows/generations.contract';
import { buildClientTool, saying } from '../support/builders';
import { apiClient } from '../support/client';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

/** Two sweep intervals of one second, and the time that the work itself takes. */
const SWEPT_MS = 2 * 1_000 + 3_000;

const service = useLocal();
let runs: Runs;
let toolId: string;

beforeAll(async () => {
  runs = new Runs(service, await service.workspace());
  toolId = (await buildClientTool(runs.space)).id;
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

interface Paused {
  id: string;
  agentId: string;
  callId: string;
}

/** A run that waits for the output of one client tool, and then answers `end`. */
async function pausedRun(end: object = { text: 'done' }): Promise<Paused> {
  const agent = await runs.agent(
    [{ toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '1' } }] }, end],
    { tool_bindings: [{ tool_id: toolId }] },
  );
  const id = await runs.begin(agent.id);
  const { required_action: action } = await runs.reached(id, 'requires_action');
  return { id, agentId: agent.id, callId: action.tool_calls[0].id as string };
}

const codeOf = ({ status, body }: Reply): string => `${String(status)} ${String(body.error?.code ?? body.status)}`;

/** How often each answer was given. */
const tally = (replies: Reply[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const reply of replies) counts[codeOf(reply)] = (counts[codeOf(reply)] ?? 0) + 1;
  return counts;
};

const times = <Value>(count: number, make: (index: number) => Promise<Value>): Promise<Value[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)));

/** On what the kills left: an API that was started anew. */
describe('racing', () => {
  test('[durable 5] of twenty submissions for one pause one is taken and nineteen are refused', async () => {
    const { id, agentId, callId } = await pausedRun();
    const replies = await times(20, () => runs.outputs(agentId, id, callId));
    expect(tally(replies)).toEqual({ '200 completed': 1, '409 GENERATION_NOT_AWAITING_TOOL_OUTPUTS': 19 });
    const accepted = await service.rows('select id from generation_submissions where generation_id = $1', [id]);
    expect(accepted).toHaveLength(1);
    expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
  }, 60_000);

  test('[durable 5] of fifty starts with one idempotency key one runs', async () => {
    const agent = await runs.agent([]);
    const body = saying('once', { idempotency_key: 'fifty' });
    const replies = await times(50, () => runs.space.api.post(runs.at(`/agents/${agent.id}/generate`), body));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]));
    const ids = new Set(replies.map((reply) => reply.body.id as string));
    expect(ids.size).toBe(1);
    const [id = ''] = ids;
    await runs.reached(id, 'completed');
    expect(await service.rows('select id from generations where agent_id = $1', [agent.id])).toEqual([{ id }]);
    expect(service.modelServer.calls({ model: agent.model })).toHaveLength(1);
  }, 60_000);

  test('[durable 5] a submission races a cancel: one of them wins, ten times of ten', async () => {
    const winners: string[] = [];
    for (let round = 0; round < 10; round += 1) {
      const { id, agentId, callId } = await pausedRun();
      const cancel = () => runs.space.api.post(runs.at(`/generations/${id}/cancel`));
      const submit = () => runs.outputs(agentId, id, callId);
      // Who is sent first changes, so that both get their chance.
      const [cancelled, submitted] =
        round % 2 === 0 ? await Promise.all([cancel(), submit()]) : (await Promise.all([submit(), cancel()])).reverse();
      const record = (await runs.space.api.get(runs.at(`/generations/${id}`))).body;
      if (submitted?.status === 200) {
        expect(codeOf(cancelled!)).toBe('409 GENERATION_ALREADY_SETTLED');
        expect(record).toMatchObject({ status: 'completed', stop_reason: 'stop' });
      } else {
        expect(cancelled!.status).toBe(200);
        // Outputs that were taken before the cancel belong to a run that failed; later ones are refused.
        expect(codeOf(submitted!)).toMatch(/^(409 GENERATION_NOT_AWAITING_TOOL_OUTPUTS|500 GENERATION_FAILED)$/);
        expect(record).toMatchObject({ status: 'failed', stop_reason: 'cancelled' });
      }
      winners.push(submitted?.status === 200 ? 'outputs' : 'cancel');
    }
    expect(winners).toHaveLength(10);
  }, 90_000);

  test('[durable 5] twelve waiters on one run do not keep its tool outputs out', async () => {
    const { id, agentId, callId } = await pausedRun({ text: 'heard', delayMs: 200 });
    const run = service.engine.workflow.getHandle(id);
    const waiters = await times(12, () =>
      run.startUpdate<unknown, [object]>(AWAIT_REST, {
        args: [{ afterPause: 1 }],
        waitForStage: WorkflowUpdateStage.ACCEPTED,
      }),
    );
    const begun = performance.now();
    const reply = await runs.outputs(agentId, id, callId);
    expect(codeOf(reply)).toBe('200 completed');
    expect(performance.now() - begun).toBeLessThan(5_000);
    await Promise.all(waiters.map((waiter) => waiter.result()));
  }, 60_000);

  test('[durable 5] a submission repeated under its key answers the result to everybody, at once or later', async () => {
    const { id, agentId, callId } = await pausedRun({ text: 'the same', delayMs: 200 });
    const submit = () => runs.outputs(agentId, id, callId, { idempotency_key: 'again' });
    const replies = [...(await times(12, submit)), await submit()];
    expect(tally(replies)).toEqual({ '200 completed': 13 });
    expect(new Set(replies.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(replies[0]!.body.output.content).toBe('the same');
    expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
  }, 60_000);

  test('API and worker each show their metrics on a port of their own', async () => {
    const shown = service.local.metrics();
    expect(shown.map(({ name }) => name)).toEqual(['api-0', 'worker-0']);
    const texts = await Promise.all(shown.map(async ({ url }) => (await fetch(url)).text()));
    for (const text of texts) expect(text).toMatch(/^process_start_time_seconds [\d.]+$/m);
    expect(texts[0]).toContain('svc_runs_accepted_total{resource="generation"}');
    expect(texts[1]).toContain('svc_runs_settled_total{resource="generation",status="completed",reason="stop"}');
    expect((await fetch(`${service.local.baseUrl}/metrics`)).status).toBe(404);
  });
});
