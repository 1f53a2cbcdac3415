import { assertContentMode } from '../../src/api/agents/references';
import { query } from '../../src/api/core/db';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';

const service = useService();
const UNKNOWN_TOOL = 'tool_0000000000000000';

let api: ApiClient;
let at: string;
let base: string;
let providerId: string;
let owner: Awaited<ReturnType<typeof service.signedIn>>;

beforeEach(async () => {
  owner = await service.signedIn();
  const { id } = await service.project(owner);
  api = service.client(owner.token);
  at = `/v1/projects/${id}`;
  base = `${at}/agents`;
  const provider = await api.post(`${at}/ai-providers`, { name: 'p', provider: 'openai', default_model: 'm' });
  providerId = provider.body.id as string;
});

const create = (given: object = {}): Promise<Reply> => api.post(base, { ai_provider_id: providerId, ...given });
const made = async (given: object = {}): Promise<Reply['body']> => {
  const answer = await create(given);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const tool = async (name: string): Promise<string> =>
  (await api.post(`${at}/tools`, { name, type: 'client', parameters: { type: 'object' } })).body.id as string;
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];
const invalid = (path: string) => [400, 'VALIDATION_FAILED', path];
const cannotStop = [422, 'FORCED_TOOL_CHOICE_CANNOT_STOP', 'tool_choice'];
const bound = (...ids: string[]) => ({ tool_bindings: ids.map((tool_id) => ({ tool_id })) });
const stopsAt = (tool_name: string) => ({ stop_conditions: [{ type: 'has_tool_call', tool_name }] });
const chosen = (tool_name: string) => ({ tool_choice: { type: 'tool', tool_name } });

/** The same refusal on a create, on a PUT and on a PATCH that change nothing. */
const refusals = async (setup: object, given: object): Promise<unknown[]> => {
  const { id } = await made(setup);
  const answers = [
    await create({ ...setup, ...given }),
    await api.put(`${base}/${id}`, given),
    await api.patch(`${base}/${id}`, given),
  ];
  expect((await api.get(`${base}/${id}`)).body.version).toBe(1);
  return answers.map(refused);
};
const thrice = (answer: unknown): unknown[] => [answer, answer, answer];

describe('a forced tool call', () => {
  test('[agents 7] that nothing stops is refused', async () => {
    expect(refused(await create({ tool_choice: 'required' }))).toEqual(cannotStop);
    expect(await refusals(bound(await tool('a')), { tool_choice: 'required' })).toEqual(thrice(cannotStop));
    expect(await refusals(bound(await tool('b')), chosen('b'))).toEqual(thrice(cannotStop));
  });

  test('is not stopped by the length of a chain', async () => {
    const stop_conditions = [{ type: 'max_chain_generations', max_generations: 2 }];
    expect(refused(await create({ tool_choice: 'required', stop_conditions }))).toEqual(cannotStop);
  });

  test('is allowed where the call of a tool ends the turn', async () => {
    const tools = bound(await tool('a'), await tool('b'));
    const required = await made({ ...tools, tool_choice: 'required', ...stopsAt('a') });
    expect(required).toMatchObject({ tool_choice: 'required', ...stopsAt('a') });
    const one = await made({ ...tools, ...chosen('b'), ...stopsAt('a') });
    expect(one).toMatchObject(chosen('b'));
  });

  test('is refused by what a write leaves behind: its condition cannot be dropped', async () => {
    const { id } = await made({ ...bound(await tool('a')), tool_choice: 'required', ...stopsAt('a') });
    for (const stop_conditions of [null, [], [{ type: 'max_chain_generations', max_generations: 2 }]])
      expect(refused(await api.patch(`${base}/${id}`, { stop_conditions }))).toEqual(cannotStop);
    const both = await api.patch(`${base}/${id}`, { stop_conditions: null, tool_choice: 'auto' });
    expect(both.body).toMatchObject({ version: 2, tool_choice: 'auto', stop_conditions: null });
  });

  test('of one step alone needs no condition', async () => {
    const step_rules = [{ step: 1, tool_choice: 'required' }];
    expect((await made({ ...bound(await tool('a')), step_rules })).step_rules).toEqual(step_rules);
  });
});

