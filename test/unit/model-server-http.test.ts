import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { ModelServer } from '../../src/local/model-server';
import { startModelServer } from '../../src/local/model-server';
import { BoundedLog } from '../../src/local/model-server/http';
import { ask, completionText, postJson, sayHello } from '../support/model-client';

let server: ModelServer;

beforeAll(async () => {
  server = await startModelServer();
});
afterEach(() => {
  server.reset();
});
afterAll(async () => {
  await server.close();
});

test('embeddings honour dimensions, repeat exactly and put related texts near each other', async () => {
  const model = createOpenAI({ baseURL: server.url, apiKey: 'key' }).embedding('local-embedding');
  const values = ['refund of an order', 'orders and their refunds', 'weather in the mountains'];
  const options = { values, providerOptions: { openai: { dimensions: 256 } } };
  const { embeddings, usage } = await model.doEmbed(options);
  const again = await model.doEmbed(options);
  expect(embeddings.map((vector) => vector.length)).toEqual([256, 256, 256]);
  expect(again.embeddings).toEqual(embeddings);
  expect(usage?.tokens).toBe(17);
  const [first = [], near = [], far = []] = embeddings;
  const dot = (one: number[], other: number[]) =>
    one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
  expect(dot(first, first)).toBeCloseTo(1, 6);
  expect(dot(first, near)).toBeGreaterThan(dot(first, far) + 0.1);

  const compatible = createOpenAICompatible({ name: 'local', baseURL: server.url }).embeddingModel('local-embedding');
  const plain = await compatible.doEmbed({ values: ['x'] });
  expect(plain.embeddings[0]).toHaveLength(1_536);
});

test('base64 embeddings hold the same numbers', async () => {
  const asked = { model: 'local-embedding', input: 'hello', dimensions: 8 };
  const floats = (await (await postJson(new URL('/v1/embeddings', server.url), asked)).json()) as {
    data: { embedding: number[] }[];
  };
  const packed = (await (
    await postJson(new URL('/v1/embeddings', server.url), { ...asked, encoding_format: 'base64' })
  ).json()) as {
    data: { embedding: string }[];
  };
  const bytes = Buffer.from(packed.data[0]?.embedding ?? '', 'base64');
  const unpacked = Array.from({ length: 8 }, (_, index) => bytes.readFloatLE(index * 4));
  expect(unpacked).toEqual((floats.data[0]?.embedding ?? []).map(Math.fround));
});

test('other processes set scripts, see calls, open gates and reset', async () => {
  const replies = [{ text: 'from outside', hold: 'door' }];
  expect((await postJson(new URL('/control/scripts', server.url), { model: 'scripted', replies })).status).toBe(200);
  const pending = sayHello(server.url, 'scripted', 'gen_h:1');
  await server.waitForCall({ generationId: 'gen_h' });
  const seen = await fetch(new URL('/control/calls?model=scripted&generation_id=gen_h', server.url));
  expect(await seen.json()).toMatchObject({ data: [{ key: 'gen_h:1', waiting: true, body: { model: 'scripted' } }] });
  expect(await (await postJson(new URL('/control/release', server.url), { gate: 'door' })).json()).toEqual({
    gate: 'door',
    released: 1,
  });
  expect(await completionText(await pending)).toBe('from outside');
  expect((await postJson(new URL('/control/reset', server.url), {})).status).toBe(200);
  expect(server.calls()).toEqual([]);
  expect((await postJson(new URL('/control/scripts', server.url), { model: 'scripted' })).status).toBe(400);
  expect((await postJson(new URL('/control/nothing', server.url), {})).status).toBe(404);
});

test('it says what it is', async () => {
  const home = await fetch(new URL('/', server.url));
  expect(home.headers.get('x-model-server')).toBe('local stand-in');
  expect(await home.text()).toMatch(/stand-in/);
});

test('models are listed, the scripted ones too', async () => {
  server.script('scripted', [{ text: 'x' }]);
  const list = (await (await fetch(`${server.url}/models`)).json()) as { object: string; data: { id: string }[] };
  expect(list.object).toBe('list');
  expect(list.data.map((model) => model.id)).toEqual(['local-chat', 'local-embedding', 'scripted']);
});

test('a stream without include_usage has no usage and ends with [DONE]', async () => {
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] };
  const text = await (await postJson(new URL('/v1/chat/completions', server.url), body)).text();
  expect(text).not.toContain('usage');
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
});

describe('refusals', () => {
  const user = { role: 'user', content: 'hi' };
  const call = { id: 'call_1', type: 'function', function: { name: 'get-time', arguments: '{}' } };
  test.each([
    ['no messages', { model: 'm', messages: [] }, 'messages'],
    ['no model', { messages: [user] }, 'model'],
    ['an unknown role', { model: 'm', messages: [{ role: 'robot', content: 'x' }] }, 'messages[0].role'],
    [
      'a result without a call',
      { model: 'm', messages: [user, { role: 'tool', tool_call_id: 'a', content: '' }] },
      'messages[1].role',
    ],
    [
      'a call without a result',
      { model: 'm', messages: [user, { role: 'assistant', tool_calls: [call] }, user] },
      'messages[2].role',
    ],
    [
      'a tool name the vendor would refuse',
      { model: 'm', messages: [user], tools: [{ type: 'function', function: { name: 'no spaces' } }] },
      'tools[0].function.name',
    ],
  ])('%s is 400', async (_name, body, param) => {
    const response = await postJson(new URL('/v1/chat/completions', server.url), body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', param } });
  });

  test('a body that is not JSON is 400, an unknown path 404', async () => {
    const response = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: '{' });
    expect(response.status).toBe(400);
    expect((await postJson(new URL('/v1/completions', server.url), {})).status).toBe(404);
  });

  test.each([401, 429, 500])('model error-%i answers that status', async (status) => {
    const response = await sayHello(server.url, `error-${status}`);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringContaining(String(status)) as string },
    });
  });

  test('another key than the configured one is 401', async () => {
    const guarded = await startModelServer({ apiKey: 'right' });
    try {
      const model = (apiKey: string) => createOpenAI({ baseURL: guarded.url, apiKey }).chat('m');
      const refused = model('wrong').doGenerate(ask('hi'));
      await expect(refused).rejects.toMatchObject({ statusCode: 401, message: 'Incorrect API key provided.' });
      const answer = await model('right').doGenerate(ask('hi'));
      expect(answer.content).toEqual([{ type: 'text', text: 'You said: hi' }]);
      expect((await fetch(`${guarded.url}/models`)).status).toBe(401);
    } finally {
      await guarded.close();
    }
  });
});

test('the oldest requests are forgotten beyond 10,000, or 64 MiB of bodies', () => {
  const log = new BoundedLog<{ number: number }>();
  for (let number = 1; number <= 10_005; number += 1) log.add({ number }, 10);
  expect([log.entries.length, log.entries[0]?.number]).toEqual([10_000, 6]);
  log.add({ number: 10_006 }, 64 * 1024 * 1024 - 25);
  expect(log.entries.map((entry) => entry.number)).toEqual([10_004, 10_005, 10_006]);
  log.clear();
  for (let number = 1; number <= 3; number += 1) log.add({ number }, 30 * 1024 * 1024);
  expect(log.entries.map((entry) => entry.number)).toEqual([2, 3]);
});

test('a body over 64 MiB is 413', async () => {
  const body = ' '.repeat(64 * 1024 * 1024 + 1);
  const response = await fetch(`${server.url}/chat/completions`, { method: 'POST', body });
  expect(response.status).toBe(413);
  expect(server.calls()).toEqual([]);
});
