import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { findProvider, providerAccess } from '../../src/api/providers/service';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';

const service = useService();
const UNKNOWN = 'aip_0000000000000000';

let api: ApiClient;
let projectId: string;
let base: string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  base = `/v1/projects/${projectId}/ai-providers`;
});

const openai = { name: 'ours', provider: 'openai', default_model: 'gpt-4.1-mini' };
const custom = { ...openai, provider: 'custom', base_url: 'http://127.0.0.1:9/v1' };

const created = async (body: object = openai): Promise<Reply['body']> => (await api.post(base, body)).body;
const secret = async (value = 'sk-1'): Promise<string> =>
  (await api.post(`/v1/projects/${projectId}/secrets`, { name: 's', value })).body.id as string;
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];

describeGuard(service, [
  ['post', '/ai-providers', openai],
  ['get', '/ai-providers'],
  ['get', `/ai-providers/${UNKNOWN}`],
  ['patch', `/ai-providers/${UNKNOWN}`, {}],
  ['delete', `/ai-providers/${UNKNOWN}`],
]);

test('a provider is stored with every field, and no vendor is called', async () => {
  const secretId = await secret();
  const answer = await api.post(base, { ...custom, secret_id: secretId, config: null });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^aip_[0-9A-Za-z]{16}$/),
    project_id: projectId,
    name: 'ours',
    provider: 'custom',
    default_model: 'gpt-4.1-mini',
    secret_id: secretId,
    base_url: 'http://127.0.0.1:9/v1',
    config: null,
    created_at: expect.any(String),
    updated_at: answer.body.created_at,
  });
  expect((await api.get(`${base}/${String(answer.body.id)}`)).body).toEqual(answer.body);
  expect((await api.get(base)).body).toEqual({ data: [answer.body], total: 1, limit: 50, offset: 0 });
});

test('a provider without secret and address takes nulls', async () => {
  expect(await created()).toMatchObject({ secret_id: null, base_url: null, config: null });
});

test.each(['anthropic', 'google', 'xai', 'groq', 'ollama', 'azure', 'bedrock', 'vertex', 'gateway', 'svc'])(
  'the vendor %s is refused as one this build does not serve',
  async (provider) => {
    const answer = await api.post(base, { ...openai, provider });
    expect(refused(answer)).toEqual([400, 'VALIDATION_FAILED', 'provider']);
    expect(answer.body.error.message).toContain('not served by this build');
  },
);

test.each([
  [{ ...openai, provider: 'other' }, 'provider'],
  [{ provider: 'openai', default_model: 'm' }, 'name'],
  [{ ...openai, name: '' }, 'name'],
  [{ ...openai, name: 'x'.repeat(256) }, 'name'],
  [{ name: 'x', provider: 'openai' }, 'default_model'],
  [{ ...openai, default_model: '' }, 'default_model'],
  [{ ...openai, config: { region: 'x' } }, 'config'],
  [{ ...openai, provider: 'custom' }, 'base_url'],
  [{ ...openai, base_url: 'ftp://a.example/' }, 'base_url'],
  [{ ...openai, base_url: 'a.example/v1' }, 'base_url'],
  [{ ...openai, base_url: 'https://user:word@a.example/' }, 'base_url'],
  [{ ...openai, base_url: 'https://a.example/#x' }, 'base_url'],
  [{ ...openai, base_url: 'https://a.example\\@b.example/' }, 'base_url'],
  [{ ...openai, base_url: `https://a.example/${'x'.repeat(2048)}` }, 'base_url'],
  [{ ...openai, region: 'x' }, 'region'],
])('a bad provider is refused naming the field %#', async (body, path) => {
  expect(refused(await api.post(base, body))).toEqual([400, 'VALIDATION_FAILED', path]);
});

test.each(['sec_0000000000000000', 'nonsense'])('an unknown secret is refused: %j', async (secretId) => {
  expect(refused(await api.post(base, { ...openai, secret_id: secretId }))).toEqual([
    400,
    'SECRET_NOT_FOUND',
    'secret_id',
  ]);
  const { id } = await created();
  expect(refused(await api.patch(`${base}/${String(id)}`, { secret_id: secretId }))).toEqual([
    400,
    'SECRET_NOT_FOUND',
    'secret_id',
  ]);
});

test('a secret of another project is unknown', async () => {
  const other = await service.signedIn();
  const { id } = await service.project(other);
  const foreign = await service.client(other.token).post(`/v1/projects/${id}/secrets`, { name: 's', value: 'v' });
  expect((await api.post(base, { ...openai, secret_id: foreign.body.id as string })).body.error.code).toBe(
    'SECRET_NOT_FOUND',
  );
});

test('PATCH changes what is given and clears what is null', async () => {
  const { id, created_at: createdAt } = await created({ ...custom, secret_id: await secret() });
  const answer = await api.patch(`${base}/${String(id)}`, { name: 'new', secret_id: null });
  expect(answer.body).toMatchObject({ name: 'new', secret_id: null, base_url: custom.base_url, created_at: createdAt });
  const moved = await api.patch(`${base}/${String(id)}`, { provider: 'openai', base_url: null });
  expect(moved.body).toMatchObject({ provider: 'openai', base_url: null });
});

