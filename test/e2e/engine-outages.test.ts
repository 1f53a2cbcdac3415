import { setTimeout as sleep } from 'node:timers/promises';
import { buildClientTool, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

// The heartbeat's own default of 30 s: it must outlast an outage of the engine.
const service = useLocal({ engines: { fsync: true }, env: { CALL_HEARTBEAT_SECONDS: undefined } });
let runs: Runs;

beforeAll(async () => {
  runs = new Runs(service, await service.workspace());
});

const attemptOf = async (id: string): Promise<number | undefined> =>
  (await service.engine.workflow.getHandle(id).describe()).raw.pendingActivities?.[0]?.attempt ?? undefined;

test('[durable 3] [engine 5] seven seconds without the engine during a model call: the model is called once', async () => {
  const agent = await runs.agent([{ text: 'once', hold: 'outage' }]);
  const id = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: id });
  await service.outage('temporal', 7_000);
  // The same try goes on: the engine has not given it to another.
  expect(await attemptOf(id)).toBe(1);
  service.modelServer.release('outage');
  await runs.reached(id, 'completed');
  expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true, aborted: false }]);
}, 60_000);

test('[durable 3] the engine restarts while a step ends: the stored step stands and the run goes on from its file', async () => {
  const tool = await buildClientTool(runs.space);
  const agent = await runs.agent(
    [
      { toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '1' } }] },
      { text: 'Approved.', hold: 'restart' },
    ],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const id = await runs.begin(agent.id);
  const { required_action: action } = await runs.reached(id, 'requires_action');
  const submitted = runs.outputs(agent.id, id, action.tool_calls[0].id as string, { idempotency_key: 'restart' });
  await service.modelServer.waitForCall({ generationId: id, step: 2 });
  expect(await runs.storedSteps(id)).toEqual([1]);
  await service.endEngine('temporal');
  service.modelServer.release('restart');
  await eventually(async () => {
    expect((await runs.row(id)).status).toBe('completed');
  });
  await service.local.engines.restart('temporal');
  const { status } = await submitted;
  expect([200, 503]).toContain(status);
  const again = await runs.outputs(agent.id, id, action.tool_calls[0].id as string, { idempotency_key: 'restart' });
  expect([again.status, again.body.output.content]).toEqual([200, 'Approved.']);
  expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
}, 90_000);

test('[durable 3] the database restarts during a model call: the answer is stored, and nothing is bought again', async () => {
  const agent = await runs.agent([{ text: 'kept', hold: 'database' }]);
  const id = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: id });
  await service.endEngine('postgres');
  const refused = await runs.space.api.post(runs.at(`/agents/${agent.id}/generate`), saying('hello'));
  expect([refused.status, refused.body.error.code]).toEqual([503, 'service_unavailable']);
  await service.local.engines.restart('postgres');
  service.modelServer.release('database');
  const record = await runs.reached(id, 'completed');
  expect(record.step_count).toBe(1);
  expect(runs.calls(id)).toHaveLength(1);
}, 60_000);

test('[durable 3] [durable 4] an answer that comes while the database is down is asked for once more, not oftener', async () => {
  const agent = await runs.agent([{ text: 'twice', hold: 'no-database' }]);
  const id = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: id });
  await service.endEngine('postgres');
  service.modelServer.release('no-database');
  await eventually(() => {
    expect(runs.calls(id)).toMatchObject([{ answered: true }]);
  });
  // The answer's way into the database has failed by now, and tries without a database call no model.
  await sleep(1_500);
  await service.local.engines.restart('postgres');
  await runs.reached(id, 'completed', 40_000);
  expect(await runs.storedSteps(id)).toEqual([1]);
  expect(runs.calls(id)).toMatchObject([
    { step: 1, answered: true },
    { step: 1, answered: true },
  ]);
}, 60_000);

test('[durable 3] a pause outlives the end of everything', async () => {
  const tool = await buildClientTool(runs.space, { name: 'ask' });
  const agent = await runs.agent(
    [{ toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] }, { text: 'Still here.' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const id = await runs.begin(agent.id);
  const paused = await runs.reached(id, 'requires_action');
  await Promise.all([service.kill('worker'), service.kill('api')]);
  await Promise.all([service.outage('temporal', 0), service.outage('postgres', 0)]);
  await Promise.all([service.local.start('worker'), service.local.start('api')]);
  expect((await runs.reached(id, 'requires_action')).required_action).toEqual(paused.required_action);
  const callId = paused.required_action.tool_calls[0].id as string;
  const resumed = await runs.outputs(agent.id, id, callId);
  expect([resumed.status, resumed.body.output.content]).toEqual([200, 'Still here.']);
  expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
}, 90_000);
