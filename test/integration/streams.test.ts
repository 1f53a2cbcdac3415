import { query } from '../../src/api/core/db';
import { engine } from '../../src/api/core/temporal';
import { streams } from '../../src/api/generations/streams';
import { buildAgent, buildClientTool, buildHttpTool, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { describeGuard } from '../support/guarded-routes';
import { DONE, delta, idOf, lines, openStream } from '../support/stream';
import type { OpenedStream } from '../support/stream';
import { useWorkspace } from '../support/workspace';

const { service, owner, space, server, receiver, at } = useWorkspace();

const stream = (agentId: string, body: object = saying('hello')): Promise<OpenedStream> =>
  openStream(`${service.baseUrl}${at(`/agents/${agentId}/generate`)}`, {
    token: owner.token,
    body: { ...body, stream: true },
  });
const pickUp = (id: string, lastEventId?: string): Promise<OpenedStream> =>
  openStream(`${service.baseUrl}${at(`/generations/${id}/stream`)}`, {
    token: owner.token,
    ...(lastEventId === undefined ? {} : { lastEventId }),
  });
const record = async (id: string) => (await space.api.get(at(`/generations/${id}`))).body;
const settled = (id: string) =>
  eventually(
    async () => {
      const row = await record(id);
      if (row.status === 'in_progress') throw new Error('still running');
      return row;
    },
    { timeoutMs: 15_000 },
  );
const textOf = (frames: string[]): string =>
  frames
    .map((frame) => frame.replace(/^id: .*\n/, ''))
    .filter((frame) => frame.startsWith('data: {"choices"'))
    .map((frame) => JSON.parse(frame.slice(6)).choices[0].delta.content as string)
    .join('');

describeGuard(service, [['get', '/generations/gen_0123456789abcdef/stream']]);

test('[events 2] a stream is made of one frame per delta and ends with [DONE]; the run is recorded as streamed and emits no event', async () => {
  const agent = await buildAgent(space);
  await space.api.post(at('/webhooks'), { url: `${receiver.url}/hook`, events: ['*'] });
  server.script(space.model, [{ chunks: ['Hel', 'lo "you"\n', 'there'] }]);
  const open = await stream(agent.id);
  expect(open.status).toBe(200);
  expect(open.headers.get('content-type')).toBe('text/event-stream');
  expect(open.headers.get('cache-control')).toBe('no-cache');
  expect(await open.rest()).toEqual([delta('Hel'), delta('lo "you"\n'), delta('there'), DONE]);
  const row = await settled(idOf(open));
  expect(row).toMatchObject({ status: 'completed', stop_reason: 'stop', step_count: 1 });
  expect(row.usage.output_tokens).toBeGreaterThan(0);
  const [{ streamed } = {}] = await query<{ streamed: boolean }>('select streamed from generations where id = $1', [
    row.id,
  ]);
  expect(streamed).toBe(true);
  expect(await query('select id from events where resource_id = $1', [row.id])).toEqual([]);
  const { body } = await space.api.get(at(`/generations/${row.id}/transcript`));
  expect(body).toMatchObject({ output: { content: 'Hello "you"\nthere', finish_reason: 'stop' } });
  expect(receiver.requests).toEqual([]);
});

test('it streams: the model says its second word only after the caller has read the first', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ chunks: ['first', ' second'], holdAfterChunk: { n: 1, gate: 'second' } }]);
  const open = await stream(agent.id);
  expect(await open.next()).toBe(delta('first'));
  expect((await record(idOf(open))).status).toBe('in_progress');
  server.release('second');
  expect(await open.rest()).toEqual([delta(' second'), DONE]);
});

test('the text of several steps comes in order, with the tool calls of a step made between', async () => {
  const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }] });
  receiver.respond({ status: 200, body: '{"state":"sent"}' }, '/orders/ord_7');
  server.script(space.model, [
    { text: 'Looking.', toolCalls: [{ name: 'get_order', args: { order_id: 'ord_7' } }] },
    { toolCalls: [{ name: 'get_order', args: { order_id: 'ord_7' } }] },
    { chunks: ['It was', ' sent.'] },
  ]);
  const open = await stream(agent.id);
  const frames = await open.rest();
  expect(textOf(frames)).toBe('Looking.It was sent.');
  expect(frames.at(-1)).toBe(DONE);
  expect(await settled(idOf(open))).toMatchObject({ status: 'completed', step_count: 3 });
});

