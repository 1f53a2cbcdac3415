import { query } from '../../src/api/core/db';
import { missingSecrets, secretValue, secretValues } from '../../src/api/secrets/service';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';

const service = useService();
const UNKNOWN = 'sec_0000000000000000';

let api: ApiClient;
let projectId: string;
let base: string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  base = `/v1/projects/${projectId}/secrets`;
});

const created = async (name = 'vendor', value = 'sk-1'): Promise<Reply['body']> =>
  (await api.post(base, { name, value })).body;

const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];

describeGuard(service, [
  ['post', '/secrets', { name: 'x', value: 'y' }],
  ['get', '/secrets'],
  ['get', `/secrets/${UNKNOWN}`],
  ['patch', `/secrets/${UNKNOWN}`, {}],
  ['delete', `/secrets/${UNKNOWN}`],
]);

test('[providers 1] a secret is stored and never read back', async () => {
  const answer = await api.post(base, { name: 'vendor', value: 'sk-canary-1' });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^sec_[0-9A-Za-z]{16}$/),
    project_id: projectId,
    name: 'vendor',
    has_value: true,
    created_at: expect.any(String),
    updated_at: answer.body.created_at,
  });
  const path = `${base}/${String(answer.body.id)}`;
  const others = [await api.get(path), await api.get(base), await api.patch(path, { value: 'sk-canary-2' })];
  expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(JSON.stringify(others)).not.toContain('sk-canary');
});

test('the database holds no readable value, and the row holds it encrypted for itself alone', async () => {
  const first = await created('a', 'sk-canary-plain');
  const second = await created('b', 'other');
  const [row] = await query<{ text: string }>('select secrets::text as text from secrets where id = $1', [first.id]);
  const hex = Buffer.from('sk-canary-plain').toString('hex');
  expect(row!.text).not.toContain(hex);
  await query(
    'update secrets set value_data = (select value_data from secrets where id = $1) where id = $2 returning id',
    [first.id, second.id],
  );
  expect(await secretValue(projectId, second.id)).toBeNull();
});

test.each([
  [{}, 'name'],
  [{ name: 'x' }, 'value'],
  [{ name: '', value: 'x' }, 'name'],
  [{ name: 'x'.repeat(256), value: 'x' }, 'name'],
  [{ name: 'x', value: '' }, 'value'],
  [{ name: 'x', value: 'x'.repeat(65_537) }, 'value'],
  [{ name: 'x', value: { key: 'x' } }, 'value'],
  [{ name: 'x', value: 'x', id: UNKNOWN }, 'id'],
])('a bad secret is refused naming the field %#', async (body, path) => {
  expect(refused(await api.post(base, body))).toEqual([400, 'VALIDATION_FAILED', path]);
});

test('the longest value and the longest name are taken', async () => {
  const { id } = await created('n'.repeat(255), 'v'.repeat(65_536));
  expect(await secretValue(projectId, id)).toBe('v'.repeat(65_536));
});

test('a list shows the newest first, in pages, with clamped limits', async () => {
  for (const name of ['one', 'two', 'three']) await created(name);
  const page = await api.get(`${base}?limit=2&offset=1`);
  expect(page.body).toMatchObject({ total: 3, limit: 2, offset: 1 });
  expect(page.body.data.map(({ name }: { name: string }) => name)).toEqual(['two', 'one']);
  expect((await api.get(`${base}?limit=1000&offset=-5`)).body).toMatchObject({ limit: 100, offset: 0 });
  expect(refused(await api.get(`${base}?limit=abc`))).toEqual([400, 'bad_request', 'query.limit']);
  expect(refused(await api.get(`${base}?name=one`))).toEqual([400, 'bad_request', 'query.name']);
});

test('a new value is used from the next read on, and the name changes alone', async () => {
  const { id } = await created('old', 'first');
  expect((await api.patch(`${base}/${String(id)}`, { name: 'new' })).body).toMatchObject({
    name: 'new',
    has_value: true,
  });
  expect(await secretValue(projectId, id)).toBe('first');
  await api.patch(`${base}/${String(id)}`, { value: 'second' });
  expect(await secretValue(projectId, id)).toBe('second');
});

test('PATCH refuses null and unknown properties', async () => {
  const { id } = await created();
  expect(refused(await api.patch(`${base}/${String(id)}`, { name: null }))).toEqual([400, 'VALIDATION_FAILED', 'name']);
  expect(refused(await api.patch(`${base}/${String(id)}`, { vaule: 'x' }))).toEqual([
    400,
    'VALIDATION_FAILED',
    'vaule',
  ]);
});

