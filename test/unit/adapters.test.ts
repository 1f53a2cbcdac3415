import { languageModel } from '../../src/api/providers/adapters';

const mockAsked: { url: string; authorization: string | null }[] = [];

jest.mock('../../src/api/core/outbound', () => ({
  outbound: () => ({
    fetch: (url: unknown, init: { headers: Record<string, string> }) => {
      mockAsked.push({ url: String(url), authorization: new Headers(init.headers).get('authorization') });
      return Promise.resolve(new Response('{}', { status: 401 }));
    },
  }),
}));

const variables = ['OPENAI_BASE_URL', 'OPENAI_API_KEY'] as const;
const before = variables.map((name) => process.env[name]);

beforeEach(() => {
  mockAsked.length = 0;
  process.env['OPENAI_BASE_URL'] = 'https://elsewhere.example.com/v1';
  process.env['OPENAI_API_KEY'] = 'sk-of-the-operator';
});
afterAll(() => {
  for (const [index, name] of variables.entries()) {
    if (before[index] === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = before[index];
  }
});

test.each([
  ['openai', null, 'sk-tenant', 'https://api.openai.com/v1/chat/completions', 'Bearer sk-tenant'],
  [
    'openai',
    'https://own.example.com/v1',
    'sk-tenant',
    'https://own.example.com/v1/chat/completions',
    'Bearer sk-tenant',
  ],
  ['openai', null, null, 'https://api.openai.com/v1/chat/completions', 'Bearer '],
  ['custom', 'https://own.example.com/v1', null, 'https://own.example.com/v1/chat/completions', null],
])('%s at %s with key %s: address and key come from the provider, never from the environment', async (...row) => {
  const [provider, baseUrl, apiKey, url, authorization] = row;
  const model = languageModel({ provider, baseUrl, apiKey }, 'some-model');
  await expect(
    model.doGenerate({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }] }),
  ).rejects.toThrow();
  expect(mockAsked.map((asked) => ({ ...asked, authorization: asked.authorization?.trim() ?? null }))).toEqual([
    { url, authorization: authorization?.trim() ?? null },
  ]);
});
