import { buildAgent, buildClientTool, buildHttpTool, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { openStream } from '../support/stream';
import { useWorkspace } from '../support/workspace';

const { service, owner, space, server, receiver, at } = useWorkspace();

const waited = (agentId: string, body: object = saying('go')) =>
  space.api.post(at(`/agents/${agentId}/generate?wait=true`), body);
const record = async (id: string) => (await space.api.get(at(`/generations/${id}`))).body;
const bodies = (id: string) =>
  server
    .calls({ model: space.model })
    .filter(({ key }) => key?.startsWith(id))
    .map(({ body }) => body as Reply['body']);
const look = { name: 'get_order', args: { order_id: 'ord_1' } };

describe('output schema', () => {
  const output_schema = {
    type: 'object',
    required: ['capital'],
    properties: { capital: { type: 'string' }, since: { type: 'string', format: 'date' } },
  };

  test('an answer that satisfies it is also given as an object; formats are not asserted', async () => {
    const agent = await buildAgent(space, { output_schema });
    server.script(space.model, [{ text: '{"capital":"Bern","since":"long ago"}' }]);
    const { status, body } = await waited(agent.id);
    expect([status, body.output.object]).toEqual([200, { capital: 'Bern', since: 'long ago' }]);
    expect(body.output.content).toBe('{"capital":"Bern","since":"long ago"}');
    expect(JSON.stringify(bodies(body.id)[0]?.messages)).toContain('capital');
  });

  test.each([
    ['{"town":"Bern"}', /capital/],
    ['{"capital":7}', /capital.*string/],
    ['Bern', /not JSON/],
  ])('[generations 5] %s fails the run, with the field in the message', async (text, message) => {
    const agent = await buildAgent(space, { output_schema });
    server.script(space.model, [{ text }]);
    const { status, body } = await waited(agent.id);
    expect([status, body.error.code]).toEqual([502, 'OUTPUT_SCHEMA_VALIDATION_FAILED']);
    expect(body.error.message).toMatch(message);
    const row = await record(body.error.meta.generation_id);
    expect(row).toMatchObject({
      status: 'failed',
      stop_reason: 'error',
      trace_id: body.error.meta.trace_id,
      error: { code: 'OUTPUT_SCHEMA_VALIDATION_FAILED' },
    });
    expect(row.usage.output_tokens).toBeGreaterThan(0);
  });

  test('only the text of the last step is checked: tools may run before it', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, { output_schema, tool_bindings: [{ tool_id: lookup.id }] });
    server.script(space.model, [{ text: 'Let me look.', toolCalls: [look] }, { text: '{"capital":"Bern"}' }]);
    const { body } = await waited(agent.id);
    expect(body.output).toMatchObject({ object: { capital: 'Bern' }, finish_reason: 'stop' });
  });

  test('a stream is never constrained by it', async () => {
    const agent = await buildAgent(space, { output_schema });
    server.script(space.model, [{ text: 'Bern' }]);
    const open = await openStream(`${service.baseUrl}${at(`/agents/${agent.id}/generate`)}`, {
      token: owner.token,
      body: { ...saying('x'), stream: true },
    });
    expect((await open.rest()).at(-1)).toBe('data: [DONE]');
    expect(await record(open.headers.get('x-svc-generation-id') ?? '')).toMatchObject({ status: 'completed' });
  });
});

describe('a tool call written out', () => {
  const text = '```json\n{"name":"get_order","arguments":{"order_id":"ord_1"}}\n```';

  test('fails the run and names the tool', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }] });
    server.script(space.model, [{ text }]);
    const { status, body } = await waited(agent.id);
    expect([status, body.error.code, body.error.meta.tool_name]).toEqual([502, 'TEXT_ENCODED_TOOL_CALL', 'get_order']);
    expect(body.error.meta).toMatchObject({ generation_id: expect.any(String), trace_id: expect.any(String) });
  });

  test('of a tool that the agent has not is only text, and so is one under an output schema', async () => {
    const plain = await buildAgent(space);
    server.script(space.model, [{ text }]);
    expect((await waited(plain.id)).status).toBe(200);
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const shaped = await buildAgent(space, {
      tool_bindings: [{ tool_id: lookup.id }],
      output_schema: { type: 'object' },
    });
    server.script(space.model, [{ text: '{"name":"get_order","arguments":{}}' }]);
    expect((await waited(shaped.id)).status).toBe(200);
  });

  test('on a stream the text is out, and the record is failed all the same', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }] });
    server.script(space.model, [{ text }]);
    const open = await openStream(`${service.baseUrl}${at(`/agents/${agent.id}/generate`)}`, {
      token: owner.token,
      body: { ...saying('x'), stream: true },
    });
    const frames = await open.rest();
    expect(frames.at(-1)).toMatch(/^data: \{"error":"The model wrote a call of get_order/);
    expect(await record(open.headers.get('x-svc-generation-id') ?? '')).toMatchObject({
      status: 'failed',
      error: { code: 'TEXT_ENCODED_TOOL_CALL' },
    });
  });
});