test('PATCH is held against the whole provider', async () => {
  const { id } = await created(custom);
  expect(refused(await api.patch(`${base}/${String(id)}`, { base_url: null }))).toEqual([
    400,
    'VALIDATION_FAILED',
    'base_url',
  ]);
  expect(refused(await api.patch(`${base}/${String(id)}`, { provider: 'svc' }))).toEqual([
    400,
    'VALIDATION_FAILED',
    'provider',
  ]);
  const plain = await created();
  expect(refused(await api.patch(`${base}/${String(plain.id)}`, { provider: 'custom' }))).toEqual([
    400,
    'VALIDATION_FAILED',
    'base_url',
  ]);
});

test('an unknown or malformed id is not found', async () => {
  for (const id of [UNKNOWN, 'nonsense']) {
    const answers = [
      await api.get(`${base}/${id}`),
      await api.patch(`${base}/${id}`, {}),
      await api.delete(`${base}/${id}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  }
});

describe('deleting', () => {
  const counts = {
    agent_count: 0,
    chat_count: 0,
    model_route_count: 0,
    price_count: 0,
    usage_count: 0,
    forcible: true,
  };
  const agentOn = (aiProviderId: string): Promise<Reply> =>
    api.post(`/v1/projects/${projectId}/agents`, { ai_provider_id: aiProviderId });
  const usageOf = async (aiProviderId: string, agentId: string): Promise<void> => {
    const trace = newId('trace');
    await query(
      'insert into traces (id, project_id, agent_id, created_at, updated_at) values ($1, $2, $3, now(), now())',
      [trace, projectId, agentId],
    );
    await query(
      `insert into generations (id, project_id, agent_id, agent_version, trace_id, status, ai_provider_id, created_at, updated_at)
       values ($1, $2, $3, 1, $4, 'completed', $5, now(), now())`,
      [newId('generation'), projectId, agentId, trace, aiProviderId],
    );
  };

  test('an unused provider goes', async () => {
    const { id } = await created();
    expect((await api.delete(`${base}/${String(id)}`)).status).toBe(204);
    expect((await api.get(`${base}/${String(id)}`)).status).toBe(404);
  });

  test('[providers 4] agents on it block, with force too', async () => {
    const { id } = await created();
    await agentOn(id);
    for (const suffix of ['', '?force=true']) {
      const answer = await api.delete(`${base}/${String(id)}${suffix}`);
      expect([answer.status, answer.body.error.code]).toEqual([409, 'AI_PROVIDER_HAS_DEPENDENTS']);
      expect(answer.body.error.meta).toEqual({ ...counts, agent_count: 1, forcible: false });
    }
  });

  test('usage history blocks without force only', async () => {
    const { id } = await created();
    const other = await created();
    await usageOf(id, (await agentOn(other.id)).body.id as string);
    const answer = await api.delete(`${base}/${String(id)}`);
    expect([answer.status, answer.body.error.meta]).toEqual([409, { ...counts, usage_count: 1 }]);
    expect((await api.delete(`${base}/${String(id)}?force=true`)).status).toBe(204);
  });

  test('a provider deleted while an agent takes it is either kept or unknown, never half', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id } = await created();
      const [written, deleted] = await Promise.all([agentOn(id), api.delete(`${base}/${String(id)}`)]);
      expect(['201 409', '404 204']).toContain(`${String(written.status)} ${String(deleted.status)}`);
    }
  });
});

test('access to a provider carries the key as it is now', async () => {
  const secretId = await secret('first');
  const { id } = await created({ ...custom, secret_id: secretId });
  const access = {
    ok: true,
    provider: 'custom',
    baseUrl: custom.base_url,
    defaultModel: 'gpt-4.1-mini',
    apiKey: 'first',
  };
  expect(await providerAccess(projectId, id)).toEqual(access);
  await api.patch(`/v1/projects/${projectId}/secrets/${secretId}`, { value: 'second' });
  expect(await providerAccess(projectId, id)).toEqual({ ...access, apiKey: 'second' });
  await query('update secrets set value_key_id = $2 where id = $1 returning id', [secretId, '00000000']);
  expect(await providerAccess(projectId, id)).toEqual({ ok: false, reason: 'secret_gone' });
  await api.delete(`/v1/projects/${projectId}/secrets/${secretId}?force=true`);
  expect(await providerAccess(projectId, id)).toEqual({ ...access, apiKey: null });
});

test('a provider of another project is gone', async () => {
  const { id } = await created();
  const { id: elsewhere } = await service.project(await service.signedIn());
  expect(await providerAccess(elsewhere, id)).toEqual({ ok: false, reason: 'gone' });
  expect(await providerAccess(projectId, 'nul\0')).toEqual({ ok: false, reason: 'gone' });
  expect(await findProvider(projectId, UNKNOWN)).toBeNull();
});