test('a pause is the last frame before [DONE]; what follows it is answered by the submission and emits no event', async () => {
  const refund = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: refund.id }] });
  server.script(space.model, [
    { text: 'One moment.', toolCalls: [{ id: 'call_9', name: 'approve_refund', args: { order_id: 'ord_9' } }] },
    { text: 'Done.' },
  ]);
  const open = await stream(agent.id);
  const frames = await open.rest();
  const id = idOf(open);
  expect(frames.at(-1)).toBe(DONE);
  expect(JSON.parse(frames.at(-2)?.slice(6) ?? '')).toEqual({
    id,
    generation_id: id,
    trace_id: (await record(id)).trace_id,
    status: 'requires_action',
    required_action: {
      type: 'submit_tool_outputs',
      tool_calls: [{ id: 'call_9', tool_name: 'approve_refund', args: { order_id: 'ord_9' } }],
    },
  });
  const reply = await space.api.post(at(`/agents/${agent.id}/generate/${id}/tool-outputs`), {
    tool_outputs: [{ tool_call_id: 'call_9', output: 'yes' }],
  });
  expect([reply.status, reply.body.output.content]).toEqual([200, 'Done.']);
  expect(await query('select id from events where resource_id = $1', [id])).toEqual([]);
});

test('[generations 4] a refusal of the provider is an error frame without [DONE], and the record is failed', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ status: 404, body: { error: { message: 'no such model' } } }]);
  const open = await stream(agent.id);
  expect(open.status).toBe(200);
  expect(await open.rest()).toEqual([`data: ${JSON.stringify({ error: 'Provider returned 404: no such model' })}`]);
  expect(await settled(idOf(open))).toMatchObject({
    status: 'failed',
    stop_reason: 'error',
    error: { code: 'AI_PROVIDER_ERROR', meta: { provider_status_code: 404 } },
  });
});

