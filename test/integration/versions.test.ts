import { query } from '../../src/api/core/db';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';

const service = useService();
const UNKNOWN = 'agent_0000000000000000';

let owner: Person;
let api: ApiClient;
let agentId: string;
let projectId: string;
let path: string;

beforeEach(async () => {
  owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  const at = `/v1/projects/${projectId}`;
  const provider = await api.post(`${at}/ai-providers`, { name: 'p', provider: 'openai', default_model: 'm' });
  const agent = await api.post(`${at}/agents`, {
    ai_provider_id: provider.body.id as string,
    instructions: 'A',
    prompt_caching: { enabled: true },
    knowledge_config: { limit: 3, min_score: 0.5 },
    version_label: 'first',
  });
  agentId = agent.body.id as string;
  path = `${at}/agents/${agentId}`;
});

const versions = async (): Promise<Reply['body'][]> => (await api.get(`${path}/versions`)).body.data;
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];

describeGuard(service, [
  ['get', `/agents/${UNKNOWN}/versions`],
  ['get', `/agents/${UNKNOWN}/versions/1`],
]);

test('a version holds the whole configuration as it stood, its label and its author', async () => {
  const answer = await api.get(`${path}/versions/1`);
  const agent = (await api.get(path)).body;
  const { id: _id, project_id: _project, version, active_release: _release, created_at, updated_at, ...config } = agent;
  expect(updated_at).toBe(created_at);
  expect(answer.status).toBe(200);
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^agver_[0-9A-Za-z]{16}$/),
    agent_id: agentId,
    version,
    config,
    label: 'first',
    eval_run_id: null,
    created_by: owner.userId,
    created_at,
  });
});

test('[agents 2] a write that changes something takes the next version, one that does not takes none', async () => {
  const first = await api.patch(path, { instructions: 'B' });
  const second = await api.patch(path, { instructions: 'B', version_label: 'unused' });
  expect([first.body.version, second.body.version]).toEqual([2, 2]);
  expect(second.body).toEqual(first.body);
  expect((await versions()).map(({ version, label }) => [version, label])).toEqual([
    [2, null],
    [1, 'first'],
  ]);
});

test('the order of keys is no change', async () => {
  const same = await api.put(path, {
    knowledge_config: { min_score: 0.5, limit: 3 },
    prompt_caching: { enabled: true },
  });
  expect(same.body.version).toBe(1);
  expect((await api.put(path, { knowledge_config: { min_score: 0.5, limit: 4 } })).body.version).toBe(2);
});

test('going back to an older configuration is a new version', async () => {
  await api.patch(path, { instructions: 'B' });
  await api.patch(path, { instructions: 'A' });
  expect((await versions()).map(({ version, config }) => [version, config.instructions])).toEqual([
    [3, 'A'],
    [2, 'B'],
    [1, 'A'],
  ]);
});

test('the author of a write by an API key is the owner of the key', async () => {
  const key = await service.apiKey(owner, { projectId });
  await service.client(key).patch(path, { instructions: 'B' });
  expect((await versions())[0]!.created_by).toBe(owner.userId);
});

test('a list comes in pages, the highest number first', async () => {
  for (const instructions of ['B', 'C', 'D']) await api.patch(path, { instructions });
  const page = (await api.get(`${path}/versions?limit=2&offset=1`)).body;
  expect(page).toMatchObject({ total: 4, limit: 2, offset: 1 });
  expect(page.data.map(({ version }: { version: number }) => version)).toEqual([3, 2]);
});

test.each(['0', '-1', '1.5', 'abc', '1e3', '0x1'])('version %s is no positive integer', async (version) => {
  expect(refused(await api.get(`${path}/versions/${version}`))).toEqual([400, 'bad_request', 'version']);
});

test.each(['2', '2147483648', '99999999999999999999'])('version %s is not there', async (version) => {
  expect((await api.get(`${path}/versions/${version}`)).status).toBe(404);
});

