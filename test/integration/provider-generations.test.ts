import type { ModelServer } from '../../src/local/model-server';
import { startModelServer } from '../../src/local/model-server';
import { useService } from '../support/app';
import { buildAgent, buildClientTool, created, saying } from '../support/builders';
import type { Workspace } from '../support/builders';

const service = useService({ worker: true });
let models: ModelServer;

beforeAll(async () => {
  models = await startModelServer();
});
afterEach(() => {
  models.reset();
});
afterAll(() => models.close());

/** A project with a provider of that vendor on the local model server. */
async function on(provider: string, secret = 'sk-tenant'): Promise<Workspace> {
  const owner = await service.signedIn();
  const { id: projectId } = await service.project(owner);
  const api = service.client(owner.token);
  const at = `/v1/projects/${projectId}`;
  const { id: secretId } = created(await api.post(`${at}/secrets`, { name: 's', value: secret }));
  const body = { name: 'p', provider, default_model: 'scripted', secret_id: secretId, base_url: models.url };
  const { id: providerId } = created(await api.post(`${at}/ai-providers`, body));
  return { api, at, projectId, providerId, model: 'scripted' };
}

test('a run on anthropic calls a tool, takes its result and counts what the cache served', async () => {
  const space = await on('anthropic');
  const tool = await buildClientTool(space);
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
  models.script('scripted', [
    {
      toolCalls: [{ id: 'toolu_1', name: tool.name, args: { order_id: 'ord_1' } }],
      usage: { inputTokens: 50, outputTokens: 5, cachedTokens: 20 },
    },
    { text: 'Approved.', usage: { inputTokens: 60, outputTokens: 7, cachedTokens: 30 } },
  ]);
  const paused = await space.api.post(
    `${space.at}/agents/${agent.id}/generate?wait=true`,
    saying('Approve the refund of ord_1'),
  );
  expect([paused.status, paused.body.status]).toEqual([200, 'requires_action']);
  const finished = await space.api.post(
    `${space.at}/agents/${agent.id}/generate/${String(paused.body.id)}/tool-outputs`,
    { tool_outputs: [{ tool_call_id: 'toolu_1', output: { ok: true } }] },
  );
  expect([finished.status, finished.body.status]).toEqual([200, 'completed']);
  const record = await space.api.get(`${space.at}/generations/${String(paused.body.id)}`);
  expect(record.body.usage).toMatchObject({ input_tokens: 110, output_tokens: 12, cached_tokens: 50 });
  const [first, second] = models.calls({ generationId: String(paused.body.id) });
  expect([first?.path, first?.headers['x-api-key']]).toEqual(['/v1/messages', 'sk-tenant']);
  expect(JSON.stringify(second?.body)).toContain('tool_result');
});

test('a vendor that is overloaded is asked again, one that refuses is not, and the key is in no answer', async () => {
  const space = await on('anthropic');
  const agent = await buildAgent(space);
  models.script('scripted', [{ times: 1, status: 529, text: 'busy', then: { text: 'now' } }]);
  const waited = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('hi'));
  expect([waited.status, waited.body.status, models.calls().length]).toEqual([200, 'completed', 2]);
  models.script('scripted', [{ status: 403, text: 'no use of sk-tenant here' }]);
  const refused = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('hi'));
  expect([refused.status, refused.body.error.code, refused.body.error.meta.provider_status_code]).toEqual([
    502,
    'AI_PROVIDER_ERROR',
    403,
  ]);
  expect(refused.body.error.message).toBe('Provider returned 403: no use of [secret] here');
});

test('a provider whose secret has no shape of its vendor fails the run as misconfigured, and nothing is asked', async () => {
  const space = await on('vertex', '{"type":"authorized_user","refresh_token":"x"}');
  const agent = await buildAgent(space);
  const answer = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('hi'));
  expect([answer.status, answer.body.error.code]).toEqual([400, 'AI_PROVIDER_MISCONFIGURED']);
  expect(models.calls()).toEqual([]);
});