test('a failure before the first delta is tried again, the third one is final', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ status: 503, times: 1, headers: { 'retry-after': '0' }, then: { text: 'Here.' } }]);
  const open = await stream(agent.id);
  expect(await open.rest()).toEqual([delta('Here.'), DONE]);
  expect(server.calls({ model: space.model }).filter(({ key }) => key?.startsWith(idOf(open)))).toHaveLength(2);

  server.script(space.model, [{ status: 503, times: 9, headers: { 'retry-after': '0' } }]);
  const failing = await stream(agent.id);
  expect(await failing.rest()).toEqual([expect.stringMatching(/^data: \{"error":"Provider returned 503/)]);
  expect(server.calls({ model: space.model }).filter(({ key }) => key?.startsWith(idOf(failing)))).toHaveLength(3);
});

test('a failure after the first delta is final', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ chunks: ['Half an'], disconnect: true }]);
  const open = await stream(agent.id);
  const frames = await open.rest();
  expect(frames[0]).toBe(delta('Half an'));
  expect(frames.slice(1)).toEqual([expect.stringMatching(/^data: \{"error":"Provider /)]);
  expect(await settled(idOf(open))).toMatchObject({ status: 'failed', error: { code: 'AI_PROVIDER_ERROR' } });
  expect(server.calls({ model: space.model }).filter(({ key }) => key?.startsWith(idOf(open)))).toHaveLength(1);
});

test('a refusal before the stream opens is an ordinary error', async () => {
  const agent = await buildAgent(space);
  const both = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x', { stream: true }));
  expect([both.status, both.body.error.code, both.body.error.details[0].path]).toEqual([
    400,
    'VALIDATION_FAILED',
    'stream',
  ]);
  const unknown = await stream('agent_0123456789abcdef');
  expect([unknown.status, (await unknown.json()).error.code]).toEqual([404, 'not_found']);
  const system = await stream(agent.id, { messages: [{ role: 'system', content: 'x' }] });
  expect([system.status, (await system.json()).error.code]).toEqual([400, 'SYSTEM_MESSAGE_NOT_ALLOWED']);
});

test('[generations 3] a repeat under the same key answers 202 and starts nothing, as a stream too; another request is 409', async () => {
  const agent = await buildAgent(space);
  const first = await stream(agent.id, saying('hello', { idempotency_key: 'stream-key' }));
  await first.rest();
  await settled(idOf(first));
  const repeat = await stream(agent.id, saying('hello', { idempotency_key: 'stream-key' }));
  expect(repeat.status).toBe(202);
  expect(await repeat.json()).toMatchObject({ generation_id: idOf(first), status: 'completed' });
  const plain = await space.api.post(
    at(`/agents/${agent.id}/generate`),
    saying('hello', { idempotency_key: 'stream-key' }),
  );
  expect([plain.status, plain.body.generation_id]).toEqual([202, idOf(first)]);
  const other = await stream(agent.id, saying('bye', { idempotency_key: 'stream-key' }));
  expect([other.status, (await other.json()).error.code]).toEqual([409, 'IDEMPOTENCY_KEY_REUSED']);
});

test('one stream more than the process may hold is 503 before any row is written', async () => {
  const agent = await buildAgent(space);
  const places = Array.from({ length: 500 }, () => streams.reserve());
  const refused = await stream(agent.id);
  expect([refused.status, (await refused.json()).error.code, refused.headers.get('retry-after')]).toEqual([
    503,
    'service_unavailable',
    '5',
  ]);
  const { body } = await space.api.get(at(`/generations?agent_id=${agent.id}`));
  expect(body.total).toBe(0);
  places.pop()?.();
  const open = await stream(agent.id);
  expect((await open.rest()).at(-1)).toBe(DONE);
  const again = await stream(agent.id); // The place came back with the end of the stream.
  expect((await again.rest()).at(-1)).toBe(DONE);
  for (const release of places) release();
});

test('a caller that goes away loses frames only, and finds the stream again', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ chunks: ['before', ' after'], holdAfterChunk: { n: 1, gate: 'gone' } }]);
  const open = await stream(agent.id);
  expect(await open.next()).toBe(delta('before'));
  open.close();
  const again = await pickUp(idOf(open));
  const [id, first] = lines((await again.next()) ?? '');
  expect(first).toBe(delta('before'));
  server.release('gone');
  expect((await again.rest()).map((frame) => lines(frame)[1])).toEqual([delta(' after'), DONE]);
  expect(await settled(idOf(open))).toMatchObject({ status: 'completed', stop_reason: 'stop' });
  const later = await pickUp(idOf(open), id);
  expect((await later.rest()).map((frame) => lines(frame)[1])).toEqual([delta(' after'), DONE]);
});

test('a stream that is picked up goes on after the given event, in every frame of it', async () => {
  const lookup = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }] });
  server.script(space.model, [
    { text: 'Looking.', toolCalls: [{ name: 'get_order', args: { order_id: 'ord_7' } }] },
    { text: 'Found.' },
  ]);
  const accepted = await space.api.post(at(`/agents/${agent.id}/generate`), saying('where?'));
  const id = accepted.body.generation_id as string;
  await settled(id);
  const whole = (await (await pickUp(id)).rest()).map(lines);
  expect(whole.map(([, data]) => data)).toEqual([delta('Looking.'), delta('Found.'), DONE]);
  for (const [index, [eventId]] of whole.entries()) {
    const rest = (await (await pickUp(id, eventId)).rest()).map(lines);
    expect(rest).toEqual(index === whole.length - 1 ? [whole.at(-1)] : whole.slice(index + 1));
  }
});

