import { languageModel, promptCacheOptions } from '../../src/api/providers/adapters';
import type { ModelAccess } from '../../src/api/providers/access';
import { ask } from '../support/model-client';
import { accessTo, keyFile } from '../support/model-access';

const mockAsked: { url: string; headers: Headers }[] = [];

jest.mock('../../src/api/core/outbound', () => ({
  outbound: () => ({
    fetch: (url: unknown, init: { headers: Record<string, string> }) => {
      mockAsked.push({ url: String(url), headers: new Headers(init.headers) });
      return Promise.resolve(new Response('{}', { status: 401 }));
    },
    request: ({ url }: { url: string }) =>
      Promise.resolve({
        status: url === 'https://oauth2.googleapis.com/token' ? 200 : 500,
        headers: {},
        body: Buffer.from('{"access_token":"ya29.token","expires_in":3600}'),
      }),
  }),
}));

/** What the packages look for where they are not given it. */
const variables = {
  OPENAI_BASE_URL: 'https://elsewhere.example.com/v1',
  OPENAI_API_KEY: 'sk-of-the-operator',
  ANTHROPIC_BASE_URL: 'https://elsewhere.example.com/v1',
  ANTHROPIC_API_KEY: 'sk-of-the-operator',
  GOOGLE_GENERATIVE_AI_API_KEY: 'sk-of-the-operator',
  AZURE_API_KEY: 'sk-of-the-operator',
  AZURE_RESOURCE_NAME: 'elsewhere',
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'AKIAOPERATOR',
  AWS_SECRET_ACCESS_KEY: 'sk-of-the-operator',
  AWS_SESSION_TOKEN: 'sk-of-the-operator',
  AWS_BEARER_TOKEN_BEDROCK: 'sk-of-the-operator',
  AWS_ENDPOINT_URL: 'https://elsewhere.example.com',
  AWS_ENDPOINT_URL_BEDROCK_RUNTIME: 'https://elsewhere.example.com',
  GOOGLE_VERTEX_API_KEY: 'sk-of-the-operator',
  GOOGLE_VERTEX_PROJECT: 'elsewhere',
  GOOGLE_VERTEX_LOCATION: 'elsewhere',
  GOOGLE_CLIENT_EMAIL: 'operator@example.com',
  GOOGLE_PRIVATE_KEY: 'sk-of-the-operator',
};
const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);

