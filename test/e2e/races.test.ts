import { WorkflowUpdateStage } from '@temporalio/client';
import { AWAIT_REST } from '../../src/workflows/generations.contract';
import { buildClientTool, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { Runs, useLocal } from '../support/local';

const service = useLocal();
let runs: Runs;
let toolId: string;

beforeAll(async () => {
  runs = new Runs(service, await service.workspace());
  toolId = (await buildClientTool(runs.space)).id;
});

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
