import { googleTokenEndpoint } from '../../src/api/core/google-token';
import { listingLimits } from '../../src/api/providers/listing';
import { startModelServer } from '../../src/local/model-server';
import { useService } from '../support/app';
import { created } from '../support/builders';
import type { ApiClient, Reply } from '../support/client';
import { startLoopback } from '../support/loopback';
import type { Loopback, SeenRequest } from '../support/loopback';
import { keyFile } from '../support/model-access';

const service = useService();

type Answer = { status?: number; body?: unknown; headers?: Record<string, string>; silent?: boolean };
let answerOf: (request: SeenRequest) => Answer;
let vendor: Loopback;
let api: ApiClient;
let at: string;
let base: string;

beforeAll(async () => {
  vendor = await startLoopback((request, response) => {
    const { status = 200, body = {}, headers = {}, silent = false } = answerOf(request);
    if (silent) return;
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  googleTokenEndpoint.url = `${vendor.url}/token`;
});
beforeEach(async () => {
  const owner = await service.signedIn();
  const { id } = await service.project(owner);
  api = service.client(owner.token);
  at = `/v1/projects/${id}`;
  base = `${at}/ai-providers`;
  vendor.requests.length = 0;
});
afterAll(() => vendor.close());

const secret = async (value: string): Promise<string> =>
  created(await api.post(`${at}/secrets`, { name: 's', value })).id as string;
const provider = async (given: object): Promise<string> =>
  created(
    await api.post(base, { name: 'p', provider: 'openai', default_model: 'm', base_url: `${vendor.url}/v1`, ...given }),
  ).id as string;
const listed = async (given: object): Promise<Reply> => api.get(`${base}/${await provider(given)}/models`);

test.each(['openai', 'xai', 'groq', 'gateway', 'custom'])('%s lists what the vendor tells', async (slug) => {
  answerOf = () => ({
    body: { object: 'list', data: [{ id: 'm-2', owned_by: 'them' }, { id: 'm-1' }, { odd: true }] },
  });
  const answer = await listed({ provider: slug, secret_id: await secret('sk-1') });
  expect([answer.status, answer.body]).toEqual([
    200,
    { provider: slug, models: [{ id: 'm-2', vendor: 'them' }, { id: 'm-1' }] },
  ]);
  const { method, path, headers } = vendor.requests[0]!;
  expect([method, path, headers.authorization]).toEqual(['GET', '/v1/models', 'Bearer sk-1']);
});

test('anthropic lists over its pages', async () => {
  answerOf = ({ path }) =>
    path.includes('after_id=m-1')
      ? { body: { data: [{ type: 'model', id: 'm-2', display_name: 'Two' }], has_more: false, last_id: 'm-2' } }
      : { body: { data: [{ type: 'model', id: 'm-1', display_name: 'One' }], has_more: true, last_id: 'm-1' } };
  const answer = await listed({ provider: 'anthropic', secret_id: await secret('sk-1') });
  expect(answer.body.models).toEqual([
    { id: 'm-1', display_name: 'One' },
    { id: 'm-2', display_name: 'Two' },
  ]);
  expect(vendor.requests[0]!.headers).toMatchObject({ 'x-api-key': 'sk-1', 'anthropic-version': '2023-06-01' });
});

test('google lists by ids without their folder', async () => {
  answerOf = ({ path }) =>
    path.includes('pageToken=next')
      ? { body: { models: [{ name: 'models/g-2' }] } }
      : { body: { models: [{ name: 'models/g-1', displayName: 'One' }], nextPageToken: 'next' } };
  const answer = await listed({ provider: 'google', secret_id: await secret('k') });
  expect(answer.body.models).toEqual([{ id: 'g-1', display_name: 'One' }, { id: 'g-2' }]);
  expect(vendor.requests[0]!.headers['x-goog-api-key']).toBe('k');
});

test.each([
  ['access keys', JSON.stringify({ accessKeyId: 'AKIA', secretAccessKey: 's', sessionToken: 't' })],
  ['a key', 'bare-key'],
])('bedrock lists what its control plane tells, with %s', async (_name, value) => {
  answerOf = () => ({
    body: {
      modelSummaries: [
        {
          modelId: 'anthropic.claude',
          modelName: 'Claude',
          providerName: 'Anthropic',
          inputModalities: ['TEXT', 'IMAGE'],
          outputModalities: ['TEXT'],
          responseStreamingSupported: true,
          inferenceTypesSupported: ['ON_DEMAND'],
          modelLifecycle: { status: 'ACTIVE' },
        },
        { modelId: 'bare' },
      ],
    },
  });
  const answer = await listed({
    provider: 'bedrock',
    config: { region: 'eu-west-1' },
    secret_id: await secret(value),
  });
  expect(answer.body.models).toEqual([
    {
      id: 'anthropic.claude',
      display_name: 'Claude',
      vendor: 'Anthropic',
      input_modalities: ['text', 'image'],
      output_modalities: ['text'],
      streaming: true,
      lifecycle: 'active',
      inference_types: ['on_demand'],
    },
    { id: 'bare' },
  ]);
  const { path, headers } = vendor.requests[0]!;
  expect(path).toBe('/v1/foundation-models');
  if (value === 'bare-key') expect(headers.authorization).toBe('Bearer bare-key');
  else {
    expect(headers.authorization).toMatch(
      /^AWS4-HMAC-SHA256 Credential=AKIA\/\d{8}\/eu-west-1\/bedrock\/aws4_request, /,
    );
    expect(headers['x-amz-security-token']).toBe('t');
  }
});

test('vertex lists with the token of its service account, asked for at the fixed address', async () => {
  answerOf = ({ path }) =>
    path === '/token'
      ? { body: { access_token: 'token-1', expires_in: 3600 } }
      : { body: { publisherModels: [{ name: 'publishers/google/models/gemini', launchStage: 'GA' }] } };
  const answer = await listed({
    provider: 'vertex',
    config: { project: 'p' },
    secret_id: await secret(keyFile().text),
  });
  expect(answer.body).toEqual({
    provider: 'vertex',
    models: [{ id: 'gemini', vendor: 'google', lifecycle: 'ga' }],
  });
  expect(vendor.requests.map(({ path }) => path.split('?')[0])).toEqual(['/token', '/v1/models']);
  expect(vendor.requests[1]!.headers.authorization).toBe('Bearer token-1');
});

test.each([
  ['azure', { provider: 'azure' }],
  ['ollama', { provider: 'ollama' }],
  ['vertex', { provider: 'vertex', config: { apiKey: 'express' } }],
])('%s has no listing (of vertex: with an express key), and nothing is asked', async (slug, given) => {
  const answer = await listed(given);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'MODEL_LISTING_UNSUPPORTED']);
  expect(answer.body.error.message).toContain(slug);
  expect(vendor.requests).toEqual([]);
});