describe('the name of a tool', () => {
  test.each([
    ['tool_choice.tool_name', chosen('other')],
    ['stop_conditions.0.tool_name', stopsAt('other')],
    ['step_rules.0.tool_choice.tool_name', { step_rules: [{ step: 1, ...chosen('other') }] }],
  ])('that the agent does not have is refused at %s', async (path, given) => {
    expect(await refusals(bound(await tool('mine')), given)).toEqual(thrice(invalid(path)));
  });

  test('must still be had when the bindings change', async () => {
    const [a, b] = [await tool('a'), await tool('b')];
    const { id } = await made({ ...bound(a, b), ...stopsAt('a') });
    expect(refused(await api.patch(`${base}/${id}`, bound(b)))).toEqual(invalid('stop_conditions.0.tool_name'));
    expect(refused(await api.patch(`${base}/${id}`, { tool_bindings: null }))).toEqual(
      invalid('stop_conditions.0.tool_name'),
    );
    expect((await api.patch(`${base}/${id}`, { ...bound(b), ...stopsAt('b') })).status).toBe(200);
  });

  test('may be anything behind the name of a bound mcp server, and is not known where a bound tool is gone', async () => {
    const [server, mine, gone] = [await tool('github'), await tool('mine'), await tool('gone')];
    // As a tool of that type is stored; its own area decides what else it has.
    await query(`update tools set type = 'mcp', parameters = null where id = $1 returning id`, [server]);
    expect((await create({ ...bound(server), ...stopsAt('github_merge') })).status).toBe(201);
    expect(refused(await create({ ...bound(server), ...stopsAt('gitlab_merge') }))).toEqual(
      invalid('stop_conditions.0.tool_name'),
    );
    const { id } = await made(bound(mine, gone));
    await api.delete(`${at}/tools/${gone}?force=true`);
    expect((await api.patch(`${base}/${id}`, stopsAt('gone'))).status).toBe(200);
  });

  test('two mcp servers may have one name, a tool is bound once, and other names are taken once', async () => {
    const [one, other, plain] = [await tool('same'), await tool('same'), await tool('same')];
    await query(`update tools set type = 'mcp' where id = any($1::text[]) returning id`, [[one, other]]);
    expect((await create(bound(one, other, plain))).status).toBe(201);
    expect(refused(await create(bound(one, one)))).toEqual(invalid('tool_bindings.1.tool_id'));
  });
});

describe('active tools', () => {
  const forms = (ids: string[]) =>
    [
      ['active_tool_ids', { active_tool_ids: ids }],
      ['step_rules.0.active_tool_ids', { step_rules: [{ step: 2, active_tool_ids: ids }] }],
    ] as const;

  test('are bound tools', async () => {
    const [a, b] = [await tool('a'), await tool('b')];
    for (const [, given] of forms([b])) expect(await made({ ...bound(a, b), ...given })).toMatchObject(given);
  });

  test('TOOL_NOT_FOUND: one that is not in the project', async () => {
    const a = await tool('a');
    const { id: otherProject } = await service.project(owner);
    const foreign = await api.post(`/v1/projects/${otherProject}/tools`, {
      name: 'theirs',
      type: 'client',
      parameters: { type: 'object' },
    });
    for (const id of [UNKNOWN_TOOL, 'nonsense', foreign.body.id as string]) {
      for (const [path, given] of forms([a, id]))
        expect(await refusals(bound(a), given)).toEqual(thrice([400, 'TOOL_NOT_FOUND', `${path}.1`]));
    }
  });

  test('one that is in the project but not bound is refused', async () => {
    const [a, b] = [await tool('a'), await tool('b')];
    for (const [path, given] of forms([b])) {
      expect(await refusals(bound(a), given)).toEqual(thrice(invalid(`${path}.0`)));
      expect(await refusals({}, given)).toEqual(thrice(invalid(`${path}.0`)));
    }
  });

  test('cannot lose their binding', async () => {
    const [a, b] = [await tool('a'), await tool('b')];
    for (const [path, given] of forms([b])) {
      const { id } = await made({ ...bound(a, b), ...given });
      expect(refused(await api.patch(`${base}/${id}`, bound(a)))).toEqual(invalid(`${path}.0`));
    }
  });
});

describe('output_schema', () => {
  const invalidSchema = [400, 'INVALID_OUTPUT_SCHEMA', 'output_schema'];

  test.each(['object', 7, true, ['object']])('INVALID_OUTPUT_SCHEMA: what is no object is none: %j', async (given) => {
    expect(await refusals({}, { output_schema: given })).toEqual(thrice(invalidSchema));
  });

  test.each([
    [{ type: 'thing' }],
    [{ type: 'object', properties: 7 }],
    [{ $ref: 'https://schemas.test/x.json' }],
    [{ description: 'x'.repeat(65_536) }],
    [{ type: 'string', pattern: '(' }],
  ])('INVALID_OUTPUT_SCHEMA: what does not compile or is out of bounds %#', async (output_schema) => {
    expect(await refusals({}, { output_schema })).toEqual(thrice(invalidSchema));
  });

  test('keeps its keys as they were sent, and is cleared by null', async () => {
    const output_schema = { type: 'object', properties: { z_Last: { type: 'string' }, aFirst: { type: 'number' } } };
    const { id } = await made({ output_schema });
    const read = await api.get(`${base}/${id}`);
    expect(JSON.stringify(read.body.output_schema)).toBe(JSON.stringify(output_schema));
    expect((await api.patch(`${base}/${id}`, { name: 'x' })).body.output_schema).toEqual(output_schema);
    expect((await api.patch(`${base}/${id}`, { output_schema: null })).body).toMatchObject({
      version: 3,
      output_schema: null,
    });
  });
});

test.each([
  ['full', 'none', true],
  ['none', 'none', false],
  [null, 'none', false],
  ['full', 'full', false],
  ['none', 'full', false],
] as const)('an agent that keeps %s in a project that keeps %s is refused: %s', (agent, project, isRefused) => {
  const check = (): void => assertContentMode(agent, project);
  if (isRefused) expect(check).toThrow(expect.objectContaining({ code: 'VALIDATION_FAILED' }));
  else expect(check).not.toThrow();
});
