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
let at: string;

beforeEach(async () => {
  owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  at = `/v1/projects/${projectId}`;
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
  ['post', `/agents/${UNKNOWN}/versions/1/restore`],
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

describe('restoring', () => {
  const restore = (version: number | string, body?: object, headers?: Record<string, string>): Promise<Reply> =>
    api.post(`${path}/versions/${String(version)}/restore`, body, headers);
  const tool = async (name: string): Promise<string> =>
    (await api.post(`${at}/tools`, { name, type: 'client', parameters: { type: 'object' } })).body.id as string;
  const labels = async () => (await versions()).map(({ version, label }) => [version, label]);

  test('[agents 4] an old version writes its configuration as a new, higher version', async () => {
    await api.patch(path, { instructions: 'B', temperature: 1, output_schema: { type: 'object' } });
    await api.patch(path, { instructions: 'C' });
    const answer = await restore(1);
    expect(answer.status).toBe(200);
    expect(answer.headers.etag).toBe('"4"');
    expect(answer.body).toMatchObject({ version: 4, instructions: 'A', temperature: null, output_schema: null });
    expect((await api.get(path)).body).toEqual(answer.body);
    const [fourth, , , first] = await versions();
    expect(fourth).toMatchObject({ version: 4, label: 'restored from v1', created_by: owner.userId });
    expect(fourth!.config).toEqual(first!.config);
  });

  test('takes a label, or none by null', async () => {
    await api.patch(path, { instructions: 'B' });
    await restore(1, { label: 'back' });
    await restore(2, { label: null });
    expect(await labels()).toEqual([
      [4, null],
      [3, 'back'],
      [2, null],
      [1, 'first'],
    ]);
  });

  test('clears what an archive of an older build did not set', async () => {
    await query(
      `insert into agent_versions (id, project_id, agent_id, version, config, created_at)
       select 'agver_0000000000' || right(id, 6), project_id, agent_id, 2, (config::jsonb - 'output_schema' - 'temperature' - 'max_steps')::json, now()
       from agent_versions where agent_id = $1`,
      [agentId],
    );
    await query('update agents set last_version = 2 where id = $1', [agentId]);
    await api.patch(path, { temperature: 1, max_steps: 3, output_schema: { type: 'object' } });
    const answer = await restore(2);
    expect(answer.body).toMatchObject({ version: 4, instructions: 'A', temperature: null, max_steps: 20 });
    expect(answer.body.output_schema).toBeNull();
  });

  test('what is live already creates nothing and answers it unchanged', async () => {
    const bound = await tool('bound');
    await api.patch(path, { tool_bindings: [{ tool_id: bound }] });
    await api.delete(`${at}/tools/${bound}?force=true`);
    const before = (await api.get(path)).body;
    const answer = await restore(2, { label: 'unused' });
    expect([answer.status, answer.body]).toEqual([200, before]);
    expect(await versions()).toHaveLength(2);
    await api.patch(path, { tool_bindings: null });
    expect((await restore(1)).body.version).toBe(3);
  });

  test('refuses a stale stated version, from the body or the header, also where nothing would change', async () => {
    await api.patch(path, { instructions: 'B' });
    for (const answer of [
      await restore(1, { expected_version: 1 }),
      await restore(1, {}, { 'If-Match': '"1"' }),
      await restore(2, { expected_version: 1 }),
    ]) {
      expect([answer.status, answer.body.error.code]).toEqual([409, 'VERSION_CONFLICT']);
      expect(answer.body.error.meta).toEqual({ current_version: 2, expected_version: 1 });
    }
    expect(refused(await restore(1, { expected_version: 2 }, { 'If-Match': '1' }))).toEqual([
      400,
      'VALIDATION_FAILED',
      'expected_version',
    ]);
    expect(await versions()).toHaveLength(2);
    expect((await restore(1, { expected_version: 2 })).body.version).toBe(3);
  });

  test('of a version that is not there, or of an unknown or foreign agent, is not found', async () => {
    expect((await restore(2)).status).toBe(404);
    expect((await restore('99999999999')).status).toBe(404);
    expect((await restore(2, { expected_version: 7 })).status).toBe(404);
    expect((await api.post(`${at}/agents/${UNKNOWN}/versions/1/restore`)).status).toBe(404);
    const other = await service.signedIn();
    const { id } = await service.project(other);
    const foreign = `/v1/projects/${id}/agents/${agentId}/versions/1/restore`;
    expect((await service.client(other.token).post(foreign)).status).toBe(404);
  });

  test.each([
    ['0', {}, 'bad_request', 'version'],
    ['x', {}, 'bad_request', 'version'],
    ['1', { label: '' }, 'VALIDATION_FAILED', 'label'],
    ['1', { label: 'x'.repeat(256) }, 'VALIDATION_FAILED', 'label'],
    ['1', { expected_version: 0 }, 'VALIDATION_FAILED', 'expected_version'],
    ['1', { instructions: 'B' }, 'VALIDATION_FAILED', 'instructions'],
  ])('version %s with %j is refused as %s at %s', async (version, body, code, at) => {
    expect(refused(await restore(version, body))).toEqual([400, code, at]);
  });

  test('TOOL_NOT_FOUND: a tool that was deleted since', async () => {
    const gone = await tool('gone');
    await api.patch(path, { tool_bindings: [{ tool_id: gone }], active_tool_ids: [gone] });
    await api.patch(path, { tool_bindings: null, active_tool_ids: null });
    await api.delete(`${at}/tools/${gone}`);
    expect(refused(await restore(2))).toEqual([400, 'TOOL_NOT_FOUND', 'tool_bindings.0.tool_id']);
  });

  test('VALIDATION_FAILED: a tool that a stop condition names, renamed since', async () => {
    const renamed = await tool('before');
    const stop_conditions = [{ type: 'has_tool_call', tool_name: 'before' }];
    await api.patch(path, { tool_bindings: [{ tool_id: renamed }], stop_conditions });
    await api.patch(path, { tool_bindings: null, stop_conditions: null });
    await api.patch(`${at}/tools/${renamed}`, { name: 'after' });
    expect(refused(await restore(2))).toEqual([400, 'VALIDATION_FAILED', 'stop_conditions.0.tool_name']);
  });

  test('AI_PROVIDER_NOT_FOUND: a provider that was deleted since is 400 here', async () => {
    const [{ config }] = (await versions()) as [Reply['body']];
    const other = await api.post(`${at}/ai-providers`, { name: 'q', provider: 'openai', default_model: 'm' });
    await api.patch(path, { ai_provider_id: other.body.id as string });
    expect((await api.delete(`${at}/ai-providers/${config.ai_provider_id as string}`)).status).toBe(204);
    expect(refused(await restore(1))).toEqual([400, 'AI_PROVIDER_NOT_FOUND', 'ai_provider_id']);
    expect((await api.get(path)).body.version).toBe(2);
  });

  test.each([
    [{ model_route_id: 'route_0000000000000000', ai_provider_id: null }, 'MODEL_ROUTE_NOT_FOUND'],
    [{ guardrail_ids: ['guard_0000000000000000'] }, 'GUARDRAIL_NOT_FOUND'],
    [{ knowledge_config: { memory_store_ids: ['mstore_1'] } }, 'MEMORY_STORE_NOT_FOUND'],
    [{ knowledge_config: { document_ids: ['doc_1'] } }, 'DOCUMENT_NOT_FOUND'],
    [{ tool_choice: 'required' }, 'FORCED_TOOL_CHOICE_CANNOT_STOP'],
  ])('an archive with %j is refused as %s', async (change, code) => {
    // What an archive holds that could not be written today.
    await query(
      `insert into agent_versions (id, project_id, agent_id, version, config, created_at)
       select 'agver_1111111111' || right(id, 6), project_id, agent_id, 7, (config::jsonb || $2::jsonb)::json, now()
       from agent_versions where agent_id = $1`,
      [agentId, JSON.stringify(change)],
    );
    const answer = await restore(7);
    expect([answer.status, answer.body.error.code]).toEqual([code.startsWith('FORCED') ? 422 : 400, code]);
    expect((await api.get(path)).body.version).toBe(1);
  });

  test('of two at once each takes a number of its own, or finds itself done', async () => {
    await api.patch(path, { instructions: 'B' });
    const answers = await Promise.all([restore(1), restore(1)]);
    expect(answers.map(({ status, body }) => [status, body.version])).toEqual([
      [200, 3],
      [200, 3],
    ]);
  });
});
