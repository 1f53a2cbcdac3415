import { config } from '../../src/api/core/config';
import { query } from '../../src/api/core/db';
import { buildAgent, buildClientTool, buildHttpTool, saying, workspace } from '../support/builders';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';

const { service, space, server, receiver, at } = useWorkspace();

const settled = (id: string) =>
  eventually(
    async () => {
      const { body } = await space.api.get(at(`/generations/${id}`));
      if (body.status === 'in_progress') throw new Error('still running');
      return body;
    },
    { timeoutMs: 15_000 },
  );

test('[generations 1] a background run answers 202 at once, is readable at once and completes', async () => {
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

describe('outputs that are sent while others of their pause are taken', () => {
  const ask = (id: string) => ({ toolCalls: [{ id, name: 'approve_refund', args: { order_id: 'ord_1' } }] });

  /** A run at its first of two pauses, and one who sends its outputs: from `hold` on nothing is stored until `go`. */
  async function paused() {
    const refund = await buildClientTool(space);
    const agent = await buildAgent(space, { tool_bindings: [{ tool_id: refund.id }] });
    server.script(space.model, [ask('first'), ask('second'), { text: 'Done.' }]);
    const { body } = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
    const path = at(`/agents/${agent.id}/generate/${String(body.id)}/tool-outputs`);
    return (callId: string, key?: string) =>
      space.api.post(path, {
        tool_outputs: [{ tool_call_id: callId, output: 'yes' }],
        ...(key === undefined ? {} : { idempotency_key: key }),
      });
  }

  /** Holds the next submission once it has seen that none has its key. */
  function hold(): { seen: Promise<void>; go: () => void } {
    let go = (): void => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    const world = globalThis as { svcFaultPoint?: ((name: string) => Promise<void> | void) | undefined };
    const seen = new Promise<void>((resolve) => {
      world.svcFaultPoint = (name) => {
        if (name !== 'outputs-mapped') return;
        world.svcFaultPoint = undefined;
        resolve();
        return gate;
      };
    });
    return { seen, go };
  }

  test.each([
    ['the same key gets what the one that was taken got', 'k1', 200],
    ['another key comes too late', 'k2', 409],
    ['no key comes too late', undefined, 409],
  ])('%s', async (_what, key, status) => {
    const send = await paused();
    const { seen, go } = hold();
    const held = send('first', key);
    await seen;
    const taken = await send('first', 'k1');
    expect(taken).toMatchObject({ status: 200, body: { status: 'requires_action' } });
    go();
    const late = await held;
    expect(late.status).toBe(status);
    if (status === 200) expect(late.body).toEqual(taken.body);
    else expect(late.body.error.code).toBe('GENERATION_NOT_AWAITING_TOOL_OUTPUTS');
    expect(await send('second')).toMatchObject({ status: 200, body: { output: { content: 'Done.' } } });
  });

  test('the same key gets the end of a run that has ended by then', async () => {
    const send = await paused();
    expect((await send('first')).body.status).toBe('requires_action');
    const { seen, go } = hold();
    const held = send('second', 'k1');
    await seen;
    const taken = await send('second', 'k1');
    expect(taken).toMatchObject({ status: 200, body: { status: 'completed', output: { content: 'Done.' } } });
    go();
    expect(await held).toMatchObject({ status: 200, body: taken.body });
  });
});

describe('what a caller may not send', () => {
  test.each([
    ['no messages', {}, 'messages'],
    ['an empty list', { messages: [] }, 'messages'],
    ['an unknown role', { messages: [{ role: 'tool', content: 'x' }] }, 'messages.0.role'],
    ['empty content', { messages: [{ role: 'user', content: '' }] }, 'messages.0.content'],
    ['content parts', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }] }, 'messages.0.content'],
    ['a stream that is no boolean', saying('x', { stream: 'yes' }), 'stream'],
    ['an unknown property', saying('x', { colour: 'red' }), 'colour'],
    ['a tool context that is no map of texts', saying('x', { tool_context: [] }), 'tool_context'],
    ['knowledge, which is not in this build', saying('x', { knowledge_config: {} }), 'knowledge_config'],
    ['an unknown trace', saying('x', { trace_id: 'trace_0000000000000000' }), 'trace_id'],
    ['an empty key', saying('x', { idempotency_key: '' }), 'idempotency_key'],
    ['a key of 256 characters', saying('x', { idempotency_key: 'k'.repeat(256) }), 'idempotency_key'],
    ['a key that is no text', saying('x', { idempotency_key: 7 }), 'idempotency_key'],
    ['metadata that is no object', saying('x', { metadata: 'x' }), 'metadata'],
  ])('%s is refused, naming the field, and no run is made', async (_name, body, path) => {
    const agent = await buildAgent(space);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate`), body);
    expect(reply.status).toBe(400);
    expect(reply.body.error.code).toBe('VALIDATION_FAILED');
    expect(reply.body.error.details.map((problem: { path: string }) => problem.path)).toContain(path);
    const list = await space.api.get(at(`/generations?agent_id=${agent.id}`));
    expect(list.body.total).toBe(0);
  });

  test('a system message is refused by its own code', async () => {
    const agent = await buildAgent(space);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate`), {
      messages: [{ role: 'system', content: 'x' }],
    });
    expect([reply.status, reply.body.error.code]).toEqual([400, 'SYSTEM_MESSAGE_NOT_ALLOWED']);
  });

  test('a wait that is neither true nor false is a bad query value', async () => {
    const agent = await buildAgent(space);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=maybe`), saying('x'));
    expect([reply.status, reply.body.error.code, reply.body.error.details[0].path]).toEqual([
      400,
      'bad_request',
      'query.wait',
    ]);
  });

  test.each([
    ['post', '/agents/agent_0000000000000000/generate', saying('x')],
    ['post', '/agents/nonsense/generate', saying('x')],
    ['get', '/generations/gen_0000000000000000', undefined],
    ['get', '/generations/gen_0000000000000000/transcript', undefined],
    ['post', '/generations/gen_0000000000000000/cancel', undefined],
    [
      'post',
      '/agents/agent_0000000000000000/generate/gen_0000000000000000/tool-outputs',
      { tool_outputs: [{ tool_call_id: 'a', output: 1 }] },
    ],
  ] as const)('%s %s: unknown is 404, no credential 401, a stranger 404', async (method, path, body) => {
    const call = (api: ReturnType<typeof service.client>) =>
      method === 'get' ? api.get(at(path)) : api.post(at(path), body);
    expect((await call(space.api)).status).toBe(404);
    expect((await call(service.client())).status).toBe(401);
    expect((await call(service.client((await service.signedIn()).token))).body.error.code).toBe('not_found');
  });

  test('a list filter that does not exist, a bad status and a bad limit are 400', async () => {
    for (const [query, path] of [
      ['colour=red', 'query.colour'],
      ['status=lost', 'query.status'],
      ['limit=abc', 'query.limit'],
    ]) {
      const reply = await space.api.get(at(`/generations?${query ?? ''}`));
      expect([reply.status, reply.body.error.code, reply.body.error.details[0].path]).toEqual([
        400,
        'bad_request',
        path,
      ]);
    }
    expect((await service.client().get(at('/generations'))).status).toBe(401);
  });
});

describe('projects that do not run', () => {
  test.each([
    ['paused_at = now(), pause_reason = $2', 'PROJECT_PAUSED', { pause_reason: 'spent' }],
    ["status = 'archived', pause_reason = $2", 'PROJECT_ARCHIVED', undefined],
  ])('[projects 4] %s refuses a start and writes nothing', async (change, code, meta) => {
    const owner = await service.signedIn();
    const project = await service.project(owner);
    const own = await workspace(service.client(owner.token), project.id, server.url);
    const agent = await buildAgent(own);
    await query(`update projects set ${change} where id = $1`, [project.id, 'spent']);
    const reply = await own.api.post(`${own.at}/agents/${agent.id}/generate`, saying('x'));
    expect([reply.status, reply.body.error.code]).toEqual([409, code]);
    if (meta !== undefined) expect(reply.body.error.meta).toEqual(meta);
    expect((await own.api.get(`${own.at}/generations`)).body.total).toBe(0);
  });
});

/** Acts while another secret signs, and the one from before still verifies. */
async function afterRotation<T>(act: () => Promise<T>): Promise<T> {
  const settings = config();
  const former = settings.JWT_SECRET;
  settings.JWT_SECRET = 'another secret of the tests, also long enough';
  settings.JWT_SECRETS_PREVIOUS.push(former);
  try {
    return await act();
  } finally {
    settings.JWT_SECRET = former;
    settings.JWT_SECRETS_PREVIOUS.pop();
  }
}

describe('idempotency', () => {
  test('[generations 3] the same key and request answers the run that is there; another request is refused', async () => {
    const agent = await buildAgent(space, { model: `${space.model}-once` });
    const path = at(`/agents/${agent.id}/generate`);
    const first = await space.api.post(path, saying('once', { idempotency_key: 'k1' }));
    expect(first.status).toBe(202);
    const repeat = await space.api.post(`${path}?wait=true`, saying('once', { idempotency_key: 'k1' }));
    expect(repeat.status).toBe(202);
    expect(repeat.body.id).toBe(first.body.id);
    expect(['in_progress', 'completed']).toContain(repeat.body.status);
    await settled(first.body.id);
    const later = await space.api.post(path, saying('once'), { 'Idempotency-Key': 'k1' });
    expect(later.body).toMatchObject({ id: first.body.id, status: 'completed', output: { content: 'You said: once' } });
    const rotated = await afterRotation(() => space.api.post(path, saying('once', { idempotency_key: 'k1' })));
    expect([rotated.status, rotated.body.id]).toEqual([later.status, first.body.id]);
    const other = await space.api.post(path, saying('twice', { idempotency_key: 'k1' }));
    expect([other.status, other.body.error.code]).toEqual([409, 'IDEMPOTENCY_KEY_REUSED']);
    expect((await space.api.get(at(`/generations?agent_id=${agent.id}`))).body.total).toBe(1);
  });

  test('the body wins over the header', async () => {
    const agent = await buildAgent(space);
    const path = at(`/agents/${agent.id}/generate`);
    const first = await space.api.post(path, saying('x', { idempotency_key: 'in-body' }), {
      'Idempotency-Key': 'in-header',
    });
    const second = await space.api.post(path, saying('x'), { 'Idempotency-Key': 'in-header' });
    expect(second.body.id).not.toBe(first.body.id);
  });
});

describe('providers that fail', () => {
  const run = async (replies: object[], body: object = saying('hello')) => {
    const agent = await buildAgent(space, { model: `${space.model}-${String(Math.random()).slice(2)}` });
    const { model } = (await space.api.get(at(`/agents/${agent.id}`))).body;
    server.script(model, replies);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), body);
    return { reply, calls: server.calls({ model }) };
  };

  test('a refusal is not repeated and answers 502 with the ids; the record is readable', async () => {
    const { reply, calls } = await run([{ status: 404, body: { error: { message: 'no such model' } } }]);
    expect(reply.status).toBe(502);
    expect(reply.body.error).toMatchObject({
      code: 'AI_PROVIDER_ERROR',
      message: expect.stringMatching(/^Provider returned 404: /),
      meta: {
        provider_status_code: 404,
        generation_id: expect.stringMatching(/^gen_/),
        trace_id: expect.stringMatching(/^trace_/),
      },
    });
    expect(calls).toHaveLength(1);
    const record = await space.api.get(at(`/generations/${String(reply.body.error.meta.generation_id)}`));
    expect(record.body).toMatchObject({ status: 'failed', stop_reason: 'error', error: { code: 'AI_PROVIDER_ERROR' } });
  });

  test('a 500 is tried three times, under one idempotency key, then the run fails', async () => {
    const { reply, calls } = await run([{ status: 500, body: { error: { message: 'oops' } } }]);
    expect([reply.status, reply.body.error.code]).toEqual([502, 'AI_PROVIDER_ERROR']);
    expect(calls).toHaveLength(3);
    expect(new Set(calls.map(({ key }) => key))).toEqual(new Set([`${String(reply.body.error.meta.generation_id)}:1`]));
  });

  test('a 429 that passes is waited out as the provider asks', async () => {
    const { reply, calls } = await run([
      {
        status: 429,
        headers: { 'retry-after': '2' },
        body: { error: { message: 'slow down' } },
        times: 1,
        then: { text: 'now' },
      },
    ]);
    expect(reply.body).toMatchObject({ status: 'completed', output: { content: 'now' } });
    expect(calls).toHaveLength(2);
    expect(new Date(calls[1]!.at).getTime() - new Date(calls[0]!.at).getTime()).toBeGreaterThanOrEqual(1_950);
  });

  test('an answer that cannot be read fails the run without another call', async () => {
    const { reply, calls } = await run([{ malformed: 'this is not json' }]);
    expect([reply.status, reply.body.error.code]).toEqual([502, 'AI_PROVIDER_ERROR']);
    expect(calls).toHaveLength(1);
  });

  test('a provider whose secret is gone is misconfigured', async () => {
    const secret = await space.api.post(at('/secrets'), { name: 's', value: 'sk-123' });
    const provider = await space.api.post(at('/ai-providers'), {
      name: 'p',
      provider: 'custom',
      default_model: 'm',
      base_url: server.url,
      secret_id: secret.body.id,
    });
    await query('update secrets set value_data = $2 where id = $1', [secret.body.id, Buffer.alloc(40)]);
    const agent = await buildAgent({ ...space, providerId: provider.body.id });
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
    expect([reply.status, reply.body.error.code]).toEqual([400, 'AI_PROVIDER_MISCONFIGURED']);
  });
});

describe('tools in a run', () => {
  const withTools = async (toolIds: string[], replies: object[], given: object = {}) => {
    const model = `${space.model}-${String(Math.random()).slice(2)}`;
    const agent = await buildAgent(space, { model, tool_bindings: toolIds.map((tool_id) => ({ tool_id })), ...given });
    server.script(model, replies);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
    const transcript = await space.api.get(at(`/generations/${String(reply.body.id)}/transcript`));
    return { reply, agent, model, transcript: transcript.body };
  };

  test("[generations 6] a target that answers 404 is the call's error, not the run's", async () => {
    receiver.respond({ status: 404, body: 'nothing here' }, '/missing/1');
    const lookup = await buildHttpTool(space, `${receiver.url}/missing/{order_id}`);
    const { reply, transcript } = await withTools(
      [lookup.id],
      [{ toolCalls: [{ name: 'get_order', args: { order_id: '1' } }] }, { text: 'Not found.' }],
    );
    expect(reply.body.status).toBe('completed');
    expect(transcript.error).toBeNull();
    expect(transcript.steps[0].tool_results[0]).toMatchObject({ result: null, error: { status: 404, method: 'GET' } });
  });

  test('arguments against the schema, unknown tools and broken arguments are told to the model', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/never/{order_id}`);
    const { reply, transcript } = await withTools(
      [lookup.id],
      [
        {
          toolCalls: [
            { name: 'get_order', args: { order_id: 7 } },
            { name: 'no_such_tool', args: {} },
            { name: 'get_order', args: '{broken' },
          ],
        },
        { text: 'done' },
      ],
    );
    expect(reply.body.status).toBe('completed');
    expect(transcript.steps[0].tool_results.map(({ error }: { error: { name: string } }) => error.name)).toEqual([
      'InvalidArguments',
      'ToolNotFound',
      'InvalidArguments',
    ]);
    expect(receiver.requests.some(({ path }) => path.startsWith('/never'))).toBe(false);
  });

  test('parallel calls of one step run at once, and the pause comes after the calls made here', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/parallel/{order_id}`);
    const refund = await buildClientTool(space);
    const { reply, agent, model } = await withTools(
      [lookup.id, refund.id],
      [
        {
          toolCalls: [
            { id: 'a', name: 'get_order', args: { order_id: '1' } },
            { id: 'b', name: 'approve_refund', args: { order_id: '1' } },
            { id: 'c', name: 'get_order', args: { order_id: '2' } },
          ],
        },
        { text: 'all done' },
      ],
    );
    expect(reply.body.required_action.tool_calls.map(({ id }: { id: string }) => id)).toEqual(['b']);
    expect(receiver.requests.filter(({ path }) => path.startsWith('/parallel/'))).toHaveLength(2);
    const done = await space.api.post(at(`/agents/${agent.id}/generate/${String(reply.body.id)}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'b', output: 'yes' }],
    });
    expect(done.body.status).toBe('completed');
    const last = server.calls({ model }).at(-1)!.body as {
      messages: { role: string; tool_call_id?: string; tool_calls?: { id: string }[] }[];
    };
    const asked = last.messages.flatMap(({ tool_calls: calls }) => (calls ?? []).map(({ id }) => id));
    const answered = last.messages.filter(({ role }) => role === 'tool').map(({ tool_call_id: id }) => id);
    expect(answered.sort()).toEqual(asked.sort());
  });

  test('a run that spends its steps completes with max_steps, its last calls made', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/spent/{order_id}`);
    const { reply, transcript } = await withTools(
      [lookup.id],
      [{ toolCalls: [{ name: 'get_order', args: { order_id: '1' } }] }],
      { max_steps: 2 },
    );
    expect(reply.body).toMatchObject({ status: 'completed', output: { content: '', finish_reason: 'tool-calls' } });
    expect(transcript).toMatchObject({ stop_reason: 'max_steps', step_count: 2 });
    expect(receiver.requests.filter(({ path }) => path === '/spent/1')).toHaveLength(2);
  });

  test('outputs sent when the budget is spent are recorded, and no model is called', async () => {
    const refund = await buildClientTool(space);
    const { reply, agent, model } = await withTools(
      [refund.id],
      [{ toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '1' } }] }],
      { max_steps: 1 },
    );
    expect(reply.body.status).toBe('requires_action');
    const done = await space.api.post(at(`/agents/${agent.id}/generate/${String(reply.body.id)}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'c1', output: 'yes' }],
    });
    expect(done.body.status).toBe('completed');
    expect(server.calls({ model })).toHaveLength(1);
    const record = await space.api.get(at(`/generations/${String(reply.body.id)}`));
    expect(record.body).toMatchObject({ stop_reason: 'max_steps', step_count: 1 });
  });

  test('more than 64 calls in a step fail the run', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/many/{order_id}`);
    const { reply } = await withTools(
      [lookup.id],
      [
        {
          toolCalls: Array.from({ length: 65 }, (_, index) => ({
            name: 'get_order',
            args: { order_id: String(index) },
          })),
        },
      ],
    );
    expect([reply.status, reply.body.error.code]).toEqual([500, 'GENERATION_FAILED']);
    expect(receiver.requests.some(({ path }) => path.startsWith('/many/'))).toBe(false);
  });

  test('a tool deleted since is left out, and the model is told', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/x/{order_id}`, { name: 'short_lived' });
    const model = `${space.model}-gone`;
    const agent = await buildAgent(space, { model, tool_bindings: [{ tool_id: lookup.id }] });
    expect((await space.api.delete(at(`/tools/${lookup.id}?force=true`))).status).toBe(204);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
    expect(reply.body.status).toBe('completed');
    const sent = server.calls({ model })[0]!.body as {
      messages: { role: string; content: string }[];
      tools?: unknown[];
    };
    expect(sent.tools).toBeUndefined();
    expect(sent.messages[0]!.content).toContain('unavailable');
  });
});

