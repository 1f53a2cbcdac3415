import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { findProvider, providerAccess } from '../../src/api/providers/service';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';
import { keyFile } from '../support/model-access';

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
  ['get', `/ai-providers/${UNKNOWN}/models`],
  ['get', `/ai-providers/${UNKNOWN}/prices`],
  ['put', `/ai-providers/${UNKNOWN}/prices`, { prices: [] }],
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

test.each([
  { ...openai, provider: 'anthropic' },
  { ...openai, provider: 'google' },
  { ...openai, provider: 'xai' },
  { ...openai, provider: 'groq' },
  { ...custom, provider: 'ollama' },
  { ...custom, provider: 'gateway' },
  { ...custom, provider: 'azure' },
  { ...custom, provider: 'azure', config: { api_version: '2024-10-21' } },
  { ...openai, provider: 'bedrock', config: { region: 'eu-central-1', apiKey: 'k' } },
  { ...openai, provider: 'vertex', config: { apiKey: 'k' } },
])('a provider of any vendor is taken: %j', async (body) => {
  const answer = await api.post(base, body);
  expect([answer.status, answer.body.provider]).toEqual([201, body.provider]);
});

test('managed providers are refused: the catalog is empty', async () => {
  const answer = await api.post(base, { ...openai, provider: 'svc' });
  expect(refused(answer)).toEqual([400, 'VALIDATION_FAILED', 'provider']);
  expect(answer.body.error.message).toContain('not served by this build');
});

