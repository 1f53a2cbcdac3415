import { buildAgent, buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { startMcpServer } from '../support/mcp-server';
import type { McpTestServer } from '../support/mcp-server';
import { useWorkspace } from '../support/workspace';

const { space, server, receiver, at } = useWorkspace();
let mcp: McpTestServer;

beforeAll(async () => {
  mcp = await startMcpServer();
});
afterAll(() => mcp.close());

const waited = (agentId: string, body: object = saying('go')) =>
  space.api.post(at(`/agents/${agentId}/generate?wait=true`), body);
const bodies = (id: string) =>
  server
    .calls({ model: space.model })
    .filter(({ key }) => key?.startsWith(id))
    .map(({ body }) => body as Reply['body']);
const transcript = async (id: string) => (await space.api.get(at(`/generations/${id}/transcript`))).body;
const message = (content: object): object => ({ messages: [{ role: 'user', content }] });
const output = (tool_id: string, more: object = {}) => ({ type: 'tool_output', tool_id, ...more });

describe('a message that a tool fills', () => {
  test.each([
    ['a whole result', {}, '{"order":{"state":"sent","days":[1,2]}}'],
    ['a plain path without its dot', { output_path: 'order.state' }, 'sent'],
    ['a jq expression', { output_path: '[.order.days[] * 2]' }, '[2,4]'],
  ])('%s', async (_name, more, said) => {
    receiver.respond({ status: 200, body: { order: { state: 'sent', days: [1, 2] } } }, '/orders/ord_5');
    const tool = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space);
    const { status, body } = await waited(
      agent.id,
      message(output(tool.id, { input: { order_id: 'ord_5' }, ...more })),
    );
    expect(status).toBe(200);
    expect(bodies(body.id)[0]?.messages).toEqual([{ role: 'user', content: said }]);
    const read = await transcript(body.id);
    expect(read.input).toEqual([{ role: 'user', content: said }]);
    expect([read.steps.length, read.steps[0].tool_calls]).toEqual([1, []]);
    expect(body.output.response_messages).toHaveLength(1);
  });

  test('is asked for once, with the context and an idempotency key of its own', async () => {
    receiver.respond({ status: 200, body: '"fine"' }, '/once');
    const tool = await buildHttpTool(space, `${receiver.url}/once`, {
      parameters: { type: 'object' },
      execute: { url: `${receiver.url}/once`, method: 'POST' },
    });
    const agent = await buildAgent(space);
    const { body } = await waited(agent.id, { ...message(output(tool.id)), tool_context: { tenant: 'acme' } });
    const asked = receiver.requests.filter(({ path }) => path === '/once');
    expect(asked).toHaveLength(1);
    expect(asked[0]?.headers).toMatchObject({
      'x-svc-context-tenant': 'acme',
      'idempotency-key': `${body.id}:input-1`,
    });
  });

  test.each([
    ['an answer of 404', '/missing', {}, [502, 'TOOL_HTTP_ERROR']],
    ['an address that may not be called', 'http://169.254.169.254/', {}, [403, 'TOOL_EGRESS_BLOCKED']],
    ['a path without a value', '/there', { output_path: '.nothing' }, [400, 'VALIDATION_FAILED']],
  ])('%s fails the run with the code of the call, and no model is called', async (_name, url, more, refusal) => {
    receiver.respond({ status: 404 }, '/missing');
    receiver.respond({ status: 200, body: '{}' }, '/there');
    const target = url.startsWith('/') ? `${receiver.url}${url}` : url;
    const tool = await buildHttpTool(space, target, { parameters: { type: 'object' } });
    const agent = await buildAgent(space);
    const reply = await waited(agent.id, message(output(tool.id, more)));
    expect([reply.status, reply.body.error.code]).toEqual(refusal);
    const { body } = await space.api.get(at(`/generations?agent_id=${agent.id}`));
    expect(body.data[0]).toMatchObject({
      status: 'failed',
      stop_reason: 'error',
      step_count: 0,
      error: { code: refusal[1] },
    });
    expect(bodies(body.data[0].id)).toEqual([]);
  });

  test('is refused before anything is written where the tool cannot be called', async () => {
    const client = await buildClientTool(space);
    const tool = await buildHttpTool(space, `${receiver.url}/x`, { parameters: { type: 'object' } });
    const agent = await buildAgent(space);
    const refusals = [
      [output('tool_0123456789abcdef'), 400, 'TOOL_NOT_FOUND', 'messages.0.content.tool_id'],
      [output(client.id), 422, 'TOOL_CALL_NOT_SUPPORTED', undefined],
      [output(tool.id, { output_path: '.[' }), 400, 'VALIDATION_FAILED', 'messages.0.content.output_path'],
      [output(tool.id, { action: 'x' }), 400, 'VALIDATION_FAILED', 'messages.0.content.action'],
      [
        { type: 'document', document_id: 'doc_0123456789abcdef' },
        400,
        'DOCUMENT_NOT_FOUND',
        'messages.0.content.document_id',
      ],
      [[{ type: 'text', text: 'parts' }], 400, 'VALIDATION_FAILED', 'messages.0.content'],
      [{ type: 'image' }, 400, 'VALIDATION_FAILED', 'messages.0.content'],
    ] as const;
    for (const [content, status, code, path] of refusals) {
      const reply = await waited(agent.id, message(content));
      expect([reply.status, reply.body.error.code, reply.body.error.details?.[0]?.path]).toEqual([status, code, path]);
    }
    const { body } = await space.api.get(at(`/generations?agent_id=${agent.id}`));
    expect(body.total).toBe(0);
  });
});