test('a provider whose secret has no shape of its vendor is misconfigured', async () => {
  const secretId = await secret(keyFile({ type: 'authorized_user' }).text);
  const answer = await listed({ provider: 'vertex', secret_id: secretId });
  expect([answer.status, answer.body.error.code]).toEqual([400, 'AI_PROVIDER_MISCONFIGURED']);
  expect(vendor.requests).toEqual([]);
});

test('[providers 2] a refused key is told with the vendor’s status; a new value of the secret is used at once', async () => {
  const locked = await startModelServer({ apiKey: 'right' });
  const secretId = await secret('wrong');
  const id = await provider({ base_url: locked.url, secret_id: secretId });
  const refusal = await api.get(`${base}/${id}/models`);
  expect([refusal.status, refusal.body.error]).toEqual([
    502,
    {
      code: 'MODEL_LISTING_FAILED',
      message: 'The openai provider rejected the model listing request (HTTP 401).',
    },
  ]);
  await api.patch(`${at}/secrets/${secretId}`, { value: 'right' });
  const answer = await api.get(`${base}/${id}/models`);
  expect([answer.status, answer.body.models.length > 0]).toEqual([200, true]);
  await locked.close();
});

test('a service account that Google refuses is a refused listing', async () => {
  answerOf = () => ({ status: 400, body: { error: 'invalid_grant' } });
  const answer = await listed({ provider: 'vertex', secret_id: await secret(keyFile().text) });
  expect([answer.status, answer.body.error.message]).toEqual([
    502,
    'The vertex provider rejected the model listing request (HTTP 400).',
  ]);
});

test.each([
  [{ body: 'no json' }, 'could not be read'],
  [{ body: { error: 'x' } }, 'could not be read'],
  [{ status: 307, headers: { location: 'https://elsewhere.example.com/' } }, '(HTTP 307)'],
  [{ status: 500, body: 'sk-1' }, '(HTTP 500)'],
] as [Answer, string][])('an answer that is no listing is 502: %j', async (answer, said) => {
  answerOf = () => answer;
  const reply = await listed({ secret_id: await secret('sk-1') });
  expect([reply.status, reply.body.error.code]).toEqual([502, 'MODEL_LISTING_FAILED']);
  expect(reply.body.error.message).toContain(said);
  expect(reply.body.error.message).not.toContain('sk-1');
});

test('nobody listening, an address that is not allowed, and silence are 502', async () => {
  const closed = await listed({ base_url: 'http://127.0.0.1:9/v1' });
  expect([closed.status, closed.body.error.message]).toEqual([
    502,
    'The openai provider could not be reached: ECONNREFUSED.',
  ]);
  const inside = await listed({ base_url: 'http://169.254.169.254/v1' });
  expect([inside.status, inside.body.error.message]).toEqual([
    502,
    'The openai provider could not be reached: its address is not allowed.',
  ]);
  expect(listingLimits.timeoutMs).toBe(15_000);
  listingLimits.timeoutMs = 200;
  answerOf = () => ({ silent: true });
  const silent = await listed({});
  listingLimits.timeoutMs = 15_000;
  expect([silent.status, silent.body.error.message]).toEqual([
    502,
    // What was left of the time when the request went out.
    expect.stringMatching(/^The openai provider could not be reached: no complete answer within (1\d\d|200) ms\.$/),
  ]);
});

test('an unknown provider is not found', async () => {
  expect((await api.get(`${base}/aip_0000000000000000/models`)).status).toBe(404);
});
