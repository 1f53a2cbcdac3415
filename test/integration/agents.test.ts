import { inTransaction, query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { servedAgent } from '../../src/api/agents/service';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { describeGuard } from '../support/guarded-routes';

const service = useService();
const UNKNOWN = 'agent_0000000000000000';

let api: ApiClient;
let projectId: string;
let at: string;
let base: string;
let providerId: string;

const provider = async (): Promise<string> =>
  (await api.post(`${at}/ai-providers`, { name: 'p', provider: 'openai', default_model: 'm' })).body.id as string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  at = `/v1/projects/${projectId}`;
  base = `${at}/agents`;
  providerId = await provider();
});

const created = async (given: object = {}): Promise<Reply['body']> => {
  const answer = await api.post(base, { ai_provider_id: providerId, ...given });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const tool = async (name: string): Promise<string> =>
  (await api.post(`${at}/tools`, { name, type: 'client', parameters: { type: 'object' } })).body.id as string;
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];
const invalid = (path: string) => [400, 'VALIDATION_FAILED', path];

const runOf = async (agentId: string): Promise<void> => {
  const trace = newId('trace');
  await query(
    'insert into traces (id, project_id, agent_id, created_at, updated_at) values ($1, $2, $3, now(), now())',
    [trace, projectId, agentId],
  );
  await query(
    `insert into generations (id, project_id, agent_id, agent_version, trace_id, status, created_at, updated_at)
     values ($1, $2, $3, 1, $4, 'completed', now(), now())`,
    [newId('generation'), projectId, agentId, trace],
  );
};

describeGuard(service, [
  ['post', '/agents', { ai_provider_id: 'aip_0000000000000000' }],
  ['get', '/agents'],
  ['get', `/agents/${UNKNOWN}`],
  ['put', `/agents/${UNKNOWN}`, {}],
  ['patch', `/agents/${UNKNOWN}`, {}],
  ['delete', `/agents/${UNKNOWN}`],
]);

test('[agents 1] an agent of a provider alone has every field at its default', async () => {
  const answer = await api.post(base, { ai_provider_id: providerId });
  expect(answer.status).toBe(201);
  expect(answer.headers.etag).toBe('"1"');
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^agent_[0-9A-Za-z]{16}$/),
    project_id: projectId,
    ai_provider_id: providerId,
    model_route_id: null,
    name: null,
    instructions: null,
    model: null,
    tool_bindings: null,
    active_tool_ids: null,
    max_steps: 20,
    tool_choice: 'auto',
    stop_conditions: null,
    step_rules: null,
    temperature: null,
    max_context_messages: null,
    output_schema: null,
    knowledge_config: null,
    guardrail_ids: null,
    boundary_policy: null,
    single_session_per_actor: false,
    trace_content_mode: null,
    on_approval_expiry: null,
    prompt_caching: null,
    version: 1,
    active_release: null,
    created_at: expect.any(String),
    updated_at: answer.body.created_at,
  });
  const read = await api.get(`${base}/${answer.body.id}`);
  expect(read.body).toEqual(answer.body);
  expect(read.headers.etag).toBe('"1"');
  expect((await api.get(base)).body).toEqual({ data: [answer.body], total: 1, limit: 50, offset: 0 });
  expect((await api.get(`${base}/${answer.body.id}/versions`)).body.total).toBe(1);
});

test('every field that this build serves is kept as it was given', async () => {
  const given = {
    name: 'support',
    instructions: 'Be kind.',
    model: 'gpt-x',
    tool_bindings: [{ tool_id: await tool('a') }, { tool_id: await tool('b') }],
    active_tool_ids: [],
    max_steps: 3,
    tool_choice: 'required',
    stop_conditions: [
      { type: 'has_tool_call', tool_name: 'a' },
      { type: 'max_chain_generations', max_generations: 4 },
    ],
    step_rules: [
      { step: 1, tool_choice: { type: 'tool', tool_name: 'b' } },
      { step: 3, active_tool_ids: [] },
    ],
    output_schema: { type: 'object', properties: { Answer: { type: 'string' } }, required: ['Answer'] },
    temperature: 0.5,
    max_context_messages: 10,
    knowledge_config: { document_paths: ['/handbook/'], tags: { team: 'a' }, min_score: 0.2, limit: 7 },
    guardrail_ids: [],
    single_session_per_actor: true,
    trace_content_mode: 'none',
    on_approval_expiry: 'react',
    prompt_caching: { enabled: true },
  };
  const agent = await created(given);
  expect(agent).toMatchObject(given);
  expect((await api.get(`${base}/${agent.id}`)).body).toEqual(agent);
});