describe('tool outputs', () => {
  const pausedRun = async () => {
    const refund = await buildClientTool(space);
    const model = `${space.model}-${String(Math.random()).slice(2)}`;
    const agent = await buildAgent(space, { model, tool_bindings: [{ tool_id: refund.id }] });
    server.script(model, [
      {
        toolCalls: [
          { id: 'c1', name: 'approve_refund', args: { order_id: 'ord_1042' } },
          { id: 'c2', name: 'approve_refund', args: { order_id: 'ord_2' } },
        ],
      },
      { text: 'done' },
    ]);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
    const id = reply.body.id as string;
    return { agent, model, id, path: at(`/agents/${agent.id}/generate/${id}/tool-outputs`) };
  };
  const both = (first: unknown = 1): object[] => [
    { tool_call_id: 'c1', output: first },
    { tool_call_id: 'c2', output: 2 },
  ];

  test.each([
    ['a missing call', [{ tool_call_id: 'c1', output: 1 }], /c2/],
    ['an unknown call', [...both(), { tool_call_id: 'c9', output: 1 }], /c9/],
    ['a doubled call', [...both(), { tool_call_id: 'c1', output: 1 }], /c1/],
    ['an entry without an output', [{ tool_call_id: 'c1' }, { tool_call_id: 'c2', output: 1 }], /output/],
  ])('%s is 400, and the pause stands', async (_name, outputs, naming) => {
    const { path, id } = await pausedRun();
    const refused = await space.api.post(path, { tool_outputs: outputs });
    expect([refused.status, refused.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(JSON.stringify(refused.body.error.details)).toMatch(naming);
    expect((await space.api.get(at(`/generations/${id}`))).body.status).toBe('requires_action');
    expect((await space.api.post(path, { tool_outputs: both() })).status).toBe(200);
  });

  test('[generations 2] one submission is taken; with its key it is answered again; usage adds up under one id', async () => {
    const { path, id } = await pausedRun();
    const before = (await space.api.get(at(`/generations/${id}`))).body.usage;
    const body = { tool_outputs: both(), idempotency_key: 'once' };
    const first = await space.api.post(path, body);
    expect([first.status, first.body.status, first.body.id]).toEqual([200, 'completed', id]);
    const again = await space.api.post(path, body);
    expect([again.status, again.body]).toEqual([200, first.body]);
    const rotated = await afterRotation(() => space.api.post(path, body));
    expect([rotated.status, rotated.body]).toEqual([200, first.body]);
    const other = await space.api.post(path, { tool_outputs: both('other'), idempotency_key: 'once' });
    expect([other.status, other.body.error.code]).toEqual([409, 'IDEMPOTENCY_KEY_REUSED']);
    const without = await space.api.post(path, { tool_outputs: both() });
    expect([without.status, without.body.error.code]).toEqual([409, 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS']);
    const record = (await space.api.get(at(`/generations/${id}`))).body;
    expect(record.step_count).toBe(2);
    expect(record.usage.input_tokens).toBeGreaterThan(before.input_tokens);
  });

  test('a generation of another agent is not found', async () => {
    const { id } = await pausedRun();
    const other = await buildAgent(space);
    const reply = await space.api.post(at(`/agents/${other.id}/generate/${id}/tool-outputs`), { tool_outputs: both() });
    expect([reply.status, reply.body.error.code]).toEqual([404, 'not_found']);
  });

  test('a paused project takes no outputs, and the pause of the run stands', async () => {
    const { path, id } = await pausedRun();
    await query('update projects set paused_at = now() where id = $1', [space.projectId]);
    const refused = await space.api.post(path, { tool_outputs: both() });
    await query('update projects set paused_at = null where id = $1', [space.projectId]);
    expect([refused.status, refused.body.error.code]).toEqual([409, 'PROJECT_PAUSED']);
    expect((await space.api.post(path, { tool_outputs: both() })).body).toMatchObject({ id, status: 'completed' });
  });

  test('a cancelled pause ends failed; cancelling again and late outputs are refused', async () => {
    const { path, id } = await pausedRun();
    const cancelled = await space.api.post(at(`/generations/${id}/cancel`));
    expect(cancelled.status).toBe(200);
    expect(cancelled.body).toMatchObject({
      status: 'failed',
      stop_reason: 'cancelled',
      error: { code: 'GENERATION_CANCELLED' },
      required_action: null,
    });
    const again = await space.api.post(at(`/generations/${id}/cancel`));
    expect([again.status, again.body.error.code]).toEqual([409, 'GENERATION_ALREADY_SETTLED']);
    const late = await space.api.post(path, { tool_outputs: both() });
    expect([late.status, late.body.error.code]).toEqual([409, 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS']);
  });
});

describe('cancel', () => {
  test('a run in a model call is cancelled at once, the call is dropped and changes nothing later', async () => {
    const model = `${space.model}-held`;
    const agent = await buildAgent(space, { model });
    server.script(model, [{ text: 'too late', hold: 'held-for-cancel' }]);
    const waiting = space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
    const call = await server.waitForCall({ model });
    const id = call.generationId!;
    const cancelled = await space.api.post(at(`/generations/${id}/cancel`));
    expect([cancelled.status, cancelled.body.stop_reason]).toEqual([200, 'cancelled']);
    const waited = await waiting;
    expect([waited.status, waited.body.error.code]).toEqual([500, 'GENERATION_FAILED']);
    await eventually(
      () => {
        expect(server.calls({ model })[0]!.aborted).toBe(true);
      },
      { timeoutMs: 4_000 },
    );
    server.release('held-for-cancel');
    const record = (await space.api.get(at(`/generations/${id}`))).body;
    expect(record).toMatchObject({ status: 'failed', step_count: 0 });
  });
});

describe('reading', () => {
  test('records carry what was sent and who sent it; lists filter by agent, trace and status, newest first', async () => {
    const agent = await buildAgent(space);
    const path = at(`/agents/${agent.id}/generate`);
    const first = await space.api.post(path, saying('one', { action_id: 'act', metadata: { b: 1, a: { c: [true] } } }));
    const record = await settled(first.body.id);
    expect(record).toMatchObject({
      action_id: 'act',
      metadata: { b: 1, a: { c: [true] } },
      started_by_principal_type: 'user',
    });
    expect(JSON.stringify(record.metadata)).toBe('{"b":1,"a":{"c":[true]}}');
    const second = await space.api.post(path, saying('two', { trace_id: first.body.trace_id }));
    expect(second.body.trace_id).toBe(first.body.trace_id);
    await settled(second.body.id);
    const ids = async (query: string): Promise<string[]> =>
      (await space.api.get(at(`/generations?${query}`))).body.data.map(({ id }: { id: string }) => id);
    expect(await ids(`agent_id=${agent.id}`)).toEqual([second.body.id, first.body.id]);
    expect(await ids(`trace_id=${String(first.body.trace_id)}&limit=1`)).toEqual([second.body.id]);
    expect(await ids(`agent_id=${agent.id}&status=failed`)).toEqual([]);
  });

  test('the transcript shows the messages as given and the output', async () => {
    const agent = await buildAgent(space, { model: `${space.model}-plain`, instructions: 'secret sauce' });
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('hello'));
    const transcript = await space.api.get(at(`/generations/${String(reply.body.id)}/transcript`));
    expect(transcript.body).toMatchObject({
      input: [{ role: 'user', content: 'hello' }],
      steps: [{ index: 0, text: 'You said: hello', finish_reason: 'stop', tool_calls: [], tool_results: [] }],
      output: { content: 'You said: hello', finish_reason: 'stop' },
    });
  });

  test('only the last max_context_messages are sent, after the instructions', async () => {
    const model = `${space.model}-context`;
    const agent = await buildAgent(space, {
      model,
      instructions: 'Be brief.',
      max_context_messages: 2,
      temperature: 0.5,
    });
    const messages = ['a', 'b', 'c'].map((content, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content,
    }));
    await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), { messages });
    const sent = server.calls({ model })[0]!.body as {
      messages: { role: string; content: string }[];
      temperature: number;
    };
    expect(sent.temperature).toBe(0.5);
    expect(sent.messages.map(({ role }) => role)).toEqual(['system', 'assistant', 'user']);
  });

  test('a wait that is longer than allowed answers 202, and the run goes on', async () => {
    const model = `${space.model}-slow`;
    const agent = await buildAgent(space, { model });
    server.script(model, [{ text: 'late', hold: 'slow-wait' }]);
    const longest = jest.replaceProperty(config(), 'GENERATION_WAIT_MAX_SECONDS', 1);
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
    expect(reply.status).toBe(202);
    longest.restore();
    expect(reply.body.status).toBe('accepted');
    server.release('slow-wait');
    expect((await settled(reply.body.id)).status).toBe('completed');
  });
});

describe('what a tenant can make the service do', () => {
  test('[limits 7] a pattern that backtracks fails its call within a second, and delays nobody else', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/slow-pattern/{order_id}`, {
      parameters: {
        type: 'object',
        properties: { order_id: { type: 'string', pattern: '^(a+)+$' } },
        required: ['order_id'],
      },
    });
    const model = `${space.model}-backtracking`;
    const agent = await buildAgent(space, { model, tool_bindings: [{ tool_id: lookup.id }] });
    server.script(model, [
      { toolCalls: [{ name: 'get_order', args: { order_id: `${'a'.repeat(40)}!` } }] },
      { text: 'done' },
    ]);
    const startedAt = Date.now();
    const running = space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
    const others: number[] = [];
    const progress = { over: false };
    void running.finally(() => {
      progress.over = true;
    });
    while (!progress.over) {
      const askedAt = Date.now();
      await service.client().get('/health');
      others.push(Date.now() - askedAt);
    }
    const reply = await running;
    expect(reply.body.status).toBe('completed');
    expect(Date.now() - startedAt).toBeLessThan(3_000);
    expect(Math.max(...others)).toBeLessThan(1_000);
    const transcript = await space.api.get(at(`/generations/${String(reply.body.id)}/transcript`));
    expect(transcript.body.steps[0].tool_results[0].error.message).toMatch(/limit of time/);
    expect(receiver.requests.some(({ path }) => path.startsWith('/slow-pattern'))).toBe(false);
  });

  test('a provider at an address that is not public is not called', async () => {
    const provider = await space.api.post(at('/ai-providers'), {
      name: 'p',
      provider: 'custom',
      default_model: 'm',
      base_url: 'http://10.0.0.5/v1',
    });
    const agent = await buildAgent({ ...space, providerId: provider.body.id });
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
    expect([reply.status, reply.body.error.code, reply.body.error.message]).toEqual([
      502,
      'AI_PROVIDER_ERROR',
      'Provider address is not allowed.',
    ]);
  });

  test('a key that a vendor repeats in its refusal is not shown', async () => {
    const secret = await space.api.post(at('/secrets'), { name: 's', value: 'sk-canary-123' });
    const model = `${space.model}-echo`;
    const provider = await space.api.post(at('/ai-providers'), {
      name: 'p',
      provider: 'openai',
      default_model: model,
      base_url: server.url,
      secret_id: secret.body.id,
    });
    server.script(model, [{ status: 401, body: { error: { message: 'Incorrect API key provided: sk-canary-123' } } }]);
    const agent = await buildAgent({ ...space, providerId: provider.body.id });
    const reply = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
    expect(reply.body.error.message).toBe('Provider returned 401: Incorrect API key provided: [secret]');
    expect(server.calls({ model })[0]!.headers.authorization).toBe('Bearer sk-canary-123');
  });
});