describe('steering', () => {
  const has = (tool_name: string) => [{ type: 'has_tool_call', tool_name }];

  test('a stop condition ends the turn after the step that calls its tool, with an empty content', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, {
      tool_bindings: [{ tool_id: lookup.id }],
      tool_choice: 'required',
      stop_conditions: has('get_order'),
    });
    server.script(space.model, [{ text: 'Looking.', toolCalls: [look] }, { text: 'never said' }]);
    const { status, body } = await waited(agent.id);
    expect([status, body.status, body.output.content]).toEqual([200, 'completed', '']);
    expect(await record(body.id)).toMatchObject({ stop_reason: 'tool-calls', step_count: 1 });
    expect(bodies(body.id)).toHaveLength(1);
    expect(bodies(body.id)[0]).toMatchObject({ tool_choice: 'required' });
    expect(body.output.response_messages.at(-1).content[0]).toMatchObject({ type: 'tool-result' });
  });

  test('a client tool that stops the turn pauses it first; its output ends it without a further model call', async () => {
    const refund = await buildClientTool(space);
    const agent = await buildAgent(space, {
      tool_bindings: [{ tool_id: refund.id }],
      tool_choice: { type: 'tool', tool_name: 'approve_refund' },
      stop_conditions: has('approve_refund'),
    });
    server.script(space.model, [{ toolCalls: [{ id: 'c', name: 'approve_refund', args: { order_id: 'o' } }] }]);
    const { body } = await waited(agent.id);
    expect(body.status).toBe('requires_action');
    expect(bodies(body.id)[0]?.tool_choice).toEqual({ type: 'function', function: { name: 'approve_refund' } });
    const done = await space.api.post(at(`/agents/${agent.id}/generate/${body.id}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'c', output: 'ok' }],
    });
    expect([done.status, done.body.status]).toEqual([200, 'completed']);
    expect(await record(body.id)).toMatchObject({ stop_reason: 'tool-calls', step_count: 1 });
    expect(bodies(body.id)).toHaveLength(1);
  });

  test('rules of single steps choose what they offer and force; the others go by the agent', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const refund = await buildClientTool(space);
    const agent = await buildAgent(space, {
      tool_bindings: [{ tool_id: lookup.id }, { tool_id: refund.id }],
      active_tool_ids: [lookup.id],
      step_rules: [
        { step: 1, tool_choice: 'required' },
        { step: 2, active_tool_ids: [refund.id] },
      ],
    });
    server.script(space.model, [{ toolCalls: [look] }, { toolCalls: [look] }, { text: 'Done.' }]);
    const { body } = await waited(agent.id);
    expect(body.status).toBe('completed');
    const sent = bodies(body.id).map(({ tools, tool_choice }) => [
      tools.map((tool: { function: { name: string } }) => tool.function.name),
      tool_choice,
    ]);
    expect(sent).toEqual([
      [['get_order'], 'required'],
      [['approve_refund'], 'auto'],
      [['get_order'], 'auto'],
    ]);
    const { body: transcript } = await space.api.get(at(`/generations/${body.id}/transcript`));
    expect(transcript.steps[1].tool_results[0].error).toMatchObject({ name: 'ToolNotFound' });
  });

  test('a forced tool that is not there any more fails the run without a model call', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
    const agent = await buildAgent(space, {
      tool_bindings: [{ tool_id: lookup.id }],
      tool_choice: { type: 'tool', tool_name: 'get_order' },
      stop_conditions: has('get_order'),
    });
    await space.api.delete(at(`/tools/${lookup.id}?force=true`));
    const { status, body } = await waited(agent.id);
    expect([status, body.error.code, body.error.meta.tool_name]).toEqual([422, 'TOOL_UNAVAILABLE', 'get_order']);
    expect(bodies(body.error.meta.generation_id)).toEqual([]);
  });
});

test('at depth 0 the answer is the depth guard, without a model call; 11 is refused', async () => {
  const agent = await buildAgent(space);
  const { status, body } = await waited(agent.id, saying('x', { max_call_depth: 0 }));
  expect([status, body.status, body.output.content]).toEqual([200, 'completed', 'Maximum call depth reached']);
  expect(await record(body.id)).toMatchObject({ stop_reason: 'depth_guard', step_count: 0 });
  expect(bodies(body.id)).toEqual([]);
  const refused = await waited(agent.id, saying('x', { max_call_depth: 11 }));
  expect([refused.status, refused.body.error.details[0].path]).toEqual([400, 'max_call_depth']);
});