test.each([
  [{ ai_provider_id: undefined }, 'ai_provider_id'],
  [{ ai_provider_id: null }, 'ai_provider_id'],
  [{ model_route_id: 'route_0000000000000000' }, 'model_route_id'],
  [{ name: '' }, 'name'],
  [{ name: 'x'.repeat(256) }, 'name'],
  [{ instructions: 'x'.repeat(100_001) }, 'instructions'],
  [{ model: 7 }, 'model'],
  [{ tool_bindings: 'x' }, 'tool_bindings'],
  [{ tool_bindings: Array.from({ length: 129 }, () => ({ tool_id: 'tool_0000000000000000' })) }, 'tool_bindings'],
  [{ tool_bindings: [{ tool: { name: 'x' } }] }, 'tool_bindings.0.tool.parameters'],
  [{ tool_bindings: [{ tool_id: 'tool_0000000000000000', tool: {} }] }, 'tool_bindings.0.tool.name'],
  [{ tool_bindings: [{}] }, 'tool_bindings.0'],
  [{ max_steps: 0 }, 'max_steps'],
  [{ max_steps: 101 }, 'max_steps'],
  [{ max_steps: 1.5 }, 'max_steps'],
  [{ max_steps: null }, 'max_steps'],
  [{ active_tool_ids: 'all' }, 'active_tool_ids'],
  [{ active_tool_ids: [7] }, 'active_tool_ids.0'],
  [{ active_tool_ids: Array.from({ length: 129 }, () => 'tool_0000000000000000') }, 'active_tool_ids'],
  [{ tool_choice: 'none' }, 'tool_choice'],
  [{ tool_choice: { type: 'function', tool_name: 'x' } }, 'tool_choice'],
  [{ tool_choice: { type: 'tool' } }, 'tool_choice'],
  [{ tool_choice: { type: 'tool', tool_name: '' } }, 'tool_choice.tool_name'],
  [{ tool_choice: { type: 'tool', tool_name: 'x', id: 'y' } }, 'tool_choice.id'],
  [{ stop_conditions: {} }, 'stop_conditions'],
  [{ stop_conditions: [{ type: 'has_text' }] }, 'stop_conditions.0.type'],
  [{ stop_conditions: [{}] }, 'stop_conditions.0.type'],
  [{ stop_conditions: [{ type: 'has_tool_call' }] }, 'stop_conditions.0.tool_name'],
  [{ stop_conditions: [{ type: 'has_tool_call', tool_name: '' }] }, 'stop_conditions.0.tool_name'],
  [{ stop_conditions: [{ type: 'has_tool_call', tool_name: 'x', times: 2 }] }, 'stop_conditions.0.times'],
  [{ stop_conditions: [{ type: 'max_chain_generations', max_generations: 0 }] }, 'stop_conditions.0.max_generations'],
  [{ stop_conditions: [{ type: 'max_chain_generations', max_generations: 1.5 }] }, 'stop_conditions.0.max_generations'],
  [{ step_rules: [{ tool_choice: 'auto' }] }, 'step_rules.0.step'],
  [{ step_rules: [{ step: 0 }] }, 'step_rules.0.step'],
  [{ step_rules: [{ step: 1.5 }] }, 'step_rules.0.step'],
  [{ step_rules: [{ step: 101 }] }, 'step_rules.0.step'],
  [{ step_rules: [{ step: 2 }, { step: 1 }, { step: 2 }] }, 'step_rules.2.step'],
  [{ step_rules: [{ step: 1, tool_choice: 'never' }] }, 'step_rules.0.tool_choice'],
  [{ step_rules: [{ step: 1, active_tool_ids: 'x' }] }, 'step_rules.0.active_tool_ids'],
  [{ step_rules: [{ step: 1, temperature: 1 }] }, 'step_rules.0.temperature'],
  [{ trace_content_mode: 'some' }, 'trace_content_mode'],
  [{ temperature: 2.1 }, 'temperature'],
  [{ temperature: -1 }, 'temperature'],
  [{ max_context_messages: 0 }, 'max_context_messages'],
  [{ knowledge_config: { unknown: 1 } }, 'knowledge_config.unknown'],
  [{ knowledge_config: { limit: 101 } }, 'knowledge_config.limit'],
  [{ knowledge_config: { tags: { 'system.x': 'y' } } }, 'knowledge_config.tags.system.x'],
  [{ boundary_policy: { statement: [] } }, 'boundary_policy'],
  [{ single_session_per_actor: null }, 'single_session_per_actor'],
  [{ on_approval_expiry: 'wait' }, 'on_approval_expiry'],
  [{ prompt_caching: { enabled: 'yes' } }, 'prompt_caching.enabled'],
  [{ prompt_caching: { enabled: true, ttl: 5 } }, 'prompt_caching.ttl'],
  [{ version_label: '' }, 'version_label'],
  [{ colour: 'red' }, 'colour'],
])('a bad configuration is refused naming the field, on create and on update %#', async (given, path) => {
  expect(refused(await api.post(base, { ai_provider_id: providerId, ...given }))).toEqual(invalid(path));
  const agent = await created();
  if ('ai_provider_id' in given && given.ai_provider_id === undefined) return;
  expect(refused(await api.patch(`${base}/${agent.id}`, given))).toEqual(invalid(path));
  expect((await api.get(`${base}/${agent.id}`)).body).toEqual(agent);
});

