import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { buildClientTool, buildHttpTool, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { describeGuard } from '../support/guarded-routes';
import { hang, layTrace } from '../support/traces';
import { useWorkspace } from '../support/workspace';

const { service, space, server, receiver, at, agentSaying } = useWorkspace();

const get = (path: string): Promise<Reply> => space.api.get(at(path));

const run = (agentId: string, more: object = {}): Promise<Reply> =>
  space.api.post(at(`/agents/${agentId}/generate?wait=true`), saying('go', more));

/** A run of an agent of its own that ends with that text. */
const ran = async (text: string): Promise<{ id: string; trace_id: string; agentId: string }> => {
  const agent = await agentSaying([{ text }]);
  const { body } = await run(agent.id);
  return { ...body, agentId: agent.id };
};

const TRACE = '/traces/trace_0000000000000000';
describeGuard(service, [
  ['get', '/traces'],
  ['get', TRACE],
  ['get', `${TRACE}/steps`],
  ['get', `${TRACE}/tree`],
  ['delete', `${TRACE}/content`],
  ['get', '/agents/agent_0000000000000000/traces'],
]);

test('[traces 7] a trace of another project is not found on any route', async () => {
  const { trace_id: id } = await ran('mine');
  const owner = await service.signedIn();
  const other = await service.project(owner);
  const api = service.client(owner.token);
  const base = `/v1/projects/${other.id}`;
  const asked = [
    await api.get(`${base}/traces/${id}`),
    await api.get(`${base}/traces/${id}/steps`),
    await api.get(`${base}/traces/${id}/tree`),
    await api.delete(`${base}/traces/${id}/content`),
  ];
  expect(asked.map(({ status, body }) => [status, body.error.code])).toEqual(asked.map(() => [404, 'not_found']));
  expect((await api.get(`${base}/traces`)).body.total).toBe(0);
  expect((await get(`/traces/${id}`)).body.content_redacted_at).toBeNull();
});

test.each(['/traces/x', '/traces/gen_0000000000000000/steps', `${TRACE}/tree`, `${TRACE}/steps`, TRACE])(
  '%s, which names no trace, is not found',
  async (path) => {
    expect((await get(path)).status).toBe(404);
  },
);

test('a trace is there before the model is called, and shows every field', async () => {
  const agent = await agentSaying([{ text: 'late', hold: 'first-call' }]);
  const accepted = await space.api.post(at(`/agents/${agent.id}/generate`), saying('go'));
  const { status, body } = await get(`/traces/${String(accepted.body.trace_id)}`);
  server.release('first-call');
  expect(status).toBe(200);
  expect(body).toEqual({
    id: accepted.body.trace_id,
    project_id: space.projectId,
    agent_id: agent.id,
    step_count: 0,
    parent_trace_id: null,
    root_trace_id: null,
    orchestration_run_id: null,
    error: null,
    content_redacted_at: null,
    content_redacted_by_principal_type: null,
    content_redacted_by_principal_id: null,
    created_at: expect.stringMatching(/Z$/),
    updated_at: expect.stringMatching(/Z$/),
  });
});

test('[traces 3] two turns of one trace add up their steps, and each transcript shows its own', async () => {
  const tool = await buildHttpTool(space, `${receiver.url}/things/{order_id}`, { name: 'get_thing' });
  const first = await ran('one');
  const using = await agentSaying(
    [{ toolCalls: [{ id: 'c1', name: 'get_thing', args: { order_id: '7' } }] }, { text: 'three' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const second = (await run(using.id, { trace_id: first.trace_id })).body;
  expect(second.trace_id).toBe(first.trace_id);
  expect((await get(`/traces/${first.trace_id}`)).body).toMatchObject({ step_count: 3, agent_id: first.agentId });
  const transcripts = await Promise.all([first, second].map(({ id }) => get(`/generations/${id}/transcript`)));
  expect(transcripts.map(({ body }) => body.steps.length)).toEqual([1, 2]);

  const { status, body } = await get(`/traces/${first.trace_id}/steps`);
  expect(status).toBe(200);
  expect(body).toMatchObject({ total: 3, limit: 50, offset: 0 });
  expect(body.data).toEqual([
    { generation_id: first.id, ...transcripts[0]?.body.steps[0] },
    { generation_id: second.id, ...transcripts[1]?.body.steps[0] },
    { generation_id: second.id, ...transcripts[1]?.body.steps[1] },
  ]);
  expect(body.data[1].tool_results).toMatchObject([{ tool_call_id: 'c1', result: { ok: true } }]);
  const page = (await get(`/traces/${first.trace_id}/steps?limit=1&offset=2`)).body;
  expect(page).toMatchObject({ total: 3, limit: 1, offset: 2, data: [{ index: 1, text: 'three' }] });
});

test('steps of a turn that still runs are not shown; those before a pause are', async () => {
  const tool = await buildClientTool(space, { name: 'ask_client' });
  const agent = await agentSaying(
    [{ toolCalls: [{ id: 'c1', name: 'ask_client', args: { order_id: '7' } }] }, { text: 'x', hold: 'second-step' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const { id, trace_id: traceId } = (await run(agent.id)).body;
  const shown = async (): Promise<number> => (await get(`/traces/${traceId}/steps`)).body.total;
  expect(await shown()).toBe(1);
  const path = at(`/agents/${agent.id}/generate/${id}/tool-outputs`);
  const submitted = space.api.post(path, { tool_outputs: [{ tool_call_id: 'c1', output: 1 }] });
  await server.waitForCall({ generationId: id, step: 2 });
  expect(await shown()).toBe(0);
  server.release('second-step');
  expect((await submitted).status).toBe(200);
  expect(await shown()).toBe(2);
});

test('[traces 4] a failure of the provider stands on the trace and on the generation', async () => {
  const agent = await agentSaying([{ status: 404, body: { error: { message: 'no such model' } } }]);
  const refused = await run(agent.id);
  const { generation_id: id, trace_id: traceId } = refused.body.error.meta;
  const [trace, generation] = await Promise.all([get(`/traces/${traceId}`), get(`/generations/${id}`)]);
  expect(trace.body.error.code).toBe('AI_PROVIDER_ERROR');
  expect(generation.body.error).toEqual(trace.body.error);
  expect((await get(`/traces/${traceId}/steps`)).body.data).toEqual([]);
  const failed = (await get(`/traces?agent_id=${agent.id}&has_error=true`)).body.data;
  expect(failed.map((row: { id: string }) => row.id)).toEqual([traceId]);
  expect((await get(`/traces?agent_id=${agent.id}&has_error=false`)).body.total).toBe(0);
});

describe('lists', () => {
  test('show newest first, page by offset and filter by agent and root', async () => {
    const agentId = newId('agent');
    const start = Date.now() - 60_000;
    const root = await layTrace(space.projectId, { agentId, createdAt: new Date(start) });
    const links = { parentTraceId: root, rootTraceId: root, agentId };
    const older = await layTrace(space.projectId, { ...links, createdAt: new Date(start + 1_000) });
    const newer = await layTrace(space.projectId, { ...links, createdAt: new Date(start + 2_000) });
    const ids = async (filter: string): Promise<string[]> =>
      (await get(`/traces?${filter}`)).body.data.map(({ id }: { id: string }) => id);
    expect(await ids(`agent_id=${agentId}`)).toEqual([newer, older, root]);
    expect(await ids(`agent_id=${agentId}&limit=1&offset=1`)).toEqual([older]);
    expect(await ids(`root_trace_id=${root}`)).toEqual([newer, older]);
    expect((await get(`/traces?agent_id=${agentId}&limit=1000`)).body).toMatchObject({ total: 3, limit: 100 });
  });

  test('of an agent: its own traces; an unknown agent is not found', async () => {
    const { trace_id: traceId, agentId } = await ran('one');
    await ran('of another agent');
    const list = await get(`/agents/${agentId}/traces`);
    expect([list.status, list.body.total, list.body.data[0].id]).toEqual([200, 1, traceId]);
    expect((await get('/agents/agent_0000000000000000/traces')).status).toBe(404);
  });

  test.each([
    ['/traces?has_error=maybe', 'query.has_error'],
    ['/traces?limit=abc', 'query.limit'],
    ['/traces?colour=red', 'query.colour'],
    [`${TRACE}/steps?offset=x`, 'query.offset'],
    [`${TRACE}/tree?include=steps`, 'query.include'],
    ['/agents/agent_0000000000000000/traces?limit=abc', 'query.limit'],
  ])('%s is refused, naming %s', async (path, named) => {
    const { status, body } = await get(path);
    expect([status, body.error.code]).toEqual([400, 'bad_request']);
    expect(body.error.details.map((problem: { path: string }) => problem.path)).toContain(named);
  });
});

describe('the tree', () => {
  test('[traces 2] is the same whole tree from each of its traces, with the generations when they are asked for', async () => {
    const [a, b, c] = await Promise.all(['A', 'B', 'C'].map(ran));
    await hang(b!.trace_id, a!.trace_id, a!.trace_id);
    await hang(c!.trace_id, b!.trace_id, a!.trace_id);
    const { status, body: root } = await get(`/traces/${c!.trace_id}/tree?include=generations`);
    expect(status).toBe(200);
    expect(root).toMatchObject({ id: a!.trace_id, parent_trace_id: null, root_trace_id: null });
    expect(root).not.toHaveProperty('truncated');
    const [child, ...others] = root.children;
    expect(others).toEqual([]);
    expect(child).toMatchObject({ id: b!.trace_id, parent_trace_id: a!.trace_id, root_trace_id: a!.trace_id });
    expect(child.children).toMatchObject([
      { id: c!.trace_id, parent_trace_id: b!.trace_id, root_trace_id: a!.trace_id, children: [] },
    ]);
    const records = await Promise.all([a, b, c].map((made) => get(`/generations/${made!.id}`)));
    expect([root, child, child.children[0]].map(({ generations }) => generations)).toEqual(
      records.map(({ body }) => [body]),
    );
    const plain = await Promise.all([a, b].map((made) => get(`/traces/${made!.trace_id}/tree`)));
    for (const { body } of plain) {
      expect(body.id).toBe(a!.trace_id);
      expect(body).not.toHaveProperty('generations');
      expect(body.children[0].children[0].id).toBe(c!.trace_id);
    }
  });

  test('shows siblings and turns oldest first', async () => {
    const agent = await agentSaying([{ text: 'one' }, { text: 'two' }]);
    const first = (await run(agent.id)).body;
    const second = (await run(agent.id, { trace_id: first.trace_id })).body;
    const links = { parentTraceId: first.trace_id, rootTraceId: first.trace_id };
    const late = await layTrace(space.projectId, { ...links, createdAt: new Date(Date.now() + 2_000) });
    const early = await layTrace(space.projectId, { ...links, createdAt: new Date(Date.now() + 1_000) });
    const { body } = await get(`/traces/${late}/tree?include=generations`);
    expect(body.generations.map(({ id }: { id: string }) => id)).toEqual([first.id, second.id]);
    expect(body.children.map(({ id }: { id: string }) => id)).toEqual([early, late]);
  });

  test('ends at 1,000 nodes, and says so', async () => {
    const root = await layTrace(space.projectId);
    const grow = (count: number) =>
      query(
        `insert into traces (id, project_id, agent_id, parent_trace_id, root_trace_id, created_at, updated_at)
         select 'trace_' || substr(md5($1 || n || clock_timestamp()), 1, 16), $2, 'agent_x', $1, $1, now(), now()
         from generate_series(1, $3::int) n`,
        [root, space.projectId, count],
      );
    await grow(999);
    const whole = (await get(`/traces/${root}/tree`)).body;
    expect([whole.children.length, whole.truncated]).toEqual([999, undefined]);
    await grow(1);
    const cut = (await get(`/traces/${root}/tree?include=generations`)).body;
    expect([cut.children.length, cut.truncated]).toEqual([999, true]);
  });
});
