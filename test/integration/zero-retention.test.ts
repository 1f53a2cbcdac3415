import { query, queryOne } from '../../src/api/core/db';
import { engine, startRun } from '../../src/api/core/temporal';
import { randomText } from '../../src/api/core/random';
import { dueCall } from '../../src/api/generations/calls';
import { generationSweep } from '../../src/api/generations/runs';
import { dropContent } from '../../src/api/generations/scratch';
import { buildAgent, buildClientTool, buildHttpTool, created, saying, workspace } from '../support/builders';
import { historyText, tablesHolding } from '../support/clear-text';
import { eventually } from '../support/eventually';
import { startMcpServer } from '../support/mcp-server';
import { openStream } from '../support/stream';
import { useWorkspace } from '../support/workspace';

const { service, owner, space, server, receiver, at } = useWorkspace({ settings: { trace_content_mode: 'none' } });

/** A text that stands nowhere else. */
const canary = (name: string): string => `canary-${name}-${randomText(12)}`;
const generate = (agentId: string, body: object, wait: boolean) =>
  space.api.post(at(`/agents/${agentId}/generate?wait=${String(wait)}`), body);
const submit = (agentId: string, id: string, body: object) =>
  space.api.post(at(`/agents/${agentId}/generate/${id}/tool-outputs`), body);
const record = async (id: string) => (await space.api.get(at(`/generations/${id}`))).body;
const transcript = async (id: string) => (await space.api.get(at(`/generations/${id}/transcript`))).body;
const reached = (id: string, status: string) =>
  eventually(
    async () => {
      const row = await record(id);
      expect(row.status).toBe(status);
      return row;
    },
    { timeoutMs: 15_000 },
  );
const closed = (id: string) =>
  eventually(
    async () => {
      const { status } = await engine().workflow.getHandle(id).describe();
      expect(status.name).not.toBe('RUNNING');
      return status.name;
    },
    { timeoutMs: 15_000 },
  );
const scratchOf = async (id: string): Promise<number> =>
  (await query('select 1 as one from generation_contents where generation_id = $1', [id])).length;
const stamp = {
  content_redacted_at: expect.any(String),
  content_redacted_by_principal_type: 'system',
  content_redacted_by_principal_id: 'zero_retention',
};

const asking = (text: string, id = 'c1') => ({
  toolCalls: [{ id, name: 'approve_refund', args: { order_id: text } }],
});

describe('a project that keeps no content', () => {
  test('says so, and its agents cannot keep more than it does', async () => {
    expect((await space.api.get(space.at)).body.trace_content_mode).toBe('none');
    const refused = await space.api.post(at('/agents'), {
      ai_provider_id: space.providerId,
      name: 'keeps',
      trace_content_mode: 'full',
    });
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'VALIDATION_FAILED' } } });
    expect((await buildAgent(space, { trace_content_mode: 'none' })).id).toMatch(/^agent_/);
  });
});