beforeEach(() => {
  mockAsked.length = 0;
  Object.assign(process.env, variables);
});
afterAll(() => {
  for (const [name, value] of before) {
    if (value === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
});

async function asked(access: ModelAccess, modelId = 'some-model'): Promise<{ url: string; headers: Headers }> {
  await expect(languageModel(access, modelId).doGenerate(ask('hi'))).rejects.toThrow();
  expect(mockAsked).toHaveLength(1);
  const [first] = mockAsked;
  expect(first!.url).not.toContain('elsewhere');
  expect(JSON.stringify([...first!.headers])).not.toMatch(/operator/i);
  return first!;
}

const own = 'https://own.example.com/v1';
const apiKey = 'sk-tenant';
const azure = (baseUrl: string, apiVersion: string | null = null) => accessTo('azure', { baseUrl, apiKey, apiVersion });
const dated = '2024-10-21';

test.each([
  [accessTo('openai', { apiKey }), 'https://api.openai.com/v1/chat/completions', 'authorization', 'Bearer sk-tenant'],
  [accessTo('openai', { apiKey, baseUrl: own }), `${own}/chat/completions`, 'authorization', 'Bearer sk-tenant'],
  [accessTo('openai'), 'https://api.openai.com/v1/chat/completions', 'authorization', 'Bearer'],
  [accessTo('custom', { baseUrl: own }), `${own}/chat/completions`, 'authorization', null],
  [accessTo('gateway', { baseUrl: own, apiKey }), `${own}/chat/completions`, 'authorization', 'Bearer sk-tenant'],
  [accessTo('ollama', { baseUrl: own }), `${own}/chat/completions`, 'authorization', null],
  [accessTo('xai', { apiKey }), 'https://api.x.ai/v1/chat/completions', 'authorization', 'Bearer sk-tenant'],
  [
    accessTo('groq', { apiKey }),
    'https://api.groq.com/openai/v1/chat/completions',
    'authorization',
    'Bearer sk-tenant',
  ],
  [accessTo('anthropic', { apiKey }), 'https://api.anthropic.com/v1/messages', 'x-api-key', apiKey],
  [accessTo('anthropic', { apiKey, baseUrl: own }), `${own}/messages`, 'x-api-key', apiKey],
  [accessTo('anthropic'), 'https://api.anthropic.com/v1/messages', 'x-api-key', ''],
  [
    accessTo('google', { apiKey }),
    'https://generativelanguage.googleapis.com/v1beta/models/some-model:generateContent',
    'x-goog-api-key',
    apiKey,
  ],
  [
    azure('https://us.openai.azure.com', dated),
    `https://us.openai.azure.com/openai/deployments/some-model/chat/completions?api-version=${dated}`,
    'api-key',
    apiKey,
  ],
  [
    azure('https://us.openai.azure.com/openai/'),
    'https://us.openai.azure.com/openai/v1/chat/completions?api-version=v1',
    'api-key',
    apiKey,
  ],
  [azure(own), `${own}/chat/completions`, 'api-key', apiKey],
  [
    accessTo('bedrock', { apiKey, region: 'eu-central-1' }),
    'https://bedrock-runtime.eu-central-1.amazonaws.com/model/some-model/converse',
    'authorization',
    'Bearer sk-tenant',
  ],
  [
    accessTo('bedrock', { apiKey, region: 'cn-north-1' }),
    'https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/some-model/converse',
    'authorization',
    'Bearer sk-tenant',
  ],
  [
    accessTo('vertex', { apiKey, location: 'us-central1' }),
    'https://aiplatform.googleapis.com/v1/publishers/google/models/some-model:generateContent',
    'x-goog-api-key',
    apiKey,
  ],
] as const)('address and key of %j come from the provider, never from the environment', async (...row) => {
  const [access, url, header, value] = row;
  const first = await asked(access);
  expect([first.url, first.headers.get(header)?.trim() ?? null]).toEqual([url, value]);
});

test.each([
  ['eu', 'https://aiplatform.eu.rep.googleapis.com'],
  ['global', 'https://aiplatform.googleapis.com'],
  ['europe-west4', 'https://europe-west4-aiplatform.googleapis.com'],
])('vertex in %s with a key file asks its host with the token that Google gave for it', async (location, host) => {
  const cloud = { kind: 'google' as const, keyFile: keyFile().text };
  const first = await asked(accessTo('vertex', { cloud, project: 'p-1', location }));
  expect(first.url).toBe(
    `${host}/v1beta1/projects/p-1/locations/${location}/publishers/google/models/some-model:generateContent`,
  );
  expect(first.headers.get('authorization')).toBe('Bearer ya29.token');
  expect(first.headers.get('x-goog-api-key')).toBeNull();
});

test('bedrock with access keys signs for its region, with the session’s token', async () => {
  const cloud = { kind: 'aws' as const, accessKeyId: 'AKIATENANT', secretAccessKey: 'word', sessionToken: 'tok' };
  const first = await asked(accessTo('bedrock', { cloud, region: 'us-west-2' }), 'anthropic.claude-v1:0');
  expect(first.url).toBe('https://bedrock-runtime.us-west-2.amazonaws.com/model/anthropic.claude-v1%3A0/converse');
  expect(first.headers.get('authorization')).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKIATENANT\/\d{8}\/us-west-2\/bedrock\/aws4_request, /,
  );
  expect(first.headers.get('x-amz-security-token')).toBe('tok');
});

test('bedrock keys without a session take none from the environment', async () => {
  const cloud = { kind: 'aws' as const, accessKeyId: 'AKIATENANT', secretAccessKey: 'word', sessionToken: null };
  const first = await asked(accessTo('bedrock', { cloud, region: 'us-west-2' }));
  expect(first.headers.get('x-amz-security-token')).toBeNull();
});

test('the prompt is kept for later calls where the vendor must be asked to', () => {
  expect(promptCacheOptions('anthropic')).toEqual({ anthropic: { cacheControl: { type: 'ephemeral' } } });
  expect(promptCacheOptions('bedrock')).toEqual({ bedrock: { cachePoint: { type: 'default' } } });
  expect(promptCacheOptions('openai')).toEqual({});
});
