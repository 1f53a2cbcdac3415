import '../support/contract-settings';
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3FunctionTool,
  LanguageModelV3StreamPart,
} from '@ai-sdk/provider';
import { createAnthropic } from '@ai-sdk/anthropic';
import { closeOutbound } from '../../src/api/core/outbound';
import { languageModel } from '../../src/api/providers/adapters';
import { providerFailureOf } from '../../src/api/providers/failures';
import type { ModelServer } from '../../src/local/model-server';
import { startModelServer } from '../../src/local/model-server';
import { ask, partsOf, postJson, textFrom } from '../support/model-client';
import { accessTo } from '../support/model-access';

process.env['TOOL_EGRESS_ALLOWED_HOSTS'] = '127.0.0.1';

let server: ModelServer;

beforeAll(async () => {
  server = await startModelServer();
});
afterEach(() => {
  server.reset();
});
afterAll(async () => {
  await closeOutbound();
  await server.close();
});

const lookupOrder: LanguageModelV3FunctionTool = {
  type: 'function',
  name: 'lookup_order',
  description: 'Reads an order',
  inputSchema: {
    type: 'object',
    properties: { order_id: { type: 'string', pattern: '^ord_\\d+$' }, limit: { type: 'integer' } },
    required: ['order_id', 'limit'],
  },
};

const models: [string, (model: string) => LanguageModelV3][] = [
  ['@ai-sdk/anthropic', (model) => createAnthropic({ baseURL: server.url, apiKey: 'key' })(model)],
  [
    'our adapter of anthropic',
    (model) => languageModel(accessTo('anthropic', { baseUrl: server.url, apiKey: 'key' }), model),
  ],
];

describe.each(models)('%s', (_name, model) => {
  test('a plain answer has text, finish reason and the counts of the cache', async () => {
    const usage = { inputTokens: 100, outputTokens: 7, cachedTokens: 40, cacheWriteTokens: 10 };
    server.script('scripted', [{ text: 'hello', usage, finishReason: 'length' }]);
    const answer = await model('scripted').doGenerate(ask('hi'));
    expect(answer.content).toEqual([{ type: 'text', text: 'hello' }]);
    expect(answer.finishReason).toEqual({ unified: 'length', raw: 'max_tokens' });
    expect(answer.usage).toMatchObject({
      inputTokens: { total: 100, noCache: 50, cacheRead: 40, cacheWrite: 10 },
      outputTokens: { total: 7 },
    });
  });

  test('a tool named in the message is called, and its result is quoted', async () => {
    const question = 'Use lookup order for ord_1042 with limit 5.';
    const first = await model('local-chat').doGenerate(ask(question, { tools: [lookupOrder] }));
    const calls = first.content.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    expect(calls.map(({ toolName, input }) => [toolName, JSON.parse(input) as unknown])).toEqual([
      ['lookup_order', { order_id: 'ord_1042', limit: 5 }],
    ]);
    expect(calls[0]?.toolCallId).toMatch(/^toolu_/);
    expect(first.finishReason.unified).toBe('tool-calls');
    const prompt: LanguageModelV3CallOptions['prompt'] = [
      ...ask(question).prompt,
      { role: 'assistant', content: calls.map((call) => ({ ...call, input: JSON.parse(call.input) as unknown })) },
      {
        role: 'tool',
        content: calls.map(({ toolCallId, toolName }) => ({
          type: 'tool-result',
          toolCallId,
          toolName,
          output: { type: 'json', value: { of: toolName } },
        })),
      },
    ];
    const second = await model('local-chat').doGenerate({ prompt, tools: [lookupOrder] });
    expect(second.content).toEqual([{ type: 'text', text: 'lookup_order answered: {"of":"lookup_order"}' }]);
  });

  test('a stream has the deltas in order, tool calls whole, counts and finish reason', async () => {
    const toolCalls = [
      { id: 'call_1', name: 'lookup_order', args: { order_id: 'ord_1', limit: 2 } },
      { id: 'call_2', name: 'lookup_order', args: { order_id: 'ord_2', limit: 3 } },
    ];
    const usage = { inputTokens: 100, outputTokens: 7, cachedTokens: 40 };
    server.script('scripted', [{ chunks: ['Look', 'ing'], toolCalls, usage }]);
    const parts = await partsOf(model('scripted'), ask('hi', { tools: [lookupOrder] }));
    expect(textFrom(parts)).toBe('Looking');
    const calls = parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    expect(calls.map((call) => [call.toolCallId, call.toolName, JSON.parse(call.input)])).toEqual([
      ['call_1', 'lookup_order', { order_id: 'ord_1', limit: 2 }],
      ['call_2', 'lookup_order', { order_id: 'ord_2', limit: 3 }],
    ]);
    expect(parts.at(-1)).toMatchObject({
      type: 'finish',
      finishReason: { unified: 'tool-calls', raw: 'tool_use' },
      usage: { inputTokens: { total: 100, cacheRead: 40 }, outputTokens: { total: 7 } },
    });
    expect(parts.filter((part) => part.type === 'error')).toEqual([]);
  });

  test('a stream that breaks off keeps the deltas before the break, and is an error', async () => {
    server.script('scripted', [{ chunks: ['one ', 'two '], disconnect: true }]);
    const { stream } = await model('scripted').doStream(ask('hi'));
    const parts: LanguageModelV3StreamPart[] = [];
    const failure = await (async () => {
      for await (const part of stream) parts.push(part);
      return parts.find((part) => part.type === 'error')?.error;
    })().catch((error: unknown) => error);
    expect(textFrom(parts)).toBe('one two ');
    expect(failure).toBeDefined();
    if (_name.startsWith('our')) {
      expect(providerFailureOf(failure, 0)).toMatchObject({ retryable: true, statusCode: null });
    }
  });
});