test('[generations 8] a waited run answers its text; then its transcript is empty, usage is filled, and no table or history holds what was said', async () => {
  const said = ['prompt', 'path', 'result', 'asked', 'given', 'answer', 'note'].map(canary);
  const [prompt = '', path = '', result = '', asked = '', given = '', answer = '', note = ''] = said;
  await space.api.post(at('/webhooks'), { url: `${receiver.url}/hook`, events: ['generation.*'] });
  const http = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
  const client = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: http.id }, { tool_id: client.id }] });
  receiver.respond({ body: { found: result } }, `/orders/${path}`);
  const looking = { text: `I look for ${asked}`, toolCalls: [{ name: 'get_order', args: { order_id: path } }] };
  server.script(space.model, [looking, asking(asked), { text: answer }]);

  const paused = await generate(agent.id, saying(prompt, { metadata: { note } }), true);
  const { id } = paused.body;
  expect(paused).toMatchObject({
    status: 200,
    body: { status: 'requires_action', required_action: { tool_calls: [{ id: 'c1', args: { order_id: asked } }] } },
  });
  // While it waits, its record asks for the outputs, and every row of it is sealed.
  expect(await record(id)).toMatchObject({
    metadata: null,
    required_action: { tool_calls: [{ id: 'c1', args: { order_id: asked } }] },
    ...stamp,
  });
  const page = await space.api.get(at('/generations?status=requires_action'));
  expect(page.body.data[0].required_action.tool_calls[0].args).toEqual({ order_id: asked });
  expect(await transcript(id)).toMatchObject({ input: null, steps: [], output: null });
  expect(await tablesHolding(said)).toEqual([]);
  expect(await scratchOf(id)).toBe(1);

  const done = await submit(agent.id, id, {
    tool_outputs: [{ tool_call_id: 'c1', output: { is: given } }],
    idempotency_key: 'k',
  });
  expect(done).toMatchObject({ status: 200, body: { status: 'completed', output: { content: answer } } });
  expect(JSON.stringify(done.body.output.response_messages)).toContain(result);
  const prompts = server.calls({ model: space.model }).map(({ body }) => JSON.stringify(body));
  expect(prompts.at(-1)).toContain(given);

  expect(await record(id)).toMatchObject({
    status: 'completed',
    stop_reason: 'stop',
    error: null,
    metadata: null,
    required_action: null,
    step_count: 3,
    ...stamp,
  });
  expect((await record(id)).usage.output_tokens).toBeGreaterThan(0);
  expect(await transcript(id)).toMatchObject({ input: null, steps: [], output: null, step_count: 3, ...stamp });
  expect(await closed(id)).toBe('COMPLETED');
  expect(await tablesHolding(said)).toEqual([]);
  expect(await scratchOf(id)).toBe(0);
  const history = await historyText(id);
  expect(history).toContain(id);
  for (const text of said) expect(history).not.toContain(text);

  // The same submission again has its result, without the output that went with its caller.
  const again = await submit(agent.id, id, {
    tool_outputs: [{ tool_call_id: 'c1', output: { is: given } }],
    idempotency_key: 'k',
  });
  expect(again).toMatchObject({ status: 200, body: { id, status: 'completed' } });
  expect(again.body).not.toHaveProperty('output');

  const hook = await receiver.waitFor(({ path: to, body }) => to === '/hook' && body.includes(id));
  expect(JSON.parse(hook.body)).toMatchObject({ type: 'generation.completed', data: { error: null, metadata: null } });
  for (const text of said) expect(hook.body).not.toContain(text);
});

test('what fills a message, its context, pinned arguments and mapped outputs are sealed too, and gone with the run', async () => {
  const said = ['argument', 'result', 'tenant', 'asked', 'given', 'echo'].map(canary);
  const [argument = '', result = '', tenant = '', asked = '', given = '', echo = ''] = said;
  const mcp = await startMcpServer();
  receiver.respond({ body: { order: { state: result } } }, `/filled/${argument}`);
  const named = (name: string) => `${name}_${randomText(5)}`.toLowerCase();
  const filling = await buildHttpTool(space, `${receiver.url}/filled/{order_id}`, { name: named('fill') });
  const remote = created(
    await space.api.post(at('/tools'), { name: 'srv', type: 'mcp', mcp: { url: mcp.url }, actions: ['echo'] }),
  );
  const presets = { preset_parameters: { account: '{{context:account}}' } };
  const mapped = await buildClientTool(space, {
    ...presets,
    name: named('mapped'),
    output_mapping: { cat: ['mapped ', { var: 'output.word' }, ' of ', { var: 'input.account' }] },
  });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: remote.id }, { tool_id: mapped.id }] });
  server.script(space.model, [
    { toolCalls: [{ name: 'srv_echo', args: { text: echo } }] },
    { toolCalls: [{ id: 'c', name: mapped.name, args: { order_id: asked } }] },
    { text: 'ok' },
  ]);

  const message = {
    type: 'tool_output',
    tool_id: filling.id,
    input: { order_id: argument },
    output_path: 'order.state',
  };
  const body = { messages: [{ role: 'user', content: message }], tool_context: { account: tenant } };
  const paused = await generate(agent.id, body, true);
  const { id } = paused.body;
  const pending = { tool_calls: [{ id: 'c', args: { order_id: asked, account: tenant } }] };
  expect(paused).toMatchObject({ status: 200, body: { status: 'requires_action', required_action: pending } });
  expect((await record(id)).required_action).toMatchObject(pending);
  expect((await transcript(id)).input).toBeNull();
  expect(await tablesHolding(said)).toEqual([]);

  const done = await submit(agent.id, id, { tool_outputs: [{ tool_call_id: 'c', output: { word: given } }] });
  expect(done).toMatchObject({ status: 200, body: { status: 'completed', output: { content: 'ok' } } });
  const last = server.calls({ model: space.model, generationId: id }).at(-1)?.body;
  const prompt = JSON.stringify(last);
  for (const text of [result, echo, `mapped ${given} of ${tenant}`]) expect(prompt).toContain(text);
  await closed(id);
  expect(await tablesHolding(said)).toEqual([]);
  expect(await scratchOf(id)).toBe(0);
  const history = await historyText(id);
  for (const text of said) expect(history).not.toContain(text);
  await mcp.close();
});

