import { createOpenAI } from '@ai-sdk/openai';
import type { LanguageModelV3StreamPart } from '@ai-sdk/provider';
import type { ModelServer } from '../../src/local/model-server';
import { startModelServer } from '../../src/local/model-server';
import { eventually } from '../support/eventually';
import { ask, completionText, sayHello, textFrom } from '../support/model-client';

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

test('the step of the key picks the reply, a repeated call gets the same one, the last repeats', async () => {
  server.script('scripted', [{ text: 'first' }, { toolCalls: [{ name: 'get-time', args: {} }] }, { text: 'last' }]);
  expect(await completionText(await sayHello(server.url, 'scripted', 'gen_a:3'))).toBe('last');
  expect(await completionText(await sayHello(server.url, 'scripted', 'gen_a:1'))).toBe('first');
  expect(await completionText(await sayHello(server.url, 'scripted', 'gen_b:1'))).toBe('first');
  expect(await completionText(await sayHello(server.url, 'scripted', 'gen_a:9'))).toBe('last');
  const bodies = [await sayHello(server.url, 'scripted', 'gen_a:2'), await sayHello(server.url, 'scripted', 'gen_a:2')];
  const [one, other] = await Promise.all(bodies.map((response) => response.json() as Promise<{ choices: unknown }>));
  expect(one?.choices).toEqual(other?.choices);
  expect(JSON.stringify(one?.choices)).toMatch(/"call_[0-9a-f]{24}"/);
});

test('without a key the replies come in order', async () => {
  server.script('scripted', [{ status: 500, times: 1, then: { text: 'one' } }, { text: 'two' }]);
  const statuses: (number | string)[] = [];
  for (let round = 0; round < 4; round += 1) {
    const response = await sayHello(server.url, 'scripted');
    statuses.push(response.ok ? await completionText(response) : response.status);
  }
  expect(statuses).toEqual([500, 'one', 'two', 'two']);
});

test('an error is given to the first tries of each key only', async () => {
  server.script('scripted', [{ status: 429, headers: { 'retry-after': '1' }, times: 2, then: { text: 'ok' } }]);
  const refused = await sayHello(server.url, 'scripted', 'gen_a:1');
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect(await refused.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } });
  expect((await sayHello(server.url, 'scripted', 'gen_a:1')).status).toBe(429);
  expect((await sayHello(server.url, 'scripted', 'gen_a:1')).status).toBe(200);
  expect((await sayHello(server.url, 'scripted', 'gen_b:1')).status).toBe(429);
  expect(server.calls({ generationId: 'gen_a' }).map((call) => call.step)).toEqual([1, 1, 1]);
});

test('a call is held until its gate is released, and the gate then stays open', async () => {
  server.script('scripted', [{ text: 'late', hold: 'gate' }]);
  const pending = sayHello(server.url, 'scripted', 'gen_a:1');
  const call = await server.waitForCall({ generationId: 'gen_a' });
  expect(call).toMatchObject({
    model: 'scripted',
    key: 'gen_a:1',
    step: 1,
    answered: false,
    aborted: false,
    waiting: true,
  });
  expect(server.release('gate')).toBe(1);
  expect(await completionText(await pending)).toBe('late');
  await eventually(() => {
    expect(server.calls()[0]).toMatchObject({ answered: true, aborted: false, waiting: false });
  });
  expect(await completionText(await sayHello(server.url, 'scripted', 'gen_a:1'))).toBe('late');
});

test('a client that goes away is seen', async () => {
  server.script('scripted', [{ hold: 'gate' }]);
  const controller = new AbortController();
  const model = createOpenAI({ baseURL: server.url, apiKey: 'key' }).chat('scripted');
  const pending = model.doGenerate(ask('hi', { abortSignal: controller.signal }));
  const failed = expect(pending).rejects.toThrow();
  await server.waitForCall({ model: 'scripted' });
  controller.abort();
  await failed;
  await eventually(() => {
    expect(server.calls()[0]).toMatchObject({ answered: false, aborted: true, waiting: false });
  });
});

test('a stream is held after the given chunk', async () => {
  server.script('scripted', [{ chunks: ['a', 'b', 'c'], holdAfterChunk: { n: 2, gate: 'middle' } }]);
  const { stream } = await createOpenAI({ baseURL: server.url, apiKey: 'key' }).chat('scripted').doStream(ask('hi'));
  const parts: LanguageModelV3StreamPart[] = [];
  const reading = (async () => {
    for await (const part of stream) parts.push(part);
  })();
  await server.waitForCall({ model: 'scripted' });
  await eventually(() => {
    expect(textFrom(parts)).toBe('ab');
  });
  expect(parts.some((part) => part.type === 'finish')).toBe(false);
  server.release('middle');
  await reading;
  expect(textFrom(parts)).toBe('abc');
  expect(parts.at(-1)?.type).toBe('finish');
});

test('a reset ends held calls and forgets everything', async () => {
  server.script('scripted', [{ hold: 'gate' }]);
  const failed = expect(sayHello(server.url, 'scripted')).rejects.toThrow();
  await server.waitForCall();
  server.reset();
  await failed;
  expect(server.calls()).toEqual([]);
  expect(await completionText(await sayHello(server.url, 'scripted'))).toBe('You said: hello');
});

test('waiting for a call that does not come fails with what came', async () => {
  await sayHello(server.url, 'other', 'gen_x:1');
  await expect(server.waitForCall({ model: 'scripted' }, 20)).rejects.toThrow(/"scripted".*in 20 ms.*other gen_x:1/);
});

test('an unknown part of a reply is refused', () => {
  const reply = { txet: 'typo' } as object;
  expect(() => {
    server.script('scripted', [reply]);
  }).toThrow(/txet/);
});

test('a delay comes before the answer', async () => {
  server.script('scripted', [{ text: 'slow', delayMs: 60 }]);
  const started = performance.now();
  expect(await completionText(await sayHello(server.url, 'scripted'))).toBe('slow');
  expect(performance.now() - started).toBeGreaterThanOrEqual(55);
});