test.each([
  [{ ...openai, provider: 'other' }, 'provider'],
  [{ provider: 'openai', default_model: 'm' }, 'name'],
  [{ ...openai, name: '' }, 'name'],
  [{ ...openai, name: 'x'.repeat(256) }, 'name'],
  [{ name: 'x', provider: 'openai' }, 'default_model'],
  [{ ...openai, default_model: '' }, 'default_model'],
  [{ ...openai, config: { region: 'x' } }, 'config'],
  [{ ...openai, config: {} }, 'config'],
  [{ ...openai, provider: 'custom' }, 'base_url'],
  [{ ...openai, provider: 'gateway' }, 'base_url'],
  [{ ...openai, provider: 'azure' }, 'base_url'],
  [{ ...openai, provider: 'ollama' }, 'base_url'],
  [{ ...custom, provider: 'azure', config: {} }, 'config.api_version'],
  [{ ...custom, provider: 'azure', config: { api_version: '2024/x' } }, 'config.api_version'],
  [{ ...openai, provider: 'bedrock', config: { apiKey: 'k' } }, 'config.region'],
  [{ ...openai, provider: 'bedrock', config: { region: 'evil.example/', apiKey: 'k' } }, 'config.region'],
  [{ ...openai, provider: 'bedrock', config: { region: 'eu-west-1', apiKey: '' } }, 'config.apiKey'],
  [{ ...openai, provider: 'bedrock', config: { region: 'eu-west-1', apiKey: { no_echo: true } } }, 'config.apiKey'],
  [{ ...openai, provider: 'bedrock', config: { region: 'eu-west-1', apiKey: 'k', project: 'p' } }, 'config.project'],
  [{ ...openai, provider: 'vertex', config: { apiKey: 'k', location: 'evil.example#' } }, 'config.location'],
  [{ ...openai, provider: 'vertex', config: { apiKey: 'k', project: '../p' } }, 'config.project'],
  [{ ...openai, provider: 'vertex', config: { apiKey: 'k', zone: 'p' } }, 'config.zone'],
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

test.each([
  ['bedrock', { region: 'eu-central-1' }],
  ['vertex', { project: 'p' }],
  ['vertex', null],
])('[providers 3] %s without a secret and without a key is refused: %j', async (provider, config) => {
  expect(refused(await api.post(base, { ...openai, provider, config }))).toEqual([
    400,
    'VALIDATION_FAILED',
    'secret_id',
  ]);
});

describe('a key in config', () => {
  const bedrock = { ...openai, provider: 'bedrock', config: { region: 'eu-central-1', apiKey: 'bedrock-key-1' } };

  test('is used and never shown', async () => {
    const answer = await api.post(base, bedrock);
    expect(answer.body.config).toEqual({ region: 'eu-central-1', apiKey: { no_echo: true } });
    const id = String(answer.body.id);
    const shown = [answer, await api.get(`${base}/${id}`), await api.get(base)];
    expect(JSON.stringify(shown.map(({ body }) => body))).not.toContain('bedrock-key-1');
    const [row] = await query<{ text: string }>('select ai_providers::text as text from ai_providers where id = $1', [
      id,
    ]);
    expect(row!.text).not.toContain('bedrock-key-1');
    expect(await providerAccess(projectId, id)).toMatchObject({ apiKey: 'bedrock-key-1', region: 'eu-central-1' });
  });

  test('goes with the config that PATCH replaces whole', async () => {
    const { id } = await created(bedrock);
    const at = `${base}/${String(id)}`;
    expect(refused(await api.patch(at, { config: { region: 'eu-west-1' } }))).toEqual([
      400,
      'VALIDATION_FAILED',
      'secret_id',
    ]);
    expect(refused(await api.patch(at, { config: { region: 'eu-west-1', apiKey: { no_echo: true } } }))).toEqual([
      400,
      'VALIDATION_FAILED',
      'config.apiKey',
    ]);
    expect(await providerAccess(projectId, id)).toMatchObject({ apiKey: 'bedrock-key-1', region: 'eu-central-1' });
    const secretId = await secret('bedrock-key-2');
    const changed = await api.patch(at, { secret_id: secretId, config: { region: 'eu-west-1' } });
    expect(changed.body.config).toEqual({ region: 'eu-west-1' });
    expect(await providerAccess(projectId, id)).toMatchObject({ apiKey: 'bedrock-key-2', region: 'eu-west-1' });
  });

  test('of one provider is no key of another', async () => {
    const [one, other] = [await created(bedrock), await created(bedrock)];
    await query(
      `update ai_providers set literals_data = (select literals_data from ai_providers where id = $1) where id = $2 returning id`,
      [one.id, other.id],
    );
    expect(await providerAccess(projectId, other.id)).toEqual({ ok: false, reason: 'secret_gone' });
  });

  test('does not survive a change of the vendor unseen', async () => {
    const { id } = await created(bedrock);
    const at = `${base}/${String(id)}`;
    expect(refused(await api.patch(at, { provider: 'openai' }))).toEqual([400, 'VALIDATION_FAILED', 'config']);
    expect((await api.patch(at, { provider: 'openai', config: null })).body).toMatchObject({ config: null });
    expect(await providerAccess(projectId, id)).toMatchObject({ provider: 'openai', apiKey: null });
  });
});

test('vertex without a location is in us-central1', async () => {
  expect((await created({ ...openai, provider: 'vertex', config: { project: 'p', apiKey: 'k' } })).config).toEqual({
    project: 'p',
    location: 'us-central1',
    apiKey: { no_echo: true },
  });
});

describe('the shape of a secret', () => {
  const file = keyFile();
  const aws = { accessKeyId: 'AKIA', secretAccessKey: 's' };
  const accessOfSecret = async (provider: string, config: object | null, value: string) => {
    const { id } = await created({ ...openai, provider, config, secret_id: await secret(value) });
    return providerAccess(projectId, id);
  };
  const region = { region: 'eu-west-1' };

  test.each([
    ['bedrock', region, 'bare-key', { apiKey: 'bare-key', cloud: null }],
    ['bedrock', region, '{"apiKey":"in-json"}', { apiKey: 'in-json', cloud: null }],
    [
      'bedrock',
      region,
      JSON.stringify({ ...aws, sessionToken: 't' }),
      { apiKey: null, cloud: { kind: 'aws', ...aws, sessionToken: 't' } },
    ],
    ['bedrock', region, JSON.stringify(aws), { apiKey: null, cloud: { kind: 'aws', ...aws, sessionToken: null } }],
    ['vertex', null, 'express-key', { apiKey: 'express-key', cloud: null, location: 'us-central1' }],
    ['vertex', null, '{"apiKey":"express"}', { apiKey: 'express', cloud: null }],
    ['vertex', null, file.text, { cloud: { kind: 'google', keyFile: file.text }, project: 'project-of-the-file' }],
    ['vertex', { project: 'mine' }, file.text, { cloud: { kind: 'google', keyFile: file.text }, project: 'mine' }],
  ])('%s %j takes %s', async (provider, config, value, expected) => {
    expect(await accessOfSecret(provider, config, value)).toMatchObject({ ok: true, ...expected });
  });

  test.each([
    ['bedrock', region, '{"accessKeyId":"AKIA"}'],
    ['bedrock', region, '{broken'],
    ['bedrock', region, ' '],
    ['vertex', null, keyFile({ type: 'authorized_user' }).text],
    ['vertex', null, keyFile({ type: 'external_account' }).text],
    ['vertex', null, keyFile({ private_key: 'nonsense' }).text],
    ['vertex', null, keyFile({ project_id: undefined }).text],
    ['vertex', null, '{"type":"service_account"}'],
  ])('%s cannot use %#', async (provider, config, value) => {
    expect(await accessOfSecret(provider, config, value)).toEqual({ ok: false, reason: 'misconfigured' });
  });

  test('a cloud’s provider whose secret was unlinked by force cannot be used: no identity is lent', async () => {
    const secretId = await secret('bare-key');
    const { id } = await created({ ...openai, provider: 'bedrock', config: region, secret_id: secretId });
    await api.delete(`/v1/projects/${projectId}/secrets/${secretId}?force=true`);
    expect(await providerAccess(projectId, id)).toEqual({ ok: false, reason: 'misconfigured' });
  });
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

  test('prices set on it block without force only, and go with it', async () => {
    const { id } = await created();
    const price = { model: 'm', component: 'input_tokens', unit: 'token', unit_price: 1 };
    await api.put(`${base}/${String(id)}/prices`, { prices: [price, { ...price, component: 'output_tokens' }] });
    const answer = await api.delete(`${base}/${String(id)}`);
    expect([answer.status, answer.body.error.meta]).toEqual([409, { ...counts, price_count: 2 }]);
    expect((await api.delete(`${base}/${String(id)}?force=true`)).status).toBe(204);
    expect(await query('select 1 from prices where ai_provider_id = $1', [id])).toEqual([]);
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
    cloud: null,
    region: null,
    project: null,
    location: null,
    apiVersion: null,
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
