import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { useService } from '../support/app';
import { buildAgent, buildClientTool, buildHttpTool, saying, workspace } from '../support/builders';
import type { Workspace } from '../support/builders';
import { eventually } from '../support/eventually';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';

const service = useService({ worker: true });
let server: ModelServer;
let receiver: Receiver;
let space: Workspace;

beforeAll(async () => {
  server = await startModelServer({});
  receiver = await startReceiver();
  const owner = await service.signedIn();
  const project = await service.project(owner);
  space = await workspace(service.client(owner.token), project.id, server.url);
});

afterAll(async () => {
  await server.close();
  await receiver.close();
});

const at = (path: string): string => `${space.at}${path}`;
const settled = (id: string) =>
  eventually(
    async () => {
      const { body } = await space.api.get(at(`/generations/${id}`));
      if (body.status === 'in_progress') throw new Error('still running');
      return body;
    },
    { timeoutMs: 15_000 },
  );

test('a background run answers 202 at once, is readable at once and completes', async () => {
  const agent = await buildAgent(space);
  const accepted = await space.api.post(at(`/agents/${agent.id}/generate`), saying('hello'));
  expect(accepted.status).toBe(202);
  expect(accepted.body).toEqual({
    status: 'accepted',
    id: expect.stringMatching(/^gen_/),
    generation_id: accepted.body.id,
    trace_id: expect.stringMatching(/^trace_/),
  });
  const read = await space.api.get(at(`/generations/${accepted.body.id}`));
  expect(read.status).toBe(200);
  const record = await settled(accepted.body.id);
  expect(record).toMatchObject({
    status: 'completed',
    stop_reason: 'stop',
    error: null,
    step_count: 1,
    agent_version: 1,
  });
  expect(record.usage.output_tokens).toBeGreaterThan(0);
});

test('a waited run answers the result', async () => {
  const agent = await buildAgent(space, { instructions: 'Be brief.' });
  const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('hello'));
  expect(reply.status).toBe(200);
  expect(reply.body).toMatchObject({
    status: 'completed',
    output: { content: 'You said: hello', finish_reason: 'stop' },
  });
});

test('an http tool and a client tool: the run calls, pauses, resumes and completes under one id', async () => {
  const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
  const refund = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }, { tool_id: refund.id }] });
  server.script(space.model, [
    { toolCalls: [{ name: 'get_order', args: { order_id: 'ord_1042' } }] },
    { toolCalls: [{ id: 'call_1', name: 'approve_refund', args: { order_id: 'ord_1042' } }] },
    { text: 'Refunded.' },
  ]);
  const paused = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('refund ord_1042'));
  expect(paused.status).toBe(200);
  expect(paused.body).toMatchObject({
    status: 'requires_action',
    required_action: {
      type: 'submit_tool_outputs',
      tool_calls: [{ tool_name: 'approve_refund', args: { order_id: 'ord_1042' } }],
    },
  });
  expect(receiver.requests.filter(({ path }) => path === '/orders/ord_1042')).toHaveLength(1);
  const id = paused.body.id as string;
  const callId = paused.body.required_action.tool_calls[0].id as string;
  const record = await space.api.get(at(`/generations/${id}`));
  expect(record.body).toMatchObject({
    status: 'requires_action',
    stop_reason: null,
    required_action: paused.body.required_action,
  });
  const path = at(`/agents/${agent.id}/generate/${id}/tool-outputs`);
  const done = await space.api.post(path, { tool_outputs: [{ tool_call_id: callId, output: { ok: true } }] });
  expect(done.status).toBe(200);
  expect(done.body).toMatchObject({ id, status: 'completed', output: { content: 'Refunded.' } });
  const again = await space.api.post(path, { tool_outputs: [{ tool_call_id: callId, output: { ok: true } }] });
  expect(again.status).toBe(409);
  expect(again.body.error).toMatchObject({ code: 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS', meta: { generation_id: id } });
  const transcript = await space.api.get(at(`/generations/${id}/transcript`));
  expect(transcript.body.steps).toHaveLength(3);
  expect(transcript.body.steps[1].tool_results).toEqual([
    { tool_call_id: callId, tool_name: 'approve_refund', result: { ok: true }, error: null },
  ]);
});