test('an output that its mapping cannot take fails its call, and the model is told', async () => {
  const mapped = await buildClientTool(space, {
    name: `mapped_${randomText(5)}`.toLowerCase(),
    output_mapping: { throw: 'no' },
  });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: mapped.id }] });
  server.script(space.model, [
    { toolCalls: [{ id: 'c', name: mapped.name, args: { order_id: '1' } }] },
    { text: 'ok' },
  ]);
  const { id } = (await generate(agent.id, saying('x'), true)).body;
  const done = await submit(agent.id, id, { tool_outputs: [{ tool_call_id: 'c', output: 1 }] });
  expect(JSON.stringify(done.body.output.response_messages)).toContain('The output mapping: ');
});

test('its trace is made redacted and counts its steps; a trace that exists stays as it is', async () => {
  const agent = await buildAgent(space);
  const own = await generate(agent.id, saying('x'), true);
  const made = (await space.api.get(at(`/traces/${own.body.trace_id}`))).body;
  expect(made).toMatchObject({ step_count: 1, error: null, ...stamp });
  expect((await space.api.get(at(`/traces/${own.body.trace_id}/steps`))).body.data).toEqual([]);
  await query(
    `update traces set content_redacted_at = null, content_redacted_by_principal_type = null,
     content_redacted_by_principal_id = null where id = $1`,
    [own.body.trace_id],
  );
  await generate(agent.id, saying('y', { trace_id: own.body.trace_id }), true);
  expect((await space.api.get(at(`/traces/${own.body.trace_id}`))).body).toMatchObject({
    step_count: 2,
    content_redacted_at: null,
  });
});

test('an agent alone may keep nothing: its waited run in a project that keeps everything leaves nothing', async () => {
  const project = await service.project(owner);
  const full = await workspace(service.client(owner.token), project.id, server.url);
  const [quiet, open] = [await buildAgent(full, { trace_content_mode: 'none' }), await buildAgent(full)];
  const text = canary('prompt');
  const runs = await Promise.all(
    [quiet, open].map(({ id }) => full.api.post(`${full.at}/agents/${id}/generate?wait=true`, saying(text))),
  );
  const [none, kept] = await Promise.all(
    runs.map(async ({ body }) => (await full.api.get(`${full.at}/generations/${body.id}/transcript`)).body),
  );
  expect(none).toMatchObject({ input: null, ...stamp });
  expect(kept).toMatchObject({ input: [{ role: 'user', content: text }], content_redacted_at: null });
});

test('a waited run that fails answers its error to whoever waited; its record and its trace show none', async () => {
  const [prompt, text] = [canary('prompt'), canary('error')];
  const agent = await buildAgent(space);
  server.script(space.model, [{ status: 400, text }]);
  const failed = await generate(agent.id, saying(prompt), true);
  expect(failed).toMatchObject({ status: 502, body: { error: { code: 'AI_PROVIDER_ERROR' } } });
  expect(failed.body.error.message).toContain(text);
  const { generation_id: id, trace_id: trace } = failed.body.error.meta;
  expect(await record(id)).toMatchObject({ status: 'failed', stop_reason: 'error', error: null, ...stamp });
  expect((await transcript(id)).error).toBeNull();
  expect((await space.api.get(at(`/traces/${trace}`))).body.error).toBeNull();
  await closed(id);
  expect(await tablesHolding([prompt, text])).toEqual([]);
  expect(await historyText(id)).not.toContain(text);
});

test('a background run leaves nothing from its settlement on, whether it completes or fails', async () => {
  const [prompt, answer] = [canary('prompt'), canary('answer')];
  const agent = await buildAgent(space);
  server.script(space.model, [{ text: answer }]);
  const done = await generate(agent.id, saying(prompt), false);
  await reached(done.body.id, 'completed');
  server.script(space.model, [{ status: 400, text: answer }]);
  const failed = await generate(agent.id, saying(prompt), false);
  expect(await reached(failed.body.id, 'failed')).toMatchObject({ error: null, stop_reason: 'error' });
  for (const { body } of [done, failed]) {
    expect(await scratchOf(body.id)).toBe(0);
    await closed(body.id);
  }
  expect(await tablesHolding([prompt, answer])).toEqual([]);
});

