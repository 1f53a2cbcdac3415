import '../support/contract-settings';
import type { LanguageModelV3CallOptions } from '@ai-sdk/provider';
import { createHash, createHmac, createVerify } from 'node:crypto';
import {
  GoogleKeyError,
  GoogleTokenError,
  googleAccessToken,
  googleTokenEndpoint,
} from '../../src/api/core/google-token';
import { closeOutbound } from '../../src/api/core/outbound';
import type { ModelAccess } from '../../src/api/providers/access';
import { languageModel, promptCacheOptions } from '../../src/api/providers/adapters';
import { providerFailureOf } from '../../src/api/providers/failures';
import { startLoopback } from '../support/loopback';
import type { Loopback, SeenRequest } from '../support/loopback';
import { accessTo, keyFile } from '../support/model-access';

process.env['TOOL_EGRESS_ALLOWED_HOSTS'] = '127.0.0.1';

type Answer = { status?: number; body: unknown; headers?: Record<string, string> };
let answerOf: (request: SeenRequest) => Answer;
let server: Loopback;

beforeAll(async () => {
  server = await startLoopback((request, response) => {
    const { status = 200, body, headers = {} } = answerOf(request);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body));
  });
  googleTokenEndpoint.url = `${server.url}/token`;
});
beforeEach(() => {
  server.requests.length = 0;
});
afterAll(async () => {
  await closeOutbound();
  await server.close();
});