test('expected_version is no field of a create', async () => {
  expect(refused(await api.post(base, { ai_provider_id: providerId, expected_version: 1 }))).toEqual(
    invalid('expected_version'),
  );
});

describe('references', () => {
  const both = async (given: object): Promise<Reply[]> => {
    const { id } = await created();
    return [
      await api.post(base, { ai_provider_id: providerId, ...given }),
      await api.put(`${base}/${id}`, given),
      await api.patch(`${base}/${id}`, given),
    ];
  };

  test.each(['aip_0000000000000000', 'nonsense'])('an unknown provider is 404 naming the field: %s', async (id) => {
    for (const answer of await both({ ai_provider_id: id })) {
      expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found']);
      expect(answer.body.error.message).toContain('ai_provider_id');
    }
  });

  test('a provider and a tool of another project are unknown', async () => {
    const other = await service.signedIn();
    const { id } = await service.project(other);
    const theirs = service.client(other.token);
    const foreign = await theirs.post(`/v1/projects/${id}/ai-providers`, {
      name: 'p',
      provider: 'openai',
      default_model: 'm',
    });
    const foreignTool = await theirs.post(`/v1/projects/${id}/tools`, {
      name: 't',
      type: 'client',
      parameters: { type: 'object' },
    });
    for (const answer of await both({ ai_provider_id: foreign.body.id })) expect(answer.status).toBe(404);
    for (const answer of await both({ tool_bindings: [{ tool_id: foreignTool.body.id }] })) {
      expect(refused(answer)).toEqual([400, 'TOOL_NOT_FOUND', 'tool_bindings.0.tool_id']);
    }
  });

  test('an unknown tool is 400 naming its place', async () => {
    const tool_bindings = [{ tool_id: await tool('known') }, { tool_id: 'tool_0000000000000000' }];
    for (const answer of await both({ tool_bindings })) {
      expect(refused(answer)).toEqual([400, 'TOOL_NOT_FOUND', 'tool_bindings.1.tool_id']);
    }
  });

  test('two tools of one name, and one tool twice, are refused', async () => {
    const [first, second] = [await tool('same'), await tool('same')];
    for (const pair of [
      [first, second],
      [first, first],
    ]) {
      for (const answer of await both({ tool_bindings: pair.map((id) => ({ tool_id: id })) })) {
        expect(refused(answer)).toEqual(invalid('tool_bindings.1.tool_id'));
      }
    }
  });

  test.each([
    [{ guardrail_ids: ['guard_0000000000000000'] }, 'GUARDRAIL_NOT_FOUND', 'guardrail_ids.0'],
    [{ knowledge_config: { document_ids: ['doc_1'] } }, 'DOCUMENT_NOT_FOUND', 'knowledge_config.document_ids'],
    [
      { knowledge_config: { memory_store_ids: ['mstore_1'] } },
      'MEMORY_STORE_NOT_FOUND',
      'knowledge_config.memory_store_ids',
    ],
    [
      { knowledge_config: { write_memory_store_id: 'mstore_1' } },
      'MEMORY_STORE_NOT_FOUND',
      'knowledge_config.write_memory_store_id',
    ],
  ])('an id of an area that this build does not have is not found %#', async (given, code, path) => {
    for (const answer of await both(given)) expect(refused(answer)).toEqual([400, code, path]);
  });

  test('MODEL_ROUTE_NOT_FOUND: a model route alone names none', async () => {
    const route = { ai_provider_id: null, model_route_id: 'route_0000000000000000' };
    for (const answer of await both(route))
      expect(refused(answer)).toEqual([400, 'MODEL_ROUTE_NOT_FOUND', 'model_route_id']);
  });

  test('a bound tool deleted since keeps no other change from being written', async () => {
    const bound = await tool('bound');
    const { id } = await created({ tool_bindings: [{ tool_id: bound }] });
    await api.delete(`${at}/tools/${bound}?force=true`);
    expect((await api.patch(`${base}/${id}`, { name: 'renamed' })).body).toMatchObject({ name: 'renamed', version: 2 });
    expect(refused(await api.patch(`${base}/${id}`, { tool_bindings: [{ tool_id: bound }] }))).toEqual([
      400,
      'TOOL_NOT_FOUND',
      'tool_bindings.0.tool_id',
    ]);
  });
});

