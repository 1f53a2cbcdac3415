import { firstAttempts } from '../../src/api/webhooks/first-attempts';
import { buildAgent, buildClientTool, created, saying } from '../support/builders';
import { useWorkspace } from '../support/workspace';

// Before the service's own ending, which closes the database and the engine.
afterAll(() => firstAttempts.drain(1_000));

const { space, server, receiver } = useWorkspace({ project: 'test', receiver: 'test' });

beforeEach(async () => {
  created(await space.api.post(`${space.at}/webhooks`, { url: `${receiver.url}/hook`, events: ['*'] }));
});

const deliveries = async (): Promise<{ event_type: string; payload: Record<string, unknown> }[]> =>
  (await space.api.get(`${space.at}/webhook-deliveries`)).body.data;

test('[events 1] a background run that completes is told once, with the record as it is read', async () => {
  const agent = await buildAgent(space);
  const { body: accepted } = await space.api.post(`${space.at}/agents/${agent.id}/generate`, saying('hello'));
  const request = await receiver.waitFor(({ path }) => path === '/hook');
  const record = await space.api.get(`${space.at}/generations/${accepted.id as string}`);
  const envelope = JSON.parse(request.body);
  expect(envelope).toEqual({
    id: expect.stringMatching(/^evt_[0-9A-Za-z]{16}$/),
    type: 'generation.completed',
    project_id: space.projectId,
    resource_type: 'generation',
    resource_id: accepted.id,
    data: record.body,
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
  });
  expect(record.body.status).toBe('completed');
  expect((await deliveries()).map(({ event_type: type }) => type)).toEqual(['generation.completed']);
});

test('a run that fails is told with its error', async () => {
  server.script(space.model, [{ status: 400, body: { error: { message: 'no such model' } } }]);
  const agent = await buildAgent(space);
  const reply = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('hello'));
  expect(reply.status).toBe(502);
  const request = await receiver.waitFor(({ path }) => path === '/hook');
  const { type, data } = JSON.parse(request.body);
  const record = await space.api.get(`${space.at}/generations/${reply.body.error.meta.generation_id as string}`);
  expect([type, data]).toEqual(['generation.failed', record.body]);
  expect(data.error.code).toBe('AI_PROVIDER_ERROR');
  expect(await deliveries()).toHaveLength(1);
});

test('a pause tells nobody; the end of the run does', async () => {
  const tool = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
  server.script(space.model, [
    { toolCalls: [{ id: 'call_1', name: tool.name, args: { order_id: 'ord_1' } }] },
    { text: 'done' },
  ]);
  const at = `${space.at}/agents/${agent.id}/generate`;
  const { body: paused } = await space.api.post(`${at}?wait=true`, saying('go'));
  expect(paused.status).toBe('requires_action');
  expect(await deliveries()).toEqual([]);
  const outputs = { tool_outputs: [{ tool_call_id: 'call_1', output: true }] };
  await space.api.post(`${at}/${paused.id as string}/tool-outputs`, outputs);
  await receiver.waitFor(({ path }) => path === '/hook');
  expect((await deliveries()).map(({ payload }) => payload.resource_id)).toEqual([paused.id]);
});

test('a run that ends in a paused project is told all the same', async () => {
  server.script(space.model, [{ text: 'late', hold: 'paused-meanwhile' }]);
  const agent = await buildAgent(space);
  const { body: run } = await space.api.post(`${space.at}/agents/${agent.id}/generate`, saying('go'));
  await server.waitForCall({ generationId: run.id as string });
  expect((await space.api.post(`${space.at}/pause`)).status).toBe(200);
  server.release('paused-meanwhile');
  const told = await receiver.waitFor(({ body }) => body.includes('generation.completed'));
  expect(JSON.parse(told.body)).toMatchObject({ resource_id: run.id, data: { status: 'completed' } });
});

test('nothing is told twice when the same key starts the run again', async () => {
  const agent = await buildAgent(space);
  const body = saying('hello', { idempotency_key: 'once' });
  const first = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, body);
  const again = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, body);
  expect([first.status, again.status, again.body.id]).toEqual([200, 202, first.body.id]);
  await receiver.waitFor(({ path }) => path === '/hook');
  expect(await deliveries()).toHaveLength(1);
});