test('an unknown, malformed or foreign id is not found', async () => {
  const other = await service.signedIn();
  const { id: otherProject } = await service.project(other);
  const foreign = (
    await service.client(other.token).post(`/v1/projects/${otherProject}/secrets`, { name: 'x', value: 'y' })
  ).body.id as string;
  for (const id of [UNKNOWN, 'nonsense', foreign]) {
    const answers = [
      await api.get(`${base}/${id}`),
      await api.patch(`${base}/${id}`, {}),
      await api.delete(`${base}/${id}`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
  }
});

describe('deleting', () => {
  const provider = async (secretId: string): Promise<string> =>
    (
      await api.post(`/v1/projects/${projectId}/ai-providers`, {
        name: 'p',
        provider: 'openai',
        default_model: 'm',
        secret_id: secretId,
      })
    ).body.id as string;
  const tool = async (secretId: string): Promise<string> =>
    (
      await api.post(`/v1/projects/${projectId}/tools`, {
        name: 't',
        parameters: { type: 'object' },
        execute: { url: 'https://api.example.com', headers: { Authorization: `Bearer {{secret:${secretId}}}` } },
      })
    ).body.id as string;

  test('an unused secret goes, once', async () => {
    const { id } = await created();
    expect((await api.delete(`${base}/${String(id)}`)).status).toBe(204);
    expect((await api.get(`${base}/${String(id)}`)).status).toBe(404);
    expect((await api.delete(`${base}/${String(id)}`)).status).toBe(404);
  });

  test('a used one stays, and the refusal says by what', async () => {
    const { id } = await created();
    const [aip, tid] = [await provider(id), await tool(id)];
    const answer = await api.delete(`${base}/${String(id)}`);
    expect([answer.status, answer.body.error.code]).toEqual([409, 'SECRET_HAS_DEPENDENTS']);
    expect(answer.body.error.meta).toEqual({
      ai_provider_ids: [aip],
      ai_provider_count: 1,
      tool_ids: [tid],
      tool_count: 1,
    });
    expect(await secretValue(projectId, id)).toBe('sk-1');
  });

  test('the refusal shows the first 20 of each kind and counts all', async () => {
    const { id } = await created();
    const ids: string[] = [];
    for (let count = 0; count < 22; count += 1) ids.push(await provider(id));
    const { meta } = (await api.delete(`${base}/${String(id)}`)).body.error;
    expect(meta).toEqual({ ai_provider_ids: ids.slice(0, 20), ai_provider_count: 22, tool_ids: [], tool_count: 0 });
  });

  test('with force the provider loses its link and the tool keeps its token', async () => {
    const { id } = await created();
    const [aip, tid] = [await provider(id), await tool(id)];
    expect((await api.delete(`${base}/${String(id)}?force=true`)).status).toBe(204);
    expect((await api.get(`/v1/projects/${projectId}/ai-providers/${aip}`)).body.secret_id).toBeNull();
    const { execute } = (await api.get(`/v1/projects/${projectId}/tools/${tid}`)).body;
    expect(execute.headers.Authorization).toBe(`Bearer {{secret:${String(id)}}}`);
  });

  test('force takes true and false only', async () => {
    const { id } = await created();
    expect(refused(await api.delete(`${base}/${String(id)}?force=1`))).toEqual([400, 'bad_request', 'query.force']);
  });

  test('a secret deleted while a provider takes it is either kept or refused, never half', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id } = await created();
      const [written, deleted] = await Promise.all([
        api.post(`/v1/projects/${projectId}/ai-providers`, {
          name: 'p',
          provider: 'openai',
          default_model: 'm',
          secret_id: id,
        }),
        api.delete(`${base}/${String(id)}`),
      ]);
      const outcome = `${String(written.status)} ${String(deleted.status)}`;
      expect(['201 409', '400 204']).toContain(outcome);
    }
  });
});

test('values are read for their own project only, and what is missing is named', async () => {
  const { id } = await created('a', 'value');
  const { id: elsewhere } = await service.project(await service.signedIn());
  expect(await secretValues(projectId, [id, UNKNOWN, 'nul\0'])).toEqual(new Map([[id, 'value']]));
  expect(await secretValue(elsewhere, id)).toBeNull();
  expect(await missingSecrets(projectId, [id, UNKNOWN, 'nul\0'])).toEqual([UNKNOWN, 'nul\0']);
  expect(await missingSecrets(elsewhere, [id])).toEqual([id]);
});