const openAi = {
  id: 'c',
  created: 0,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } },
};
const anthropic = {
  type: 'message',
  id: 'c',
  model: 'm',
  role: 'assistant',
  content: [{ type: 'text', text: 'hello' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 5, output_tokens: 2, cache_read_input_tokens: 4, cache_creation_input_tokens: 1 },
};
const google = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'hello' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 2, cachedContentTokenCount: 4, totalTokenCount: 12 },
};
const bedrock = {
  output: { message: { role: 'assistant', content: [{ text: 'hello' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 5, outputTokens: 2, totalTokens: 12, cacheReadInputTokens: 4, cacheWriteInputTokens: 1 },
};

const options: LanguageModelV3CallOptions = {
  prompt: [
    { role: 'system', content: 'be kind' },
    { role: 'user', content: [{ type: 'text', text: 'hi' }] },
  ],
  tools: [{ type: 'function', name: 'get_order', inputSchema: { type: 'object', properties: {} } }],
  headers: { 'Idempotency-Key': 'gen_1:1' },
};
const aws = { kind: 'aws' as const, accessKeyId: 'AKIATENANT', secretAccessKey: 'a secret', sessionToken: null };
const file = keyFile();
const account = { kind: 'google' as const, keyFile: file.text };
const at = (provider: ModelAccess['provider'], given: Partial<ModelAccess> = {}) =>
  accessTo(provider, { baseUrl: `${server.url}/v1`, ...given });

const vendors: [string, () => ModelAccess, object, string, [string, string | RegExp]][] = [
  ...(['openai', 'xai', 'groq', 'ollama', 'gateway', 'custom'] as const).map(
    (provider): [string, () => ModelAccess, object, string, [string, string]] => [
      provider,
      () => at(provider, { apiKey: 'k' }),
      openAi,
      '/v1/chat/completions',
      ['authorization', 'Bearer k'],
    ],
  ),
  ['azure', () => at('azure', { apiKey: 'k' }), openAi, '/v1/chat/completions', ['api-key', 'k']],
  ['anthropic', () => at('anthropic', { apiKey: 'k' }), anthropic, '/v1/messages', ['x-api-key', 'k']],
  ['google', () => at('google', { apiKey: 'k' }), google, '/v1/models/m:generateContent', ['x-goog-api-key', 'k']],
  [
    'bedrock, bearer',
    () => at('bedrock', { apiKey: 'k', region: 'eu-west-1' }),
    bedrock,
    '/v1/model/m/converse',
    ['authorization', 'Bearer k'],
  ],
  [
    'bedrock, signed',
    () => at('bedrock', { cloud: aws, region: 'eu-west-1' }),
    bedrock,
    '/v1/model/m/converse',
    ['authorization', /^AWS4-HMAC-SHA256 Credential=AKIATENANT\//],
  ],
  [
    'vertex, express',
    () => at('vertex', { apiKey: 'k', location: 'us-central1' }),
    google,
    '/v1/models/m:generateContent',
    ['x-goog-api-key', 'k'],
  ],
  [
    'vertex, service account',
    () => at('vertex', { cloud: account, project: 'p', location: 'us-central1' }),
    google,
    '/v1/models/m:generateContent',
    ['authorization', 'Bearer token-1'],
  ],
];

test.each(vendors)('%s sends the tool, the key and the idempotency key, and reads the counts', async (...row) => {
  const [, access, body, path, [header, value]] = row;
  answerOf = (request) =>
    request.path === '/token' ? { body: { access_token: 'token-1', expires_in: 3600 } } : { body };
  const answer = await languageModel(access(), 'm').doGenerate(options);
  const seen = server.requests.find((request) => request.path !== '/token')!;
  expect([seen.method, seen.path, seen.headers['idempotency-key']]).toEqual(['POST', path, 'gen_1:1']);
  if (typeof value === 'string') expect(seen.headers[header]).toBe(value);
  else expect(seen.headers[header]).toMatch(value);
  expect(seen.body).toContain('get_order');
  expect(seen.body).toContain('be kind');
  expect(answer.content).toEqual([expect.objectContaining({ type: 'text', text: 'hello' })]);
  expect(answer.finishReason.unified).toBe('stop');
  expect(answer.usage).toMatchObject({ inputTokens: { total: 10, cacheRead: 4 }, outputTokens: { total: 2 } });
});

test('a signature of bedrock is right for the body that was sent', async () => {
  answerOf = () => ({ body: bedrock });
  await languageModel(at('bedrock', { cloud: aws, region: 'eu-west-1' }), 'm').doGenerate(options);
  const { headers, body, path } = server.requests[0]!;
  const [, signed = '', signature] =
    /SignedHeaders=([^,]+), Signature=([0-9a-f]{64})/.exec(headers.authorization ?? '') ?? [];
  const sha = (text: string) => createHash('sha256').update(text).digest('hex');
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  const date = String(headers['x-amz-date']);
  const canonical = [
    'POST',
    path,
    '',
    ...signed.split(';').map((name) => `${name}:${String(headers[name]).trim().replace(/\s+/g, ' ')}`),
    '',
    signed,
    String(headers['x-amz-content-sha256'] ?? sha(body)),
  ].join('\n');
  const scope = `${date.slice(0, 8)}/eu-west-1/bedrock/aws4_request`;
  const key = [...scope.split('/')].reduce<string | Buffer>(hmac, `AWS4${aws.secretAccessKey}`);
  expect(signature).toBe(hmac(key, ['AWS4-HMAC-SHA256', date, scope, sha(canonical)].join('\n')).toString('hex'));
});

test.each([
  ['anthropic', anthropic, { type: 'ephemeral' }, (body: string) => JSON.parse(body).system[0].cache_control],
  ['bedrock', bedrock, { type: 'default' }, (body: string) => JSON.parse(body).system[1].cachePoint],
] as const)('%s is asked to keep the prompt', async (provider, body, expected, read) => {
  answerOf = () => ({ body });
  const prompt: LanguageModelV3CallOptions['prompt'] = [
    { role: 'system', content: 'long', providerOptions: promptCacheOptions(provider) },
    { role: 'user', content: [{ type: 'text', text: 'hi' }] },
  ];
  await languageModel(at(provider, { apiKey: 'k', region: 'eu-west-1' }), 'm').doGenerate({ prompt });
  expect(read(server.requests[0]!.body)).toEqual(expected);
});

test('a schema is sent to servers that speak the interface of openai', async () => {
  answerOf = () => ({ body: openAi });
  const schema = { type: 'object' as const, properties: { capital: { type: 'string' as const } } };
  await languageModel(at('custom'), 'm').doGenerate({ ...options, responseFormat: { type: 'json', schema } });
  expect(JSON.parse(server.requests[0]!.body).response_format.json_schema.schema).toEqual(schema);
});

describe('tokens of Google', () => {
  const scopes = ['https://www.googleapis.com/auth/cloud-platform'];

  test('the assertion is signed with the file’s key, for Google alone, and sent to the fixed address', async () => {
    const own = keyFile();
    answerOf = () => ({ body: { access_token: 'token-2', expires_in: 3600 } });
    expect(await googleAccessToken({ keyFile: own.text, scopes })).toBe('token-2');
    const form = new URLSearchParams(server.requests[0]!.body);
    expect(form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const [head = '', body = '', signature = ''] = form.get('assertion')!.split('.');
    expect(
      createVerify('RSA-SHA256').update(`${head}.${body}`).verify(own.publicKey, Buffer.from(signature, 'base64url')),
    ).toBe(true);
    const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
    expect(read(head)).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'key-1' });
    const claims = read(body);
    expect(claims).toMatchObject({
      iss: 'robot@project-of-the-file.iam.gserviceaccount.com',
      aud: 'https://oauth2.googleapis.com/token',
      scope: scopes[0],
    });
    expect(Number(claims['exp']) - Number(claims['iat'])).toBe(3600);
  });

  test('a token is asked for once while it lasts, and again for another scope or file', async () => {
    const own = keyFile();
    let count = 0;
    answerOf = () => ({ body: { access_token: `token-${String((count += 1))}`, expires_in: 3600 } });
    const ask = (text: string, list = scopes) => googleAccessToken({ keyFile: text, scopes: list });
    expect([await ask(own.text), await ask(own.text)]).toEqual(['token-1', 'token-1']);
    expect(await ask(own.text, ['https://www.googleapis.com/auth/drive'])).toBe('token-2');
    expect(await ask(keyFile().text)).toBe('token-3');
  });

  test('a token in its last minute is not used again', async () => {
    const own = keyFile();
    let count = 0;
    answerOf = () => ({ body: { access_token: `token-${String((count += 1))}`, expires_in: 59 } });
    await googleAccessToken({ keyFile: own.text, scopes });
    expect(await googleAccessToken({ keyFile: own.text, scopes })).toBe('token-2');
  });

  test('a refusal is told with its status and is not kept', async () => {
    const own = keyFile();
    answerOf = () => ({ status: 400, body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } });
    const refusal = await googleAccessToken({ keyFile: own.text, scopes }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(GoogleTokenError);
    expect(refusal).toMatchObject({ status: 400, message: 'invalid_grant: Invalid JWT Signature.' });
    answerOf = () => ({ body: { access_token: 'token-9', expires_in: 3600 } });
    expect(await googleAccessToken({ keyFile: own.text, scopes })).toBe('token-9');
  });

  test.each([
    ['authorized_user', keyFile({ type: 'authorized_user' }).text],
    ['external_account', JSON.stringify({ type: 'external_account', credential_source: { url: 'http://x/' } })],
    ['a broken key', keyFile({ private_key: 'nonsense' }).text],
    ['no JSON', 'nonsense'],
  ])('%s is no key file, and nothing is sent', async (_name, text) => {
    await expect(googleAccessToken({ keyFile: text, scopes })).rejects.toBeInstanceOf(GoogleKeyError);
    expect(server.requests).toEqual([]);
  });
});

describe('refusals', () => {
  const failed = async (access: ModelAccess) => {
    const error = await Promise.resolve(languageModel(access, 'm').doGenerate(options)).catch((e: unknown) => e);
    return providerFailureOf(error, Date.now());
  };
  const bodies: Record<string, (message: string) => object> = {
    openai: (message) => ({ error: { message, type: 't', param: null, code: null } }),
    custom: (message) => ({ error: { message } }),
    anthropic: (message) => ({ type: 'error', error: { type: 'x', message } }),
    google: (message) => ({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }),
    vertex: (message) => ({ error: { code: 400, message, status: 'INVALID_ARGUMENT' } }),
    azure: (message) => ({ error: { message } }),
    bedrock: (message) => ({ message }),
  };
  const accesses = (provider: string) =>
    at(provider as ModelAccess['provider'], { apiKey: 'sk-tenant', region: 'eu-west-1', location: 'us-central1' });

  test.each(Object.keys(bodies))('%s: the message names the status, and the key in it is struck out', async (name) => {
    answerOf = () => ({ status: 401, body: bodies[name]!('bad key sk-tenant') });
    expect(await failed(accesses(name))).toMatchObject({
      retryable: false,
      statusCode: 401,
      message: 'Provider returned 401: bad key [secret]',
    });
    answerOf = () => ({ status: 429, body: bodies[name]!('slow'), headers: { 'retry-after': '3' } });
    expect(await failed(accesses(name))).toMatchObject({ retryable: true, statusCode: 429, retryAfterMs: 3_000 });
    answerOf = () => ({ status: 503, body: bodies[name]!('down') });
    expect(await failed(accesses(name))).toMatchObject({ retryable: true, statusCode: 503 });
  });

  test.each(Object.keys(bodies))('%s: nobody listening may pass', async (name) => {
    const access = { ...accesses(name), baseUrl: 'http://127.0.0.1:9/v1' };
    expect(await failed(access)).toMatchObject({ retryable: true, statusCode: null });
  });

  test('a long refusal is cut only after the secret is struck out', async () => {
    answerOf = () => ({ status: 400, body: bodies['openai']!(`${'x'.repeat(1_970)}sk-tenant`) });
    const { message } = await failed(accesses('openai'));
    expect(message).not.toContain('sk-');
  });

  test('no half of a signing key is told', async () => {
    answerOf = () => ({ status: 403, body: { message: 'AKIATENANT a secret tok' } });
    const cloud = { ...aws, sessionToken: 'tok' };
    const { message } = await failed(at('bedrock', { cloud, region: 'eu-west-1' }));
    expect(message).toBe('Provider returned 403: [secret] [secret] [secret]');
  });

  test('a token that Google refuses is the provider’s refusal', async () => {
    answerOf = () => ({ status: 401, body: { error: 'invalid_client' } });
    const access = at('vertex', { cloud: { kind: 'google', keyFile: keyFile().text }, project: 'p', location: 'eu' });
    expect(await failed(access)).toMatchObject({
      retryable: false,
      statusCode: 401,
      message: 'Provider returned 401: invalid_client',
    });
  });

  test('a redirect to another host does not take the key along', async () => {
    const other = await startLoopback((_request, response) => {
      response.end('{}');
    });
    answerOf = () => ({ status: 307, body: '', headers: { location: `${other.url}/v1/messages` } });
    await failed(accesses('anthropic'));
    expect(other.requests[0]?.headers['x-api-key']).toBeUndefined();
    expect(other.requests).toHaveLength(1);
    await other.close();
  });
});