test('versions of an unknown or foreign agent are not found', async () => {
  const other = await service.signedIn();
  const { id } = await service.project(other);
  const foreign = service.client(other.token);
  for (const suffix of ['versions', 'versions/1']) {
    expect((await api.get(`/v1/projects/${projectId}/agents/${UNKNOWN}/${suffix}`)).status).toBe(404);
    expect((await foreign.get(`/v1/projects/${id}/agents/${agentId}/${suffix}`)).status).toBe(404);
  }
});

describe('a stated version', () => {
  beforeEach(async () => {
    for (const instructions of ['B', 'C', 'D', 'E']) await api.patch(path, { instructions });
  });

  const conflict = [409, { current_version: 5, expected_version: 3 }];
  const outcome = ({ status, body }: Reply) => [status, body.error.meta];

  test('[agents 3] that is not the live one is refused and nothing is written', async () => {
    const before = (await api.get(path)).body;
    const answer = await api.patch(path, { instructions: 'X', name: 'Y', expected_version: 3 });
    expect(answer.body.error.code).toBe('VERSION_CONFLICT');
    expect(outcome(answer)).toEqual(conflict);
    expect((await api.get(path)).body).toEqual(before);
    expect(await versions()).toHaveLength(5);
  });

  test.each(['3', '"3"'])('counts as the header If-Match: %s too', async (header) => {
    expect(outcome(await api.put(path, { instructions: 'X' }, { 'If-Match': header }))).toEqual(conflict);
  });

  test('is refused when stale though nothing would change', async () => {
    expect(outcome(await api.patch(path, { instructions: 'E', expected_version: 3 }))).toEqual(conflict);
    expect((await api.patch(path, { instructions: 'E', expected_version: 5 })).body.version).toBe(5);
  });

  test('that is the live one lets the write through, as does *', async () => {
    expect((await api.patch(path, { instructions: 'F' }, { 'If-Match': '"5"' })).body.version).toBe(6);
    expect((await api.patch(path, { instructions: 'G', expected_version: 6 })).body.version).toBe(7);
    expect((await api.patch(path, { instructions: 'H' }, { 'If-Match': '*' })).body.version).toBe(8);
  });

  test('given twice and differently, or malformed, is refused', async () => {
    const twice = await api.patch(path, { instructions: 'F', expected_version: 5 }, { 'If-Match': '4' });
    expect(refused(twice)).toEqual([400, 'VALIDATION_FAILED', 'expected_version']);
    const malformed = await api.patch(path, { instructions: 'F' }, { 'If-Match': 'W/"5"' });
    expect(refused(malformed)).toEqual([400, 'VALIDATION_FAILED', 'header.If-Match']);
    const zero = await api.patch(path, { instructions: 'F', expected_version: 0 });
    expect(refused(zero)).toEqual([400, 'VALIDATION_FAILED', 'expected_version']);
  });

  test('is won by one of two writers', async () => {
    const answers = await Promise.all(
      ['F', 'G'].map((instructions) => api.patch(path, { instructions, expected_version: 5 })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
  });
});

test('writers that state no version queue, and each takes its own', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) => api.patch(path, { instructions: `writer ${String(index)}` })),
  );
  const numbers = answers.map(({ body }) => body.version as number);
  expect([...numbers].sort((a, b) => a - b)).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
  const archived = new Map((await versions()).map(({ version, config }) => [version, config.instructions]));
  for (const { body } of answers) expect(archived.get(body.version)).toBe(body.instructions);
  const last = answers.find(({ body }) => body.version === 9);
  expect((await api.get(path)).body.instructions).toBe(last?.body.instructions);
});

test('a version is never rewritten, not even by a statement', async () => {
  await expect(
    query("update agent_versions set label = 'x' where agent_id = $1 returning id", [agentId]),
  ).rejects.toThrow('never rewritten');
});