test('the text of the depth guard goes out once, also where it is picked up', async () => {
  const agent = await buildAgent(space);
  const guarded = saying('x', { max_call_depth: 0 });
  const open = await stream(agent.id, guarded);
  expect(await open.rest()).toEqual([delta('Maximum call depth reached'), DONE]);
  const whole = (await (await pickUp(idOf(open))).rest()).map(lines);
  expect(whole.map(([, data]) => data)).toEqual([delta('Maximum call depth reached'), DONE]);
  for (const [eventId] of whole) {
    expect((await (await pickUp(idOf(open), eventId)).rest()).map((frame) => lines(frame)[1])).toEqual([DONE]);
  }
});

test('a background run can be followed until it rests', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ text: 'Slowly.', hold: 'slow' }]);
  const accepted = await space.api.post(at(`/agents/${agent.id}/generate`), saying('x'));
  const open = await pickUp(accepted.body.generation_id);
  await server.waitForCall({ model: space.model });
  server.release('slow');
  expect((await open.rest()).map((frame) => lines(frame)[1])).toEqual([delta('Slowly.'), DONE]);
});

test('a paused run is picked up at its pause, a failed one ends with its error, an event of a repeated step with an error', async () => {
  const refund = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: refund.id }] });
  server.script(space.model, [{ text: 'Wait.', toolCalls: [{ name: 'approve_refund', args: { order_id: 'o' } }] }]);
  const paused = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
  const frames = (await (await pickUp(paused.body.id)).rest()).map(lines);
  expect(frames.map(([, data]) => data.slice(0, 24))).toEqual([
    delta('Wait.').slice(0, 24),
    expect.stringMatching(/^data: \{"id":"gen_/),
    DONE,
  ]);
  const after = (await (await pickUp(paused.body.id, frames[1]?.[0])).rest()).map(lines);
  expect(after.map(([, data]) => data)).toEqual([DONE]);

  const stray = (frames[0]?.[0] ?? '').replace(/[0-9a-f]{8}$/, '00000000');
  const diverged = (await (await pickUp(paused.body.id, stray)).rest()).map(lines);
  expect(diverged.map(([, data]) => data)).toEqual([expect.stringMatching(/^data: \{"error":"A part of this step/)]);

  server.script(space.model, [{ status: 400, body: { error: { message: 'bad words' } } }]);
  const failed = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
  const error = (await (await pickUp(failed.body.error.meta.generation_id)).rest()).map(lines);
  expect(error.map(([, data]) => data)).toEqual([
    `data: ${JSON.stringify({ error: 'Provider returned 400: bad words' })}`,
  ]);
});

test('picking up is refused for an unknown run, a malformed event and removed content', async () => {
  const unknown = await pickUp('gen_0123456789abcdef');
  expect([unknown.status, (await unknown.json()).error.code]).toEqual([404, 'not_found']);
  const agent = await buildAgent(space);
  const { body } = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'));
  const malformed = await pickUp(body.id, 'nonsense');
  const refusal = await malformed.json();
  expect([malformed.status, refusal.error.code, refusal.error.details[0].path]).toEqual([
    400,
    'VALIDATION_FAILED',
    'header.Last-Event-ID',
  ]);
  await query('update generations set content_redacted_at = now() where id = $1', [body.id]);
  const removed = await pickUp(body.id);
  expect([removed.status, (await removed.json()).error.code]).toEqual([409, 'GENERATION_CONTENT_UNAVAILABLE']);
});

test('a cancelled run ends its stream with an error frame', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ chunks: ['a', 'b'], holdAfterChunk: { n: 1, gate: 'never' } }]);
  const open = await stream(agent.id);
  await open.next();
  const cancelled = await space.api.post(at(`/generations/${idOf(open)}/cancel`));
  expect(cancelled.status).toBe(200);
  expect(await open.rest()).toEqual([`data: ${JSON.stringify({ error: 'The generation was cancelled.' })}`]);
  server.release('never');
});

test('the history of a streamed run holds no word of it', async () => {
  const agent = await buildAgent(space);
  server.script(space.model, [{ text: 'canary-answer' }]);
  const open = await stream(agent.id, saying('canary-question'));
  await open.rest();
  const history = await engine().workflow.getHandle(idOf(open)).fetchHistory();
  expect(JSON.stringify(history)).not.toMatch(/canary|Provider/);
  expect(JSON.stringify(history)).toContain('runModelStep');
});
