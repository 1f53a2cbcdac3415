import { query } from '../../src/api/core/db';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';

const service = useService();
const UNKNOWN = 'tool_0000000000000000';
const NO_SECRET = 'sec_0000000000000000';

let api: ApiClient;
let projectId: string;
let base: string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  base = `/v1/projects/${projectId}/tools`;
});

const parameters = {
  type: 'object',
  properties: { order_id: { type: 'string' } },
  required: ['order_id'],
  $comment: 'kept',
};
const client = { name: 'ask_person', type: 'client', parameters };
const http = { name: 'get_order', parameters, execute: { url: 'https://api.example.com/orders/{order_id}' } };
const mcp = { name: 'crm', type: 'mcp', mcp: { url: 'https://mcp.example.com/mcp' } };
const pipeline = (step: object = {}) => ({
  name: 'chain',
  type: 'pipeline',
  pipeline: {
    steps: [
      { id: 'find', tool: { type: 'http', execute: http.execute }, input: { order_id: { var: 'input.id' } }, ...step },
    ],
  },
});
const auth = {
  type: 'aws_sigv4',
  region: 'eu-central-1',
  service: 's3',
  access_key_id: 'AK',
  secret_access_key: 'canary',
};
const withExecute = (execute: object) => ({ ...http, execute: { ...http.execute, ...execute } });

