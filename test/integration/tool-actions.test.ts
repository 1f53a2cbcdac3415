import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { listed, startMcpServer } from '../support/mcp-server';
import type { McpTestServer } from '../support/mcp-server';

const service = useService();
const typed = { type: 'object', properties: { limit: { type: 'integer' }, account: { type: 'string' } } };
let server: McpTestServer;
let api: ApiClient;
let at: string;

beforeEach(async () => {
  server = await startMcpServer({ pages: [[listed('echo', typed), listed('headers')]] });
  const owner = await service.signedIn();
  const { id } = await service.project(owner);
  at = `/v1/projects/${id}`;
  api = service.client(owner.token);
});

afterEach(() => server.close());

const tool = async (given: object = {}): Promise<string> => {
  const body = { name: 'crm', type: 'mcp', mcp: { url: server.url }, ...given };
  const answer = await api.post(`${at}/tools`, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body.id as string;
};
const call = (id: string, body: object): Promise<Reply> => api.post(`${at}/tools/${id}/call`, body);

test('a remote tool is called by its action, presets win, and the mapping shapes what comes back', async () => {
  const id = await tool({ preset_parameters: { account: 'A' }, output_mapping: { var: 'output.account' } });
  const answer = await call(id, { action: 'echo', input: { account: 'B', limit: 1 } });
  expect([answer.status, answer.body]).toEqual([200, 'A']);
  expect(server.calls).toEqual([{ name: 'echo', args: { account: 'A', limit: 1 } }]);
  expect(server.lists()).toBe(0);
});

test('a context value in a preset is retyped to what the server declares', async () => {
  const id = await tool({ preset_parameters: { limit: '{{context:limit}}' } });
  expect((await call(id, { action: 'echo', tool_context: { limit: '7' } })).body).toEqual({ limit: 7 });
  const bad = await call(id, { action: 'echo', tool_context: { limit: 'seven' } });
  expect([bad.status, bad.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
  expect(server.calls).toHaveLength(1);
});

test.each([
  [{ actions: [] }],
  [{ actions: ['headers'] }],
  [{ actions: ['echo'], denied_actions: ['echo'] }],
  [{ denied_actions: ['echo'], preset_parameters: { limit: '{{context:limit}}' } }],
])('an action outside the lists is refused before any request: %j', async (given) => {
  const answer = await call(await tool(given), { action: 'echo', tool_context: { limit: '1' } });
  expect([answer.status, answer.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
  expect(answer.body.error.details).toEqual([{ path: 'action', message: expect.any(String) }]);
  expect(server.requests).toHaveLength(0);
});

test('configured headers, literal credentials and the context go with the call, and no credential comes back', async () => {
  const headers = { Authorization: 'Bearer canary', 'X-Tenant': '{{context:tenant}}' };
  const id = await tool({ mcp: { url: server.url, headers }, context_keys: ['region'] });
  const answer = await call(id, { action: 'headers', tool_context: { tenant: 'acme', region: 'eu' } });
  expect(answer.body).toMatchObject({ 'x-tenant': 'acme', 'x-svc-context-region': 'eu', authorization: '[secret]' });
  expect(answer.body).not.toHaveProperty('x-svc-context-tenant');
});

test('mcp tools take no name on an agent: what they resolve to is named at the turn', async () => {
  const provider = await api.post(`${at}/ai-providers`, { name: 'p', provider: 'openai', default_model: 'm' });
  const named = await api.post(`${at}/tools`, { name: 'crm', type: 'client', parameters: { type: 'object' } });
  const bound = [await tool(), await tool(), named.body.id as string].map((tool_id) => ({ tool_id }));
  const body = { ai_provider_id: provider.body.id as string, name: 'a', tool_bindings: bound };
  expect((await api.post(`${at}/agents`, body)).status).toBe(201);
});
