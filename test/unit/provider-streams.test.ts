import '../support/contract-settings';
import type { LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { crc32 } from 'node:zlib';
import { closeOutbound } from '../../src/api/core/outbound';
import type { ModelAccess } from '../../src/api/providers/access';
import { languageModel } from '../../src/api/providers/adapters';
import { providerFailureOf } from '../../src/api/providers/failures';
import type { ProviderFailure } from '../../src/api/providers/failures';
import { startLoopback } from '../support/loopback';
import type { Loopback } from '../support/loopback';
import { ask, textFrom } from '../support/model-client';
import { accessTo } from '../support/model-access';

process.env['TOOL_EGRESS_ALLOWED_HOSTS'] = '127.0.0.1';

let server: Loopback;
let body: string | Uint8Array;
let cuts = false;

beforeAll(async () => {
  server = await startLoopback((_request, response) => {
    response.writeHead(200, {
      'content-type': body instanceof Uint8Array ? 'application/vnd.amazon.eventstream' : 'text/event-stream',
    });
    response.write(body, () => {
      if (cuts) response.destroy();
      else response.end();
    });
  });
});
beforeEach(() => {
  cuts = false;
});
afterAll(async () => {
  await closeOutbound();
  await server.close();
});

const accesses = (provider: ModelAccess['provider']) =>
  accessTo(provider, { baseUrl: `${server.url}/v1`, apiKey: 'sk-tenant', region: 'eu-west-1', location: 'global' });

/** What a reader of the stream gets: the text so far, and the failure that it ended with. */
async function streamed(provider: ModelAccess['provider']): Promise<{ text: string; failure: ProviderFailure | null }> {
  const parts: LanguageModelV3StreamPart[] = [];
  let error: unknown = null;
  try {
    const { stream } = await languageModel(accesses(provider), 'm').doStream(ask('hi'));
    for await (const part of stream) {
      parts.push(part);
      if (part.type === 'error') error = part.error;
    }
    if (error === null && !parts.some((part) => part.type === 'finish')) throw new Error('neither finish nor error');
  } catch (thrown) {
    error = thrown;
  }
  const endings = parts.filter((part) => part.type === 'finish' || part.type === 'error');
  expect(endings.length).toBeLessThanOrEqual(1);
  expect(parts.some((part) => part.type === 'raw')).toBe(false);
  return { text: textFrom(parts), failure: error === null ? null : providerFailureOf(error, 0) };
}

const sse = (...events: object[]) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
/** A frame of Amazon's event stream: lengths and their sum, headers of text, the body, the sum of all. */
function frame(type: 'event' | 'exception', name: string, data: object): Uint8Array {
  const header = (key: string, value: string) => {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(value.length);
    return Buffer.concat([Buffer.from([key.length]), Buffer.from(key), Buffer.from([7]), length, Buffer.from(value)]);
  };
  const sum = (bytes: Uint8Array) => {
    const written = Buffer.alloc(4);
    written.writeUInt32BE(crc32(bytes));
    return written;
  };
  const headers = Buffer.concat([header(':message-type', type), header(`:${type}-type`, name)]);
  const payload = Buffer.from(JSON.stringify(data));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(16 + headers.length + payload.length);
  lengths.writeUInt32BE(headers.length, 4);
  const message = Buffer.concat([lengths, sum(lengths), headers, payload]);
  return Buffer.concat([message, sum(message)]);
}

const openAi = { id: 'c', created: 0, model: 'm' };
const begun: Record<string, () => string | Uint8Array> = {
  openai: () => sse({ ...openAi, choices: [{ index: 0, delta: { content: 'so far' } }] }),
  custom: () => sse({ ...openAi, choices: [{ index: 0, delta: { content: 'so far' } }] }),
  anthropic: () =>
    sse(
      {
        type: 'message_start',
        message: {
          id: 'c',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          usage: { input_tokens: 1, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'so far' } },
    ),
  google: () => sse({ candidates: [{ content: { role: 'model', parts: [{ text: 'so far' }] } }] }),
  vertex: () => sse({ candidates: [{ content: { role: 'model', parts: [{ text: 'so far' }] } }] }),
  bedrock: () => frame('event', 'contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'so far' } }),
};
const joined = (one: string | Uint8Array, other: string | Uint8Array): string | Uint8Array =>
  typeof one === 'string' ? one + String(other) : Buffer.concat([one, other as Uint8Array]);

test.each([
  ['openai', sse({ error: { message: 'busy sk-tenant', type: 'server_error', code: null } }), 500, true],
  ['openai', sse({ error: { message: 'busy sk-tenant', type: 'x', code: 'rate_limit_exceeded' } }), 429, true],
  ['custom', sse({ error: { message: 'busy sk-tenant', code: 400 } }), 400, false],
  ['anthropic', sse({ type: 'error', error: { type: 'overloaded_error', message: 'busy sk-tenant' } }), 529, true],
  ['anthropic', sse({ type: 'error', error: { type: 'permission_error', message: 'busy sk-tenant' } }), 403, false],
  ['google', sse({ error: { code: 503, message: 'busy sk-tenant', status: 'UNAVAILABLE' } }), 503, true],
  ['vertex', sse({ error: { code: 400, message: 'busy sk-tenant', status: 'INVALID_ARGUMENT' } }), 400, false],
  ['bedrock', frame('exception', 'throttlingException', { message: 'busy sk-tenant' }), 429, true],
  ['bedrock', frame('exception', 'internalServerException', { message: 'busy sk-tenant' }), 500, true],
  ['bedrock', frame('exception', 'validationException', { message: 'busy sk-tenant' }), 400, false],
] as const)('%s: an error inside of a stream has its status, however late it comes', async (...row) => {
  const [provider, error, statusCode, retryable] = row;
  const expected = { statusCode, retryable, message: `Provider returned ${String(statusCode)}: busy [secret]` };
  body = joined(begun[provider]!(), error);
  expect(await streamed(provider)).toMatchObject({ text: 'so far', failure: expected });
  body = error;
  expect(await streamed(provider)).toMatchObject({ text: '', failure: expected });
});

test.each(Object.keys(begun))('%s: a connection that is cut in a stream may pass', async (name) => {
  cuts = true;
  body = begun[name]!();
  const { text, failure } = await streamed(name as ModelAccess['provider']);
  expect(text).toBe('so far');
  expect(failure).toMatchObject({ retryable: true, statusCode: null });
});

test.each(Object.keys(begun))('%s: a stream that ends without an ending has lost something', async (name) => {
  body = begun[name]!();
  const { failure } = await streamed(name as ModelAccess['provider']);
  expect(failure).toMatchObject({ retryable: true, message: 'Provider could not be reached: the answer broke off.' });
});

test('bedrock: a stream that ends inside of a frame may pass', async () => {
  const whole = begun['bedrock']!() as Uint8Array;
  body = Buffer.concat([whole, whole.subarray(0, 20)]);
  expect((await streamed('bedrock')).failure).toMatchObject({ retryable: true });
});

test('an error without a known name in a stream may pass, and is told as it is', async () => {
  body = sse({ error: { message: 'odd', type: 'weird' } });
  expect((await streamed('custom')).failure).toEqual({
    retryable: true,
    statusCode: null,
    message: 'Provider ended its answer with an error: odd',
    retryAfterMs: null,
  });
});

test('a stream that cannot be read is final: it was paid for', async () => {
  body = 'data: {"broken\n\n';
  expect((await streamed('openai')).failure).toMatchObject({ retryable: false });
});
