import { query, queryOne } from '../../src/api/core/db';
import { buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { tablesHolding } from '../support/clear-text';
import { listed, startMcpServer } from '../support/mcp-server';
import { useWorkspace } from '../support/workspace';

const { space, server, receiver, at, agentSaying } = useWorkspace({ receiver: 'test' });

const parameters = { type: 'object', properties: { order_id: { type: 'string' } }, required: ['order_id'] };
/** Every field of an inline tool as it is read back, where nothing was given. */
const DEFAULTS = {
  ...{ type: 'http', description: null, parameters: null, execute: null, mcp: null, actions: null },
  ...{ denied_actions: null, preset_parameters: null, context_keys: null, pipeline: null, output_mapping: null },
  guardrail_ids: null,
};
const EXECUTE = { method: 'POST', headers: {}, body_mode: 'json', timeout_seconds: 300, auth: null };
const http = (more: object = {}, execute: object = {}): object => ({
  tool: {
    name: 'get_order',
    parameters,
    execute: { url: `${receiver.url}/orders/{order_id}`, method: 'GET', ...execute },
    ...more,
  },
});
const make = (tool_bindings: unknown, more: object = {}): Promise<Reply> =>
  space.api.post(at('/agents'), { ai_provider_id: space.providerId, tool_bindings, ...more });
const read = async (id: string): Promise<Reply['body']> => (await space.api.get(at(`/agents/${id}`))).body;
const refusal = ({ status, body }: Reply): unknown[] => [status, body.error.code, body.error.details?.[0]?.path];
const secret = async (value: string): Promise<string> =>
  created(await space.api.post(at('/secrets'), { name: 's', value })).id as string;
const run = (agentId: string, more: object = {}): Promise<Reply> =>
  space.api.post(at(`/agents/${agentId}/generate?wait=true`), saying('go', more));
const look = { name: 'get_order', args: { order_id: '7' } };
/** The results of the calls of the first step, as the transcript shows them. */
const results = async ({ body }: Reply): Promise<Reply['body'][]> =>
  (await space.api.get(at(`/generations/${String(body.id)}/transcript`))).body.steps[0].tool_results;
/** Names of the tools that the model was shown at the last step. */
const shown = (): string[] => {
  const { body } = server.calls().at(-1)! as unknown as { body: { tools?: { function: { name: string } }[] } };
  return (body.tools ?? []).map((tool) => tool.function.name);
};

describe('writing', () => {
  test('an inline tool is read back whole, with its defaults and without the credentials written out in it', async () => {
    const headers = { Authorization: 'Bearer canary-inline-1', 'X-Kind': 'open' };
    const agent = created(await make([http({ description: 'Finds' }, { headers })]));
    const binding = {
      tool: {
        ...DEFAULTS,
        ...{ name: 'get_order', description: 'Finds', parameters },
        execute: {
          ...EXECUTE,
          ...{ url: `${receiver.url}/orders/{order_id}`, method: 'GET' },
          headers: { Authorization: { no_echo: true }, 'X-Kind': 'open' },
        },
      },
    };
    expect(agent.tool_bindings).toEqual([binding]);
    expect((await read(agent.id)).tool_bindings).toEqual([binding]);
    const { body: version } = await space.api.get(at(`/agents/${String(agent.id)}/versions/1`));
    expect(version.config.tool_bindings).toEqual([binding]);
    expect(await tablesHolding(['canary-inline-1'])).toEqual([]);
  });

  test('stored and inline tools stand side by side in their order', async () => {
    const stored = await buildClientTool(space, { name: 'stored' });
    const { body } = await make([http(), { tool_id: stored.id }]);
    expect(body.tool_bindings).toEqual([
      { tool: expect.objectContaining({ name: 'get_order' }) as unknown },
      { tool_id: stored.id },
    ]);
    const other = await space.api.get(at('/tools'));
    expect(JSON.stringify(other.body)).not.toContain('get_order');
  });

  test.each([
    ['neither', {}, 'tool_bindings.0'],
    ['both', { tool_id: 'tool_0000000000000000', tool: { name: 'a', type: 'client', parameters } }, 'tool_bindings.0'],
    ['no name', { tool: { type: 'client', parameters } }, 'tool_bindings.0.tool.name'],
    ['an unknown field', { tool: { name: 'a', type: 'client', parameters, x: 1 } }, 'tool_bindings.0.tool.x'],
    ['a type of no tool', { tool: { name: 'a', type: 'builtin', actions: ['x'] } }, 'tool_bindings.0.tool.type'],
    ['no schema', { tool: { name: 'a', type: 'client' } }, 'tool_bindings.0.tool.parameters'],
    ['no execute', { tool: { name: 'a', parameters } }, 'tool_bindings.0.tool.execute'],
    [
      'a schema of no use',
      { tool: { name: 'a', type: 'client', parameters: { type: 'object', properties: 7 } } },
      'tool_bindings.0.tool.parameters',
    ],
    [
      'what was read in place of a credential',
      http({}, { headers: { Authorization: { no_echo: true } } }),
      'tool_bindings.0.tool.execute.headers.Authorization',
    ],
  ])('%s is refused on a create and on an update, naming the place', async (_what, binding, path) => {
    const invalid = [400, 'VALIDATION_FAILED', path];
    expect(refusal(await make([binding]))).toEqual(invalid);
    const agent = created(await make(null));
    expect(refusal(await space.api.patch(at(`/agents/${String(agent.id)}`), { tool_bindings: [binding] }))).toEqual(
      invalid,
    );
    expect((await read(agent.id)).version).toBe(1);
  });

  test('each of its own refusals has its own code', async () => {
    const other = (execute: object, more: object = {}) => make([http(more, execute)]);
    const base = 'tool_bindings.0.tool';
    expect([
      refusal(await other({ url: 'https://{host}/' })),
      refusal(await other({ headers: { 'X-Key': '{{secret:sec_0000000000000000}}' } })),
      refusal(await other({}, { guardrail_ids: ['grd_1'] })),
      refusal(await make([{ tool: { name: 'a', type: 'pipeline', pipeline: { steps: [] } } }])),
      refusal(
        await make([
          {
            tool: {
              name: 'a',
              type: 'pipeline',
              pipeline: { steps: [{ id: 'one', tool_id: 'tool_0000000000000000' }] },
            },
          },
        ]),
      ),
    ]).toEqual([
      [400, 'INVALID_TEMPLATE_TOKEN', `${base}.execute.url`],
      [400, 'SECRET_NOT_FOUND', `${base}.execute`],
      [400, 'GUARDRAIL_NOT_FOUND', `${base}.guardrail_ids.0`],
      [400, 'PIPELINE_INVALID_STEP', `${base}.pipeline.steps`],
      [400, 'TOOL_NOT_FOUND', `${base}.pipeline.steps.0.tool_id`],
    ]);
    const keys = await other({}, { context_keys: ['not a key'] });
    expect([keys.status, keys.body.error.code]).toEqual([400, 'INVALID_TOOL_CONTEXT_KEY']);
  });

  test('names are unique among stored and inline tools; choices may name an inline one, active tools are ids', async () => {
    const stored = await buildClientTool(space, { name: 'get_order' });
    expect(refusal(await make([{ tool_id: stored.id }, http()]))).toEqual([
      400,
      'VALIDATION_FAILED',
      'tool_bindings.1.tool',
    ]);
    const stops = { stop_conditions: [{ type: 'has_tool_call', tool_name: 'get_order' }] };
    expect((await make([http()], { ...stops, tool_choice: 'required' })).status).toBe(201);
    expect(refusal(await make([http({ name: 'other' })], stops))).toEqual([
      400,
      'VALIDATION_FAILED',
      'stop_conditions.0.tool_name',
    ]);
    expect(refusal(await make([http()], { active_tool_ids: ['get_order'] }))).toEqual([
      400,
      'TOOL_NOT_FOUND',
      'active_tool_ids.0',
    ]);
  });
});

describe('versions', () => {
  const header = (value: string): object => http({}, { headers: { Authorization: value } });
  const sent = (): unknown[] => receiver.requests.map(({ headers }) => headers.authorization);

  test('the same tools with the same credentials are no change; another credential is one, and a restore brings the first back', async () => {
    const agent = await agentSaying([{ toolCalls: [look] }, { text: 'done' }], {
      tool_bindings: [header('Bearer one')],
    });
    const path = at(`/agents/${agent.id}`);
    const versions = [];
    for (const value of ['Bearer one', 'Bearer two', 'Bearer two']) {
      versions.push((await space.api.patch(path, { tool_bindings: [header(value)] })).body.version);
    }
    expect(versions).toEqual([1, 2, 2]);
    expect((await run(agent.id)).body.status).toBe('completed');
    const restored = await space.api.post(`${path}/versions/1/restore`);
    expect([restored.status, restored.body.version]).toEqual([200, 3]);
    server.script((await read(agent.id)).model, [{ toolCalls: [look] }, { text: 'done' }]);
    expect((await run(agent.id)).body.status).toBe('completed');
    expect(sent()).toEqual(['Bearer two', 'Bearer one']);
  });

  test('two tools of one credential keep their own', async () => {
    const pair = [header('Bearer same'), http({ name: 'second' }, { headers: { Authorization: 'Bearer same' } })];
    const agent = created(await make(pair));
    const again = await space.api.patch(at(`/agents/${String(agent.id)}`), { tool_bindings: pair });
    expect(again.body.version).toBe(1);
  });

  test('a restore of a tool whose secret is gone is refused', async () => {
    const id = await secret('x');
    const agent = created(await make([header(`{{secret:${id}}}`)]));
    const path = at(`/agents/${String(agent.id)}`);
    await space.api.patch(path, { tool_bindings: null });
    expect((await space.api.delete(at(`/secrets/${id}`))).status).toBe(204);
    expect(refusal(await space.api.post(`${path}/versions/1/restore`))).toEqual([
      400,
      'SECRET_NOT_FOUND',
      'tool_bindings.0.tool.execute',
    ]);
  });

  test('a refused write stores no credential, and a deleted agent leaves none', async () => {
    const count = async () => (await queryOne<{ n: number }>('select count(*)::int as n from agent_credentials'))!.n;
    const before = await count();
    const agent = created(await make([header('Bearer gone')]));
    expect(await count()).toBe(before + 1);
    await make([header('Bearer refused')], { guardrail_ids: ['grd_1'] });
    await space.api.patch(at(`/agents/${String(agent.id)}`), {
      tool_bindings: [header('Bearer refused')],
      active_tool_ids: ['tool_0000000000000000'],
    });
    expect(await count()).toBe(before + 1);
    expect((await space.api.delete(at(`/agents/${String(agent.id)}`))).status).toBe(204);
    expect(await count()).toBe(before);
  });
});

describe('a run', () => {
  test('calls an inline http tool with its credential, which a target that echoes it gives to nobody', async () => {
    const id = await secret('canary-secret-9');
    receiver.respond(({ headers }) => ({
      status: 400,
      body: `${String(headers.authorization)} ${String(headers['x-key'])}`,
    }));
    const headers = { Authorization: 'Bearer canary-inline-2', 'X-Key': `{{secret:${id}}}` };
    const agent = await agentSaying([{ toolCalls: [look] }, { text: 'done' }], {
      tool_bindings: [http({}, { headers })],
    });
    const reply = await run(agent.id);
    expect(reply.body.status).toBe('completed');
    expect(receiver.requests[0]).toMatchObject({
      path: '/orders/7',
      headers: { authorization: 'Bearer canary-inline-2', 'x-key': 'canary-secret-9' },
    });
    const [{ error }] = await results(reply);
    expect(error).toMatchObject({ status: 400, body: '[secret] [secret]' });
    expect(await tablesHolding(['canary-inline-2'])).toEqual([]);
    const [call] = await query<{ tool_id: string | null }>(
      'select tool_id from generation_calls where generation_id = $1',
      [reply.body.id],
    );
    expect(call?.tool_id).toBeNull();
  });

  test('pauses for an inline client tool, with its presets and its mapping', async () => {
    const tool = {
      ...{ name: 'ask', type: 'client', parameters, preset_parameters: { order_id: 'pinned' } },
      output_mapping: { var: 'output.answer' },
    };
    const agent = await agentSaying([{ toolCalls: [{ id: 'c1', name: 'ask', args: {} }] }, { text: 'done' }], {
      tool_bindings: [{ tool }],
    });
    const paused = await run(agent.id);
    expect(paused.body).toMatchObject({
      status: 'requires_action',
      required_action: { tool_calls: [{ tool_name: 'ask', args: { order_id: 'pinned' } }] },
    });
    const ended = await space.api.post(at(`/agents/${agent.id}/generate/${String(paused.body.id)}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'c1', output: { answer: 42 } }],
    });
    expect(ended.body.status).toBe('completed');
    expect((await results(paused))[0].result).toBe(42);
  });

  test('lists and calls the tools of an inline mcp server, narrowed by its lists', async () => {
    const mcp = await startMcpServer({ pages: [[listed('echo'), listed('headers')]] });
    try {
      const tool = { name: 'remote', type: 'mcp', mcp: { url: mcp.url, headers: { Authorization: 'Bearer m' } } };
      const agent = await agentSaying([{ toolCalls: [{ name: 'remote_echo', args: { a: 1 } }] }, { text: 'done' }], {
        tool_bindings: [{ tool: { ...tool, denied_actions: ['headers'] } }, http()],
      });
      const reply = await run(agent.id);
      expect(reply.body.status).toBe('completed');
      expect(shown()).toEqual(['remote_echo', 'get_order']);
      expect((await results(reply))[0].result).toEqual({ a: 1 });
    } finally {
      await mcp.close();
    }
  });

  test('runs the steps of an inline pipeline, credentials of the tools in them included', async () => {
    receiver.respond(({ headers, path }) => ({ body: { path, auth: headers.authorization === 'Bearer step' } }));
    const url = `${receiver.url}/inner`;
    const stored = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`, { name: 'stored' });
    const step = { execute: { url, method: 'POST', headers: { Authorization: 'Bearer step' } } };
    const steps = [
      { id: 'one', tool_id: stored.id, input: { order_id: { var: 'input.order_id' } } },
      { id: 'two', tool: step, input: { seen: { var: 'steps.one.path' } } },
    ];
    const agent = await agentSaying([{ toolCalls: [{ name: 'both', args: { order_id: '3' } }] }, { text: 'done' }], {
      tool_bindings: [{ tool: { name: 'both', type: 'pipeline', parameters, pipeline: { steps } } }],
    });
    const reply = await run(agent.id);
    expect((await results(reply))[0].result).toEqual({ path: '/inner', auth: true });
    expect(receiver.requests.map(({ path, body }) => [path, body])).toEqual([
      ['/orders/3', ''],
      ['/inner', '{"seen":"/orders/3"}'],
    ]);
  });

  test('always shows inline tools to the model, whatever list of active ones there is', async () => {
    const [a, b] = [await buildClientTool(space, { name: 'a' }), await buildClientTool(space, { name: 'b' })];
    const agent = await agentSaying([{ text: 'done' }], {
      tool_bindings: [{ tool_id: a.id }, http(), { tool_id: b.id }],
      active_tool_ids: [b.id],
    });
    await run(agent.id);
    expect(shown()).toEqual(['get_order', 'b']);
  });

  test('goes without an inline tool whose secret is gone, and one whose name a stored tool took since', async () => {
    const id = await secret('x');
    const stored = await buildClientTool(space, { name: 'before' });
    const agent = await agentSaying([{ text: 'done' }], {
      tool_bindings: [
        { tool_id: stored.id },
        http({ name: 'taken' }),
        http({ name: 'keyed' }, { headers: { 'X-Key': `{{secret:${id}}}` } }),
      ],
    });
    await space.api.delete(at(`/secrets/${id}`));
    await space.api.patch(at(`/tools/${stored.id}`), { name: 'taken' });
    const reply = await run(agent.id);
    expect(reply.body.status).toBe('completed');
    expect(shown()).toEqual(['taken']);
    const { body } = server.calls({ generationId: reply.body.id as string })[0]!;
    expect(JSON.stringify(body)).toContain('unavailable for now: taken, keyed');
  });

  test('keeps the tools that it began with when its agent is changed while it pauses', async () => {
    const tool = { name: 'ask', type: 'client', parameters };
    const agent = await agentSaying(
      [{ toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] }, { toolCalls: [look] }, { text: 'done' }],
      { tool_bindings: [{ tool }, http({}, { headers: { Authorization: 'Bearer first' } })] },
    );
    const paused = await run(agent.id);
    await space.api.patch(at(`/agents/${agent.id}`), { tool_bindings: null });
    const ended = await space.api.post(at(`/agents/${agent.id}/generate/${String(paused.body.id)}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'c1', output: null }],
    });
    expect(ended.body.status).toBe('completed');
    expect(receiver.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer first']);
  });
});