test('an error comes in the shape of this wire', async () => {
  server.script('scripted', [{ status: 529, text: 'too busy', headers: { 'retry-after': '3' } }]);
  const answer = await postJson(`${server.url}/messages`, {
    model: 'scripted',
    max_tokens: 5,
    messages: [{ role: 'user', content: 'hi' }],
  });
  expect([answer.status, await answer.json()]).toEqual([
    529,
    { type: 'error', error: { type: 'overloaded_error', message: 'too busy' } },
  ]);
  const bad = await postJson(`${server.url}/messages`, { model: 'scripted', messages: [] });
  expect([bad.status, ((await bad.json()) as { error: { type: string } }).error.type]).toEqual([
    400,
    'invalid_request_error',
  ]);
});

test('a call of a tool that has no result is refused, as the real service does', async () => {
  const messages = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'x', input: {} }] },
    { role: 'user', content: 'and?' },
  ];
  const answer = await postJson(`${server.url}/messages`, { model: 'local-chat', max_tokens: 5, messages });
  expect(answer.status).toBe(400);
});

test('models are listed in the shape of the wire that asks', async () => {
  server.script('scripted', [{ text: 'x' }]);
  const version = { headers: { 'anthropic-version': '2023-06-01' } };
  expect(await (await fetch(`${server.url}/models`, version)).json()).toMatchObject({
    data: expect.arrayContaining([expect.objectContaining({ type: 'model', id: 'scripted' })]),
    has_more: false,
  });
  expect(await (await fetch(`${server.url}/models`)).json()).toMatchObject({ object: 'list' });
});

test('a key is asked for in this wire’s header too', async () => {
  const locked = await startModelServer({ apiKey: 'right' });
  const listed = (key: string) =>
    fetch(`${locked.url}/models`, { headers: { 'x-api-key': key, 'anthropic-version': '2023-06-01' } });
  expect([(await listed('wrong')).status, (await listed('right')).status]).toEqual([401, 200]);
  expect(await (await listed('wrong')).json()).toMatchObject({ error: { type: 'authentication_error' } });
  await locked.close();
});