test('PUT and PATCH alike change what is given and clear what is null', async () => {
  const { id } = await created({ name: 'a', instructions: 'b', temperature: 1 });
  const patched = await api.patch(`${base}/${id}`, { instructions: null });
  expect(patched.body).toMatchObject({ name: 'a', instructions: null, temperature: 1, version: 2 });
  const put = await api.put(`${base}/${id}`, { temperature: null });
  expect(put.body).toMatchObject({ name: 'a', instructions: null, temperature: null, version: 3 });
  expect(put.headers.etag).toBe('"3"');
});

test('an unknown or malformed id is not found', async () => {
  for (const id of [UNKNOWN, 'nonsense']) {
    const path = `${base}/${id}`;
    const answers = [await api.get(path), await api.put(path, {}), await api.patch(path, {}), await api.delete(path)];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  }
});

describe('deleting', () => {
  test('an agent that never ran goes, with its versions', async () => {
    const { id } = await created();
    expect((await api.delete(`${base}/${id}`)).status).toBe(204);
    expect((await api.get(`${base}/${id}`)).status).toBe(404);
    expect((await api.get(`${base}/${id}/versions`)).status).toBe(404);
    expect(await query('select id from agent_versions where agent_id = $1', [id])).toEqual([]);
  });

  test('one that ran stays, and the refusal counts why', async () => {
    const { id } = await created();
    await runOf(id);
    await runOf(id);
    const answer = await api.delete(`${base}/${id}`);
    expect([answer.status, answer.body.error.code]).toEqual([409, 'AGENT_HAS_DEPENDENTS']);
    expect(answer.body.error.meta).toEqual({
      generation_count: 2,
      trace_count: 2,
      accepted_share_count: 0,
      ingestion_rule_count: 0,
    });
  });

  test('force takes an agent that never ran at once, and leaves nothing to a run', async () => {
    const { id } = await created();
    expect((await api.delete(`${base}/${id}?force=true`)).status).toBe(204);
    expect(await query('select id from deletions where id = $1', [id])).toEqual([]);
    expect((await api.delete(`${base}/${id}?force=true`)).status).toBe(404);
  });

  test('waits for a generation that is being accepted, and then counts it', async () => {
    const { id } = await created();
    let deleted: Promise<Reply> | undefined;
    await inTransaction(async (tx) => {
      expect(await servedAgent(projectId, id, tx)).toMatchObject({ id, version: 1 });
      deleted = api.delete(`${base}/${id}`);
      await query(
        'insert into traces (id, project_id, agent_id, created_at, updated_at) values ($1, $2, $3, now(), now())',
        [newId('trace'), projectId, id],
        tx,
      );
      await eventually(async () => {
        const blocked = await query(
          'select 1 from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())',
        );
        expect(blocked).toHaveLength(1);
      });
    });
    expect((await deleted)?.body.error.meta).toMatchObject({ trace_count: 1 });
  });
});

test('a served agent is its live configuration, of its own project only', async () => {
  const { id } = await created({ name: 'live' });
  await api.patch(`${base}/${id}`, { name: 'newer' });
  expect(await servedAgent(projectId, id)).toMatchObject({
    id,
    version: 2,
    config: { name: 'newer', ai_provider_id: providerId },
  });
  const { id: elsewhere } = await service.project(await service.signedIn());
  expect(await servedAgent(elsewhere, id)).toBeNull();
  expect(await servedAgent(projectId, 'nul\0')).toBeNull();
});

test.each(['release'])('the route %s is not in this build', async (name) => {
  const { id } = await created();
  expect((await api.get(`${base}/${id}/${name}`)).status).toBe(404);
});