describe('tool context of a run', () => {
  test('[tools 6] goes with its calls; what the service sets itself is dropped in any casing', async () => {
    receiver.respond({ status: 200, body: '{}' }, '/orders/ord_8');
    const tool = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
    server.script(space.model, [{ toolCalls: [{ name: 'get_order', args: { order_id: 'ord_8' } }] }, { text: 'ok' }]);
    const tool_context = { Tenant: 'acme', Session_ID: 'x', ACTOR_EXTERNAL_ID: 'y' };
    expect((await waited(agent.id, saying('go', { tool_context }))).status).toBe(200);
    const { headers } = receiver.requests.findLast(({ path }) => path === '/orders/ord_8')!;
    expect(headers['x-svc-context-tenant']).toBe('acme');
    expect(Object.keys(headers).filter((name) => /session_id|actor/.test(name))).toEqual([]);
  });

  test('a bad key is refused and named; the same key with another context is another request', async () => {
    const agent = await buildAgent(space);
    const bad = await waited(agent.id, saying('go', { tool_context: { 'no key': 'x' } }));
    expect([bad.status, bad.body.error.code, bad.body.error.meta.keys]).toEqual([
      400,
      'INVALID_TOOL_CONTEXT_KEY',
      ['no key'],
    ]);
    const wrong = await waited(agent.id, saying('go', { tool_context: { a: 1 } }));
    expect([wrong.status, wrong.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
    const first = { tool_context: { a: '1' }, idempotency_key: 'context-key' };
    expect((await waited(agent.id, saying('go', first))).status).toBe(200);
    const other = await waited(agent.id, saying('go', { ...first, tool_context: { a: '2' } }));
    expect([other.status, other.body.error.code]).toEqual([409, 'IDEMPOTENCY_KEY_REUSED']);
  });
});

test('[tools 5] a client is asked with the pinned arguments, and its output goes through the mapping of the tool', async () => {
  const tool = await buildClientTool(space, {
    preset_parameters: { account: '{{context:account}}' },
    parameters: {
      type: 'object',
      properties: { order_id: { type: 'string' }, account: { type: 'integer' } },
      required: ['order_id', 'account'],
    },
    output_mapping: { cat: ['mapped ', { var: 'output.word' }, ' of ', { var: 'input.account' }] },
  });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
  server.script(space.model, [
    { toolCalls: [{ id: 'c', name: 'approve_refund', args: { order_id: 'o', account: 1 } }] },
    { text: 'Done.' },
  ]);
  const paused = await waited(agent.id, saying('go', { tool_context: { account: '7' } }));
  expect(paused.body.required_action.tool_calls[0].args).toEqual({ order_id: 'o', account: 7 });
  expect((await space.api.get(at(`/generations/${paused.body.id}`))).body.required_action.tool_calls[0].args).toEqual({
    order_id: 'o',
    account: 7,
  });
  const done = await space.api.post(at(`/agents/${agent.id}/generate/${paused.body.id}/tool-outputs`), {
    tool_outputs: [{ tool_call_id: 'c', output: { word: 'yes' } }],
  });
  expect(done.body.status).toBe('completed');
  expect(bodies(paused.body.id)[0]?.tools[0].function.parameters).toEqual({
    type: 'object',
    properties: { order_id: { type: 'string' } },
    required: ['order_id'],
  });
  expect(bodies(paused.body.id)[1]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'mapped yes of 7' });
  expect((await transcript(paused.body.id)).steps[0].tool_results[0].result).toBe('mapped yes of 7');
});

describe('mcp tools of an agent', () => {
  const mcpTool = async (url: string, more: object = {}) =>
    created(await space.api.post(at('/tools'), { name: 'srv', type: 'mcp', mcp: { url }, ...more }));

  test('are listed when a run begins, offered under their names and called', async () => {
    const tool = await mcpTool(mcp.url, { actions: ['echo'] });
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
    server.script(space.model, [{ toolCalls: [{ name: 'srv_echo', args: { text: 'hi' } }] }, { text: 'ok' }]);
    const { status, body } = await waited(agent.id);
    expect(status).toBe(200);
    expect(bodies(body.id)[0]?.tools.map((given: { function: { name: string } }) => given.function.name)).toEqual([
      'srv_echo',
    ]);
    expect(JSON.stringify((await transcript(body.id)).steps[0].tool_results[0])).toContain('hi');
  });

  test('[tools 7] of a server that is down are left out: the run uses the other tool, and the model is told', async () => {
    const tool = await mcpTool('http://127.0.0.1:9/mcp');
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }, { tool_id: lookup.id }] });
    server.script(space.model, [{ toolCalls: [{ name: 'get_order', args: { order_id: 'o' } }] }, { text: 'ok' }]);
    const { status, body } = await waited(agent.id);
    expect([status, body.status]).toEqual([200, 'completed']);
    expect(bodies(body.id)[0]?.messages[0]).toEqual({
      role: 'system',
      content: 'These tools are unavailable for now: srv.',
    });
  });

  test('a forced one that cannot be had fails the run', async () => {
    const tool = await mcpTool('http://127.0.0.1:9/mcp');
    const agent = await buildAgent(space, {
      tool_bindings: [{ tool_id: tool.id }],
      tool_choice: { type: 'tool', tool_name: 'srv_echo' },
      stop_conditions: [{ type: 'has_tool_call', tool_name: 'srv_echo' }],
    });
    const { status, body } = await waited(agent.id);
    expect([status, body.error.code]).toEqual([422, 'TOOL_UNAVAILABLE']);
    await eventually(async () => {
      const { body: row } = await space.api.get(at(`/generations/${body.error.meta.generation_id}`));
      expect(row.error.code).toBe('TOOL_UNAVAILABLE');
    });
  });
});