test('an idempotent repeat answers the status without an output, and the same key with another body is refused', async () => {
  const agent = await buildAgent(space);
  const body = saying(canary('prompt'), { idempotency_key: `k-${randomText(6)}` });
  const first = await generate(agent.id, body, true);
  expect(first.body.output.content).not.toBe('');
  const repeat = await generate(agent.id, body, true);
  expect(repeat).toMatchObject({ status: 202, body: { id: first.body.id, status: 'completed' } });
  expect(repeat.body).not.toHaveProperty('output');
  expect((await generate(agent.id, { ...body, action_id: 'x' }, true)).status).toBe(409);
});

test('a repeat that comes before the waiting caller does not take the answer away', async () => {
  const agent = await buildAgent(space);
  const answer = canary('answer');
  server.script(space.model, [{ text: answer, hold: 'repeat' }]);
  const body = saying('x', { idempotency_key: `k-${randomText(6)}` });
  const waiting = generate(agent.id, body, true).then((reply) => reply);
  await server.waitForCall({ model: space.model, step: 1 });
  expect(await generate(agent.id, body, true)).toMatchObject({ status: 202, body: { status: 'in_progress' } });
  server.release('repeat');
  expect((await waiting).body.output.content).toBe(answer);
});

test('of several callers that wait for one run one gets the output, and the others its end', async () => {
  const client = await buildClientTool(space, { name: `approve_${randomText(5)}`.toLowerCase() });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: client.id }] });
  server.script(space.model, [
    { toolCalls: [{ id: 'c1', name: client.name, args: { order_id: '1' } }] },
    { text: 'ok' },
  ]);
  const { id } = (await generate(agent.id, saying('x'), true)).body;
  const body = { tool_outputs: [{ tool_call_id: 'c1', output: 1 }], idempotency_key: 'same' };
  const replies = await Promise.all([1, 2, 3].map(() => submit(agent.id, id, body)));
  expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(replies.filter((reply) => 'output' in reply.body)).toHaveLength(1);
});

test('a stream sends all its frames, leaves nothing, and cannot be picked up', async () => {
  const [prompt, first, second] = [canary('prompt'), canary('first'), canary('second')];
  const http = await buildHttpTool(space, `${receiver.url}/streamed/{order_id}`, { name: 'get_streamed' });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: http.id }] });
  server.script(space.model, [
    { chunks: [first], toolCalls: [{ name: 'get_streamed', args: { order_id: '1' } }] },
    { chunks: [second, '!'] },
  ]);
  const open = await openStream(`${service.baseUrl}${at(`/agents/${agent.id}/generate`)}`, {
    token: owner.token,
    body: saying(prompt, { stream: true }),
  });
  const frames = await open.rest();
  expect(frames.join('')).toContain(first);
  expect(frames.join('')).toContain(second);
  expect(frames.at(-1)).toBe('data: [DONE]');
  const id = open.headers.get('x-svc-generation-id') ?? '';
  const again = await openStream(`${service.baseUrl}${at(`/generations/${id}/stream`)}`, { token: owner.token });
  expect(again.status).toBe(409);
  expect(await again.json()).toMatchObject({ error: { code: 'GENERATION_CONTENT_UNAVAILABLE' } });
  await closed(id);
  expect(await scratchOf(id)).toBe(0);
  expect(await tablesHolding([prompt, first, second])).toEqual([]);
});

test('a stream of a run that fails tells the error, which stands nowhere', async () => {
  const text = canary('error');
  const agent = await buildAgent(space);
  server.script(space.model, [{ status: 400, text }]);
  const open = await openStream(`${service.baseUrl}${at(`/agents/${agent.id}/generate`)}`, {
    token: owner.token,
    body: saying('x', { stream: true }),
  });
  expect((await open.rest()).at(-1)).toContain(text);
  expect(await tablesHolding([text])).toEqual([]);
});

test('a cancelled run answers its cancellation and leaves nothing at once', async () => {
  const text = canary('prompt');
  const client = await buildClientTool(space, { name: `approve_${randomText(5)}`.toLowerCase() });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: client.id }] });
  server.script(space.model, [{ toolCalls: [{ id: 'c1', name: client.name, args: { order_id: text } }] }]);
  const { id } = (await generate(agent.id, saying(text), true)).body;
  const cancelled = await space.api.post(at(`/generations/${id}/cancel`));
  expect(cancelled).toMatchObject({
    status: 200,
    body: { status: 'failed', stop_reason: 'cancelled', error: { code: 'GENERATION_CANCELLED' } },
  });
  expect(await scratchOf(id)).toBe(0);
  expect(await record(id)).toMatchObject({ stop_reason: 'cancelled', error: null });
  expect((await space.api.post(at(`/generations/${id}/cancel`))).status).toBe(409);
  expect(await closed(id)).toBe('CANCELLED');
});

