import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3FunctionTool,
  LanguageModelV3StreamPart,
} from '@ai-sdk/provider';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { ModelServer } from '../../src/local/model-server';
import { startModelServer } from '../../src/local/model-server';
import { ask, partsOf, textFrom } from '../support/model-client';

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

const vendors: [string, (model: string) => LanguageModelV3][] = [
  ['@ai-sdk/openai', (model) => createOpenAI({ baseURL: server.url, apiKey: 'key' }).chat(model)],
  [
    '@ai-sdk/openai-compatible',
    (model) => createOpenAICompatible({ name: 'local', baseURL: server.url, apiKey: 'key', includeUsage: true })(model),
  ],
];

const lookupOrder: LanguageModelV3FunctionTool = {
  type: 'function',
  name: 'lookup_order',
  description: 'Reads an order',
  inputSchema: {
    type: 'object',
    properties: {
      order_id: { type: 'string', pattern: '^ord_\\d+$' },
      limit: { type: 'integer' },
      note: { type: 'string' },
    },
    required: ['order_id', 'limit'],
  },
};
const getTime: LanguageModelV3FunctionTool = {
  type: 'function',
  name: 'get-time',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

function keyed(key: string): Partial<LanguageModelV3CallOptions> {
  return { headers: { 'Idempotency-Key': key } };
}

describe.each(vendors)('%s talks to it', (_name, model) => {
  test('a plain answer has text, usage and finish reason', async () => {
    const answer = await model('local-chat').doGenerate(ask('How are you?'));
    expect(answer.content).toEqual([{ type: 'text', text: 'You said: How are you?' }]);
    expect(answer.finishReason).toEqual({ unified: 'stop', raw: 'stop' });
    expect(answer.usage.inputTokens.total).toBe(3);
    expect(answer.usage.outputTokens.total).toBe(6);
    expect(answer.warnings).toEqual([]);
  });

  test('a plain answer calls two tools at once, then quotes their results', async () => {
    const question = 'Use lookup order for ord_1042 with limit 5 and get_time for Paris.';
    const tools = [lookupOrder, getTime];
    const first = await model('local-chat').doGenerate(ask(question, { tools, ...keyed('gen_a:1') }));
    const calls = first.content.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    expect(calls.map(({ toolName, input }) => [toolName, JSON.parse(input) as unknown])).toEqual([
      ['lookup_order', { order_id: 'ord_1042', limit: 5 }],
      ['get-time', { city: 'Paris' }],
    ]);
    expect(first.finishReason).toEqual({ unified: 'tool-calls', raw: 'tool_calls' });

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
    const second = await model('local-chat').doGenerate({ prompt, tools });
    expect(second.content).toEqual([
      { type: 'text', text: 'lookup_order answered: {"of":"lookup_order"}\nget-time answered: {"of":"get-time"}' },
    ]);
  });
});

describe.each(vendors)('%s streams', (_name, model) => {
  test('a stream has the deltas in order, the usage with cached tokens and the finish reason', async () => {
    const usage = { inputTokens: 100, outputTokens: 7, cachedTokens: 40 };
    server.script('scripted', [{ chunks: ['Hel', 'lo ', 'there'], finishReason: 'length', usage }]);
    const parts = await partsOf(model('scripted'), ask('hi'));
    const deltas = parts.flatMap((part) => (part.type === 'text-delta' ? [part.delta] : []));
    expect(deltas.filter((delta) => delta !== '')).toEqual(['Hel', 'lo ', 'there']);
    const finish = parts.at(-1);
    expect(finish).toMatchObject({
      type: 'finish',
      finishReason: { unified: 'length', raw: 'length' },
      usage: { inputTokens: { total: 100, cacheRead: 40 }, outputTokens: { total: 7 } },
    });
    expect(parts.filter((part) => part.type === 'error')).toEqual([]);
  });

  test('a stream carries parallel tool calls whole', async () => {
    const toolCalls = [
      { id: 'call_1', name: 'lookup_order', args: { order_id: 'ord_1', limit: 2 } },
      { id: 'call_2', name: 'get-time', args: { city: 'Rome' } },
    ];
    server.script('scripted', [{ text: 'Looking.', toolCalls }]);
    const parts = await partsOf(model('scripted'), ask('hi', { tools: [lookupOrder, getTime] }));
    const calls = parts.flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    expect(calls.map((call) => [call.toolCallId, call.toolName, call.input])).toEqual([
      ['call_1', 'lookup_order', '{"order_id":"ord_1","limit":2}'],
      ['call_2', 'get-time', '{"city":"Rome"}'],
    ]);
    expect(textFrom(parts)).toBe('Looking.');
    expect(parts.at(-1)).toMatchObject({ type: 'finish', finishReason: { unified: 'tool-calls' } });
  });
});

describe.each(vendors)('%s sees faults', (_name, model) => {
  test('an error status reaches the caller with its message', async () => {
    server.script('scripted', [{ status: 404, text: 'no such model', headers: { 'retry-after': '3' } }]);
    const failure = model('scripted').doGenerate(ask('hi'));
    await expect(failure).rejects.toMatchObject({ statusCode: 404, message: 'no such model' });
    await expect(model('error-503').doStream(ask('hi'))).rejects.toMatchObject({ statusCode: 503, isRetryable: true });
  });

  test('a broken body and a broken connection are errors', async () => {
    server.script('scripted', [{ malformed: '{"choices": [' }, { disconnect: true }]);
    await expect(model('scripted').doGenerate(ask('hi', keyed('gen_b:1')))).rejects.toThrow();
    await expect(model('scripted').doGenerate(ask('hi', keyed('gen_b:2')))).rejects.toThrow();
    expect(server.calls({ generationId: 'gen_b' }).map(({ answered, aborted }) => [answered, aborted])).toEqual([
      [true, false],
      [false, false],
    ]);
  });

  test('a stream that breaks off keeps the deltas before the break', async () => {
    server.script('scripted', [{ chunks: ['one ', 'two '], disconnect: true }]);
    const { stream } = await model('scripted').doStream(ask('hi'));
    const parts: LanguageModelV3StreamPart[] = [];
    const failed = await (async () => {
      try {
        for await (const part of stream) parts.push(part);
        return parts.some((part) => part.type === 'error');
      } catch {
        return true;
      }
    })();
    expect(textFrom(parts)).toBe('one two ');
    expect(failed).toBe(true);
  });
});