const created = async (body: object = http): Promise<Reply['body']> => {
  const answer = await api.post(base, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const secret = async (value = 'sk-1'): Promise<string> =>
  (await api.post(`/v1/projects/${projectId}/secrets`, { name: 's', value })).body.id as string;
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];
const invalid = (path: string) => [400, 'VALIDATION_FAILED', path];

describeGuard(service, [
  ['post', '/tools', client],
  ['get', '/tools'],
  ['get', `/tools/${UNKNOWN}`],
  ['patch', `/tools/${UNKNOWN}`, {}],
  ['delete', `/tools/${UNKNOWN}`],
  ['post', `/tools/${UNKNOWN}/call`],
]);

const unset = {
  mcp: null,
  actions: null,
  denied_actions: null,
  preset_parameters: null,
  context_keys: null,
  pipeline: null,
  output_mapping: null,
  guardrail_ids: null,
};

test('a client tool is stored and read back with every field, its schema as it was sent', async () => {
  const answer = await api.post(base, { ...client, description: 'Asks' });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual({
    id: expect.stringMatching(/^tool_[0-9A-Za-z]{16}$/),
    project_id: projectId,
    name: 'ask_person',
    type: 'client',
    description: 'Asks',
    parameters,
    execute: null,
    ...unset,
    created_at: expect.any(String),
    updated_at: answer.body.created_at,
  });
  expect(Object.keys(answer.body.parameters)).toEqual(Object.keys(parameters));
  const read = await api.get(`${base}/${answer.body.id}`);
  expect(read.body).toEqual(answer.body);
  expect(Object.keys(read.body.parameters)).toEqual(Object.keys(parameters));
  expect((await api.get(base)).body).toEqual({ data: [answer.body], total: 1, limit: 50, offset: 0 });
});

test('an http tool is the default type and shows the defaults of its call', async () => {
  expect(await created()).toMatchObject({
    type: 'http',
    description: null,
    execute: {
      url: 'https://api.example.com/orders/{order_id}',
      method: 'POST',
      headers: {},
      body_mode: 'json',
      timeout_seconds: 300,
      auth: null,
    },
  });
});

test('what was read can be sent again', async () => {
  const { id, execute, ...rest } = await created();
  const { created_at: _created, updated_at: _updated, project_id: _project, type: _type, ...fields } = rest;
  const again = await api.patch(`${base}/${id}`, { ...fields, execute });
  expect(again.status).toBe(200);
  expect(again.body.execute).toEqual(execute);
});

test.each([
  [{ ...client, name: undefined }, 'name'],
  [{ ...client, name: 'with space' }, 'name'],
  [{ ...client, name: 'x'.repeat(65) }, 'name'],
  [{ ...client, name: '' }, 'name'],
  [{ ...client, type: 'other' }, 'type'],
  [{ ...client, type: 'builtin' }, 'type'],
  [{ ...client, description: 7 }, 'description'],
  [{ ...client, description: 'x'.repeat(10_001) }, 'description'],
  [{ ...client, parameters: undefined }, 'parameters'],
  [{ ...client, parameters: null }, 'parameters'],
  [{ ...client, parameters: [] }, 'parameters'],
  [{ ...client, parameters: {} }, 'parameters'],
  [{ ...client, parameters: { type: 'string' } }, 'parameters'],
  [{ ...client, parameters: { type: 'object', properties: { a: { type: 'nonsense' } } } }, 'parameters'],
  [{ ...client, parameters: { type: 'object', properties: { a: { $ref: 'https://a.example/x' } } } }, 'parameters'],
  [{ ...client, parameters: { type: 'object', description: 'x'.repeat(64 * 1024) } }, 'parameters'],
  [{ ...client, execute: http.execute }, 'execute'],
  [{ ...http, execute: null }, 'execute'],
  [{ ...http, execute: undefined }, 'execute'],
  [{ ...client, mcp: { url: 'https://a.example' } }, 'mcp'],
  [{ ...client, actions: [] }, 'actions'],
  [{ ...client, denied_actions: ['x'] }, 'denied_actions'],
  [{ ...client, preset_parameters: [] }, 'preset_parameters'],
  [{ ...client, preset_parameters: 'a' }, 'preset_parameters'],
  [{ ...client, context_keys: 'a' }, 'context_keys'],
  [{ ...client, pipeline: { steps: [] } }, 'pipeline'],
  [{ ...client, output_mapping: { if: 1 } }, 'output_mapping'],
  [{ ...client, type: 'mcp', parameters: undefined }, 'mcp'],
  [{ ...mcp, mcp: null }, 'mcp'],
  [{ ...mcp, execute: http.execute }, 'execute'],
  [{ ...mcp, mcp: { url: 'https://mcp.example.com/mcp', headers: { Host: 'x' } } }, 'mcp.headers.Host'],
  [
    { ...mcp, mcp: { url: 'https://mcp.example.com/mcp', headers: { Cookie: { no_echo: true } } } },
    'mcp.headers.Cookie',
  ],
  [{ ...mcp, mcp: { url: 'ws://mcp.example.com' } }, 'mcp.url'],
  [{ ...mcp, actions: [7] }, 'actions.0'],
  [{ ...http, actions: [] }, 'actions'],
  [{ ...http, denied_actions: [] }, 'denied_actions'],
  [{ ...http, pipeline: pipeline().pipeline }, 'pipeline'],
  [{ ...http, parameters: null }, 'parameters'],
  [{ name: 'chain', type: 'pipeline' }, 'pipeline'],
  [{ ...pipeline(), execute: http.execute }, 'execute'],
  [pipeline({ tool: { type: 'http' } }), 'pipeline.steps.0.tool.execute'],
  [pipeline({ tool: { type: 'builtin' } }), 'pipeline.steps.0.tool.type'],
  [
    pipeline({ tool: { execute: http.execute, parameters: { type: 'object', required: 'x' } } }),
    'pipeline.steps.0.tool.parameters',
  ],
  [
    pipeline({ tool: { execute: { ...http.execute, headers: { Cookie: { no_echo: true } } } } }),
    'pipeline.steps.0.tool.execute.headers.Cookie',
  ],
  [pipeline({ tool: { execute: http.execute, output_mapping: { if: 1 } } }), 'pipeline.steps.0.tool.output_mapping'],
  [{ ...client, guardrail_ids: [] }, 'guardrail_ids'],
  [{ ...client, colour: 'red' }, 'colour'],
  [withExecute({ url: 'not a url' }), 'execute.url'],
  [withExecute({ url: 'ftp://a.example/' }), 'execute.url'],
  [withExecute({ url: 'https://user:word@a.example/' }), 'execute.url'],
  [withExecute({ url: `https://a.example/${'x'.repeat(2048)}` }), 'execute.url'],
  [withExecute({ method: 'OPTIONS' }), 'execute.method'],
  [withExecute({ body_mode: 'form' }), 'execute.body_mode'],
  [withExecute({ body_mode: 'multipart', auth }), 'execute.auth'],
  [withExecute({ timeout_seconds: 0.5 }), 'execute.timeout_seconds'],
  [withExecute({ timeout_seconds: 301 }), 'execute.timeout_seconds'],
  [withExecute({ auth: { type: 'basic' } }), 'execute.auth.type'],
  [withExecute({ auth: { type: 'aws_sigv4' } }), 'execute.auth.region'],
  [withExecute({ auth: { ...auth, secret_access_key: { no_echo: true } } }), 'execute.auth.secret_access_key'],
  [withExecute({ auth: { ...auth, credentials: 'x' } }), 'execute.auth.credentials'],
  [withExecute({ auth: { type: 'gcp_service_account', credentials: 'x', scopes: [] } }), 'execute.auth.scopes'],
  [withExecute({ retries: 3 }), 'execute.retries'],
  [withExecute({ headers: { 'bad name': 'x' } }), 'execute.headers.bad name'],
  [withExecute({ headers: { Host: 'x' } }), 'execute.headers.Host'],
  [withExecute({ headers: { A: 'x', a: 'y' } }), 'execute.headers.a'],
  [withExecute({ headers: { A: 'x\r\ny' } }), 'execute.headers.A'],
  [withExecute({ headers: { A: 7 } }), 'execute.headers.A'],
  [withExecute({ headers: { Authorization: { no_echo: true } } }), 'execute.headers.Authorization'],
])('a bad tool is refused naming the field %#', async (body, path) => {
  expect(refused(await api.post(base, body))).toEqual(invalid(path));
});

test.each([
  [{ url: 'https://{host}/' }, 'execute.url'],
  [{ url: 'https://a.example/{{context:tenant}}' }, 'execute.url'],
  [{ url: 'https://a.example/{{other}}' }, 'execute.url'],
  [{ url: 'https://a.example/{' }, 'execute.url'],
  [{ headers: { 'X-A': '{{other}}' } }, 'execute.headers.X-A'],
  [{ headers: { 'X-A': '{{context:a b}}' } }, 'execute.headers.X-A'],
  [{ auth: { ...auth, secret_access_key: '{{context:key}}' } }, 'execute.auth.secret_access_key'],
])('a token that no template knows is refused %#', async (execute, path) => {
  expect(refused(await api.post(base, withExecute(execute)))).toEqual([400, 'INVALID_TEMPLATE_TOKEN', path]);
  const { id } = await created();
  const change = { execute: { ...http.execute, ...execute } };
  expect(refused(await api.patch(`${base}/${id}`, change))).toEqual([400, 'INVALID_TEMPLATE_TOKEN', path]);
});

test('[tools 4] the token of a secret is read back, and a secret that is not of the project is refused', async () => {
  const id = await secret();
  const tool = await created(withExecute({ headers: { Authorization: `Bearer {{secret:${id}}}` } }));
  expect(tool.execute.headers).toEqual({ Authorization: `Bearer {{secret:${id}}}` });
  const other = await service.signedIn();
  const project = await service.project(other);
  const foreign = await service
    .client(other.token)
    .post(`/v1/projects/${project.id}/secrets`, { name: 's', value: 'v' });
  for (const unknown of [foreign.body.id as string, NO_SECRET, 'sec_short']) {
    const body = withExecute({ url: `https://a.example/?k={{secret:${unknown}}}` });
    expect(refused(await api.post(base, body))).toEqual([400, 'SECRET_NOT_FOUND', 'execute']);
    const change = await api.patch(`${base}/${tool.id}`, { execute: body.execute });
    expect(refused(change)).toEqual([400, 'SECRET_NOT_FOUND', 'execute']);
  }
});

test('a credential written out in a header is stored encrypted and never read back', async () => {
  const headers = { Authorization: 'Bearer canary-literal', 'X-Api-Key': 'canary-literal', Accept: 'text/plain' };
  const tool = await created(withExecute({ headers }));
  const shown = { Authorization: { no_echo: true }, 'X-Api-Key': { no_echo: true }, Accept: 'text/plain' };
  expect(tool.execute.headers).toEqual(shown);
  const renamed = await api.patch(`${base}/${tool.id}`, { name: 'renamed' });
  expect(renamed.body).toMatchObject({ name: 'renamed', execute: { headers: shown } });
  const [row] = await query<{ text: string }>('select tools::text as text from tools where id = $1', [tool.id]);
  expect(row!.text).not.toContain('canary-literal');
  expect(row!.text).not.toContain(Buffer.from('canary-literal').toString('hex'));
});

describe('the other fields', () => {
  const ofRow = async (id: string): Promise<string> => {
    const [row] = await query<{ text: string }>('select tools::text as text from tools where id = $1', [id]);
    return row!.text;
  };

  test('presets, context keys and a mapping are stored as they were sent, changed and taken away', async () => {
    const given = {
      preset_parameters: { b: '{{context:tenant}}', a: { deep: [1, '{{secret:sec_left0alone0000}}'] } },
      context_keys: ['tenant'],
      output_mapping: { var: 'output.name' },
    };
    const { id, ...tool } = await created({ ...http, ...given });
    expect(tool).toMatchObject(given);
    expect(Object.keys(tool.preset_parameters)).toEqual(['b', 'a']);
    const change = { preset_parameters: null, context_keys: [], output_mapping: null };
    expect((await api.patch(`${base}/${id}`, change)).body).toMatchObject(change);
    expect((await api.patch(`${base}/${id}`, { context_keys: null })).body.context_keys).toBeNull();
  });

  test('an mcp tool is read back, its literal credential neither shown nor stored in the open', async () => {
    const headers = { Authorization: 'Bearer canary-literal', 'X-T': '{{context:tenant}}' };
    const tool = await created({ ...mcp, mcp: { ...mcp.mcp, headers }, actions: ['a'], denied_actions: [] });
    expect(tool).toMatchObject({
      type: 'mcp',
      parameters: null,
      mcp: { url: mcp.mcp.url, headers: { Authorization: { no_echo: true }, 'X-T': '{{context:tenant}}' } },
      actions: ['a'],
      denied_actions: [],
    });
    expect(await ofRow(tool.id)).not.toMatch(/canary|63616e617279/);
    const opened = await api.patch(`${base}/${tool.id}`, { actions: null });
    expect(opened.body).toMatchObject({ actions: null, mcp: tool.mcp });
  });

  test('credentials of auth are neither shown nor stored in the open, tokens of secrets are shown', async () => {
    const id = await secret();
    const aws = await created(withExecute({ auth: { ...auth, session_token: `{{secret:${id}}}` } }));
    expect(aws.execute.auth).toEqual({
      type: 'aws_sigv4',
      region: 'eu-central-1',
      service: 's3',
      access_key_id: { no_echo: true },
      secret_access_key: { no_echo: true },
      session_token: `{{secret:${id}}}`,
    });
    expect(await ofRow(aws.id)).not.toMatch(/canary|63616e617279/);
    const gcp = { type: 'gcp_service_account', credentials: '{"type":"service_account","k":"canary"}', scopes: ['s'] };
    const google = await created(withExecute({ auth: gcp }));
    expect(google.execute.auth).toEqual({ ...gcp, credentials: { no_echo: true } });
    expect((await api.delete(`/v1/projects/${projectId}/secrets/${id}`)).body.error).toMatchObject({
      code: 'SECRET_HAS_DEPENDENTS',
      meta: { tool_ids: [aws.id] },
    });
  });

  test('a secret named by mcp or by an inline tool must exist, and counts as used', async () => {
    const id = await secret();
    const token = (named: string) => ({ Authorization: `Bearer {{secret:${named}}}` });
    const withMcp = (named: string) => ({ ...mcp, mcp: { ...mcp.mcp, headers: token(named) } });
    const withStep = (named: string) => pipeline({ tool: { execute: { ...http.execute, headers: token(named) } } });
    expect(refused(await api.post(base, withMcp(NO_SECRET)))).toEqual([400, 'SECRET_NOT_FOUND', 'mcp']);
    expect(refused(await api.post(base, withStep(NO_SECRET)))).toEqual([400, 'SECRET_NOT_FOUND', 'pipeline']);
    const using = [(await created(withMcp(id))).id, (await created(withStep(id))).id];
    const kept = await api.delete(`/v1/projects/${projectId}/secrets/${id}`);
    expect(kept.body.error.meta.tool_ids).toEqual(using);
  });

  test.each([
    [{ preset_parameters: { a: '{{other}}' } }, 'preset_parameters.a'],
    [{ preset_parameters: { a: [{ b: '{{context:}}' }] } }, 'preset_parameters.a.0.b'],
  ])('a token that presets do not know is refused: %j', async (given, path) => {
    expect(refused(await api.post(base, { ...http, ...given }))).toEqual([400, 'INVALID_TEMPLATE_TOKEN', path]);
  });

  test.each([
    ['https://mcp.example.com/{argument}', 'mcp.url'],
    ['https://mcp.example.com/{{context:a}}', 'mcp.url'],
  ])('the URL of an MCP server takes no argument and no context: %s', async (url, path) => {
    expect(refused(await api.post(base, { ...mcp, mcp: { url } }))).toEqual([400, 'INVALID_TEMPLATE_TOKEN', path]);
  });

  test('keys of the context that no header can carry are refused', async () => {
    const { id } = await created();
    for (const answer of [
      await api.post(base, { ...http, context_keys: ['ok', 'a b'] }),
      await api.patch(`${base}/${id}`, { context_keys: ['ok', 'a b'] }),
    ]) {
      expect(refused(answer)).toEqual([400, 'INVALID_TOOL_CONTEXT_KEY', 'context_keys']);
      expect(answer.body.error.meta).toEqual({ keys: ['a b'] });
    }
    const doubled = await api.post(base, { ...http, context_keys: ['a', 'A'] });
    expect(doubled.body.error.meta).toEqual({ keys: ['a', 'A'] });
  });
});

describe('pipelines', () => {
  test('are read back as they were sent, credentials of inline tools not shown', async () => {
    const headers = { Cookie: 'canary-literal', Accept: 'text/plain' };
    const { id } = await created();
    const given = {
      ...pipeline().pipeline,
      steps: [
        { id: 'one', tool_id: id, input: { order_id: { var: 'input.id' } } },
        {
          id: 'two',
          tool: { type: 'http', name: 'second', execute: { ...http.execute, headers } },
          input: { order_id: { preserve: { var: 'kept' } } },
        },
        { id: 'three', tool: { type: 'mcp', mcp: { ...mcp.mcp, headers } }, action: 'find', input: {} },
      ],
      output: { var: 'steps.two' },
    };
    const tool = await created({ name: 'chain', type: 'pipeline', pipeline: given });
    const shown = { Cookie: { no_echo: true }, Accept: 'text/plain' };
    expect(tool.parameters).toBeNull();
    expect(tool.pipeline).toMatchObject({
      steps: [
        given.steps[0],
        {
          id: 'two',
          tool: { type: 'http', name: 'second', execute: { headers: shown } },
          input: given.steps[1]!.input,
        },
        { id: 'three', tool: { type: 'mcp', mcp: { headers: shown } }, action: 'find' },
      ],
      output: { var: 'steps.two' },
    });
    const [row] = await query<{ text: string }>('select tools::text as text from tools where id = $1', [tool.id]);
    expect(row!.text).not.toContain('canary-literal');
  });

  test('a step names a tool of this project that the service runs, and its action on an MCP server', async () => {
    const asking = await created(client);
    const server = await created(mcp);
    const step = (tool_id: string, more: object = {}) => pipeline({ tool: undefined, tool_id, ...more });
    expect(refused(await api.post(base, step(UNKNOWN)))).toEqual([400, 'TOOL_NOT_FOUND', 'pipeline.steps.0.tool_id']);
    expect(refused(await api.post(base, step('nonsense')))).toEqual([
      400,
      'TOOL_NOT_FOUND',
      'pipeline.steps.0.tool_id',
    ]);
    const code = 'PIPELINE_INVALID_STEP';
    expect(refused(await api.post(base, step(asking.id)))).toEqual([400, code, 'pipeline.steps.0.tool_id']);
    expect(refused(await api.post(base, step(server.id)))).toEqual([400, code, 'pipeline.steps.0.action']);
    expect((await api.post(base, step(server.id, { action: 'find' }))).status).toBe(201);
    const chain = await created(pipeline());
    const change = await api.patch(`${base}/${chain.id}`, { pipeline: step(UNKNOWN).pipeline });
    expect(refused(change)).toEqual([400, 'TOOL_NOT_FOUND', 'pipeline.steps.0.tool_id']);
  });

  test.each(['client', 'pipeline'])('an inline tool cannot be a %s', async (type) => {
    const body = pipeline({ tool: { type, parameters: { type: 'object' } } });
    expect(refused(await api.post(base, body))).toEqual([400, 'PIPELINE_INVALID_STEP', 'pipeline.steps.0.tool.type']);
  });
});

test('GUARDRAIL_NOT_FOUND: this build has no guardrails', async () => {
  const { id } = await created();
  for (const answer of [
    await api.post(base, { ...client, guardrail_ids: ['guard_1'] }),
    await api.patch(`${base}/${id}`, { guardrail_ids: ['guard_1'] }),
  ]) {
    expect(refused(answer)).toEqual([400, 'GUARDRAIL_NOT_FOUND', 'guardrail_ids.0']);
  }
});

test('PATCH changes what is given, replaces execute whole, and cannot change the type', async () => {
  const { id } = await created({ ...withExecute({ method: 'GET', timeout_seconds: 5 }), description: 'old' });
  const path = `${base}/${id}`;
  expect((await api.patch(path, { description: null })).body).toMatchObject({ description: null, name: 'get_order' });
  const replaced = await api.patch(path, { execute: { url: 'https://b.example/' } });
  expect(replaced.body.execute).toMatchObject({ url: 'https://b.example/', method: 'POST', timeout_seconds: 300 });
  expect((await api.patch(path, { parameters: { type: 'object' } })).body.parameters).toEqual({ type: 'object' });
  expect(refused(await api.patch(path, { type: 'client' }))).toEqual(invalid('type'));
  expect(refused(await api.patch(path, { execute: null }))).toEqual(invalid('execute'));
  expect(refused(await api.patch(path, { parameters: null }))).toEqual(invalid('parameters'));
  expect(refused(await api.patch(path, { parameters: { type: 'object', required: 'x' } }))).toEqual(
    invalid('parameters'),
  );
  expect(refused(await api.patch(path, { pipeline: {} }))).toEqual(invalid('pipeline.steps'));
  expect(refused(await api.patch(path, { mcp: mcp.mcp }))).toEqual(invalid('mcp'));
  expect(refused(await api.patch(path, { actions: ['a'] }))).toEqual(invalid('actions'));
  const asking = await created(client);
  expect(refused(await api.patch(`${base}/${asking.id}`, { execute: http.execute }))).toEqual(invalid('execute'));
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
  const agentWith = async (toolId: string): Promise<Reply> => {
    const provider = await api.post(`/v1/projects/${projectId}/ai-providers`, {
      name: 'p',
      provider: 'openai',
      default_model: 'm',
    });
    return api.post(`/v1/projects/${projectId}/agents`, {
      ai_provider_id: provider.body.id as string,
      tool_bindings: [{ tool_id: toolId }],
    });
  };

  test('a tool that no agent binds goes', async () => {
    const { id } = await created();
    expect((await api.delete(`${base}/${id}`)).status).toBe(204);
    expect((await api.get(`${base}/${id}`)).status).toBe(404);
  });

  test('a bound one stays without force, and goes with it while the binding stays', async () => {
    const { id } = await created();
    const agent = await agentWith(id);
    const answer = await api.delete(`${base}/${id}`);
    expect([answer.status, answer.body.error.code]).toEqual([409, 'TOOL_HAS_DEPENDENTS']);
    expect(answer.body.error.meta).toEqual({
      agent_count: 1,
      accepted_share_count: 0,
      decider_count: 0,
      ingestion_rule_count: 0,
    });
    expect((await api.delete(`${base}/${id}?force=true`)).status).toBe(204);
    const read = await api.get(`/v1/projects/${projectId}/agents/${agent.body.id}`);
    expect(read.body.tool_bindings).toEqual([{ tool_id: id }]);
  });

  test('a tool deleted while an agent binds it is either kept or unknown, never half', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { id } = await created();
      const [written, deleted] = await Promise.all([agentWith(id), api.delete(`${base}/${id}`)]);
      expect(['201 409', '400 204']).toContain(`${written.status} ${deleted.status}`);
    }
  });
});