test('whoever waits for a run that is cancelled meanwhile is told so', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ text: 'x', hold: 'cancelled' }]);
  const waiting = generate(agent.id, saying('x'), true).then((reply) => reply);
  const { key } = await server.waitForCall({ model: space.model, step: 1 });
  const id = (key ?? '').split(':')[0] ?? '';
  expect((await space.api.post(at(`/generations/${id}/cancel`))).status).toBe(200);
  server.release('cancelled');
  expect((await waiting).body.error.message).toBe('The generation was cancelled.');
});

test('its metadata cannot be changed, and a purge of it changes nothing', async () => {
  const agent = await buildAgent(space);
  const { id } = (await generate(agent.id, saying('x'), true)).body;
  expect(await space.api.patch(at(`/generations/${id}`), { metadata: { a: 1 } })).toMatchObject({
    status: 409,
    body: { error: { code: 'GENERATION_CONTENT_UNAVAILABLE' } },
  });
  expect(await space.api.delete(at(`/generations/${id}/content`))).toMatchObject({ status: 200, body: stamp });
});

describe('an answer that nobody comes for', () => {
  /** A run that settles as if a caller had waited for it, whose process then died. */
  async function abandoned(prompt: string, fate: 'lives' | 'lost'): Promise<string> {
    const agent = await buildAgent(space);
    server.script(space.model, [{ text: 'late', hold: prompt }]);
    const { id } = (await generate(agent.id, saying(prompt), false)).body;
    await server.waitForCall({ generationId: id, step: 1 });
    await query('update generations set awaited = true where id = $1', [id]);
    server.release(prompt);
    await reached(id, 'completed');
    if (fate === 'lost') await engine().workflow.getHandle(id).terminate();
    return id;
  }

  test('stays sealed for it, and is no one else’s: neither record, transcript nor repeat shows it', async () => {
    const prompt = canary('prompt');
    const id = await abandoned(prompt, 'lives');
    expect(await scratchOf(id)).toBe(1);
    expect(await tablesHolding([prompt])).toEqual([]);
    expect(await transcript(id)).toMatchObject({ input: null, steps: [], output: null });
    expect(await dropContent(id)).toBe(true);
    expect(await dropContent(id)).toBe(false);
    await engine().workflow.getHandle(id).signal('contentRead');
    expect(await closed(id)).toBe('COMPLETED');
  });

  test('is removed by its run when its time is over', async () => {
    const id = await abandoned(canary('prompt'), 'lost');
    const [run] = (await generationSweep.unseen(new Date(Date.now() + 120_000), 1_000)).filter(
      (found) => found.id === id,
    );
    await startRun({ ...run!, args: [{ ...(run!.args[0] as object), scratchMs: 200 }] });
    expect(await closed(id)).toBe('COMPLETED');
    expect(await scratchOf(id)).toBe(0);
    const left = await queryOne(
      'select count(*)::int as steps from generation_steps where generation_id = $1 and content is not null',
      [id],
    );
    expect(left).toEqual({ steps: 0 });
  });

  test('is found by the sweep when its run is lost, once its minute is over', async () => {
    const id = await abandoned(canary('prompt'), 'lost');
    const found = async (olderThan: Date) => (await generationSweep.unseen(olderThan, 1_000)).map((run) => run.id);
    expect(await found(new Date())).not.toContain(id);
    expect(await found(new Date(Date.now() + 61_000))).toContain(id);
    await dropContent(id);
    expect(await found(new Date(Date.now() + 61_000))).not.toContain(id);
  });
});

test('with the wrapped key changed a run fails, and what it holds is removed', async () => {
  const client = await buildClientTool(space, { name: `approve_${randomText(5)}`.toLowerCase() });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: client.id }] });
  server.script(space.model, [{ toolCalls: [{ id: 'c1', name: client.name, args: { order_id: '1' } }] }]);
  const { id } = (await generate(agent.id, saying('x'), true)).body;
  await query(`update generation_contents set key_id = 'deadbeef' where generation_id = $1`, [id]);
  expect((await record(id)).required_action.tool_calls).toMatchObject([{ id: 'c1', args: null }]);
  await expect(dueCall(id, 1, 0)).rejects.toMatchObject({ code: 'GENERATION_FAILED' });
  await engine().workflow.getHandle(id).signal('rowChanged');
  expect(await reached(id, 'failed')).toMatchObject({ stop_reason: 'error' });
  expect(await scratchOf(id)).toBe(0);
});
