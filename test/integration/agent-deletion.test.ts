import { inTransaction, query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { cancelRun, engine, runEnded, startRun } from '../../src/api/core/temporal';
import { reconcile } from '../../src/reconcile';
import { SWEEP_KINDS } from '../../src/workflows/sweeps.contract';
import { buildAgent, buildClientTool, created, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';

const { service, space, server, receiver } = useWorkspace({ project: 'test', receiver: 'test' });

const force = (agentId: string): Promise<Reply> => space.api.delete(`${space.at}/agents/${agentId}?force=true`);

/** A trace of an agent, below another one when that is named. */
const trace = async (agentId: string, parent: string | null = null, root: string | null = null): Promise<string> => {
  const id = newId('trace');
  await query(
    `insert into traces (id, project_id, agent_id, step_count, parent_trace_id, root_trace_id, created_at, updated_at)
     values ($1, $2, $3, 0, $4, $5, now(), now())`,
    [id, space.projectId, agentId, parent, root],
  );
  return id;
};

interface Ran {
  steps?: number;
  error?: string;
}

/** A settled generation with content. */
const ran = async (agentId: string, traceId: string, { steps = 1, error }: Ran = {}): Promise<string> => {
  const id = newId('generation');
  await query(
    `insert into generations (id, project_id, agent_id, agent_version, trace_id, status, step_count, error, completed_at, created_at, updated_at)
     values ($1, $2, $3, 1, $4, $5, $6, $7, clock_timestamp(), clock_timestamp(), now())`,
    [
      id,
      space.projectId,
      agentId,
      traceId,
      error === undefined ? 'completed' : 'failed',
      steps,
      error === undefined ? null : JSON.stringify({ code: error, message: error }),
    ],
  );
  await query('insert into generation_contents (generation_id, project_id, input) values ($1, $2, $3)', [
    id,
    space.projectId,
    '[]',
  ]);
  await query('update traces set step_count = step_count + $2, error = coalesce($3::json, error) where id = $1', [
    traceId,
    steps,
    error === undefined ? null : JSON.stringify({ code: error, message: error }),
  ]);
  return id;
};

const leftOf = (agentId: string) =>
  queryOne<Record<string, number>>(
    `select (select count(*)::int from agents where id = $1) as agents,
       (select count(*)::int from agent_versions where agent_id = $1) as versions,
       (select count(*)::int from generations where agent_id = $1) as generations,
       (select count(*)::int from traces where agent_id = $1) as traces,
       (select count(*)::int from deletions where id = $1) as deletions`,
    [agentId],
  );

const NOTHING = { agents: 0, versions: 0, generations: 0, traces: 0, deletions: 0 };

const gone = (agentId: string) =>
  eventually(
    async () => {
      expect(await leftOf(agentId)).toEqual(NOTHING);
    },
    { timeoutMs: 20_000 },
  );

test('with force the agent is gone at once, and its generations and traces soon', async () => {
  const { id } = await buildAgent(space);
  const other = await buildAgent(space);
  for (let index = 0; index < 3; index += 1) await ran(id, await trace(id));
  const kept = await ran(other.id, await trace(other.id));
  expect((await force(id)).status).toBe(204);
  expect((await space.api.get(`${space.at}/agents/${id}`)).status).toBe(404);
  expect((await space.api.get(`${space.at}/agents/${id}/versions`)).status).toBe(404);
  expect((await force(id)).status).toBe(404);
  await gone(id);
  expect((await space.api.get(`${space.at}/generations?agent_id=${id}`)).body.total).toBe(0);
  expect((await space.api.get(`${space.at}/generations/${kept}`)).status).toBe(200);
  expect(await query('select generation_id from generation_contents where project_id = $1', [space.projectId])).toEqual(
    [{ generation_id: kept }],
  );
  await runEnded(`delete/${id}`, 5_000);
  expect(await engine().workflow.getHandle(`delete/${id}`).result()).toEqual({ generations: 3, traces: 3 });
});

test('an agent of another project is not found, and stays', async () => {
  const { id } = await buildAgent(space);
  await ran(id, await trace(id));
  const stranger = await service.signedIn();
  const { id: elsewhere } = await service.project(stranger);
  const answer = await service.client(stranger.token).delete(`/v1/projects/${elsewhere}/agents/${id}?force=true`);
  expect(answer.status).toBe(404);
  expect(await leftOf(id)).toEqual({ agents: 1, versions: 1, generations: 1, traces: 1, deletions: 0 });
});

test('a force that is neither true nor false is refused', async () => {
  const { id } = await buildAgent(space);
  const answer = await space.api.delete(`${space.at}/agents/${id}?force=1`);
  expect([answer.status, answer.body.error.code]).toEqual([400, 'bad_request']);
});

test('running and paused generations are cancelled first, and their last events still go out', async () => {
  created(await space.api.post(`${space.at}/webhooks`, { url: `${receiver.url}/hook`, events: ['generation.failed'] }));
  const tool = await buildClientTool(space, { name: 'ask' });
  const gate = `${space.model}-gate`;
  server.script(`${space.model}-run`, [{ text: 'late', hold: gate }]);
  server.script(`${space.model}-ask`, [{ toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] }]);
  const { id } = await buildAgent(space, { model: `${space.model}-run`, tool_bindings: [{ tool_id: tool.id }] });
  const generate = `${space.at}/agents/${id}/generate`;
  const running = (await space.api.post(generate, saying('go'))).body.id as string;
  await server.waitForCall({ generationId: running });
  await space.api.patch(`${space.at}/agents/${id}`, { model: `${space.model}-ask` });
  const paused = (await space.api.post(`${generate}?wait=true`, saying('go'))).body.id as string;
  const waiting = space.api.post(`${generate}?wait=true`, saying('go', { idempotency_key: 'k' }));
  expect((await waiting).body.status).toBe('requires_action');
  expect((await force(id)).status).toBe(204);
  expect((await space.api.post(generate, saying('go'))).status).toBe(404);
  expect((await space.api.post(generate, saying('go', { idempotency_key: 'k' }))).status).toBe(404);
  await gone(id);
  server.release(gate);
  for (const generationId of [running, paused]) {
    expect((await engine().workflow.getHandle(generationId).describe()).status.name).toBe('CANCELLED');
    expect((await space.api.get(`${space.at}/generations/${generationId}`)).status).toBe(404);
  }
  const outputs = { tool_outputs: [{ tool_call_id: 'c1', output: 1 }] };
  expect((await space.api.post(`${generate}/${paused}/tool-outputs`, outputs)).status).toBe(404);
  await eventually(() => {
    const told = receiver.requests.map(
      ({ body }) => JSON.parse(body) as { data: { id: string; error: { code: string }; stop_reason: string } },
    );
    expect(told.map(({ data }) => data.id)).toEqual(expect.arrayContaining([running, paused]));
    for (const { data } of told)
      expect(data).toMatchObject({ stop_reason: 'cancelled', error: { code: 'GENERATION_CANCELLED' } });
  });
  expect(await query('select id from events where resource_id = any($1::text[])', [[running, paused]])).toHaveLength(2);
});

test('traces below the removed ones become roots of their own subtree', async () => {
  const doomed = await buildAgent(space);
  const other = await buildAgent(space);
  const root = await trace(doomed.id);
  const child = await trace(other.id, root, root);
  const grandchild = await trace(other.id, child, root);
  const below = await trace(doomed.id, grandchild, root);
  const deepest = await trace(other.id, below, root);
  const leaf = await trace(other.id, deepest, root);
  const top = await trace(other.id);
  const between = await trace(doomed.id, top, top);
  const under = await trace(other.id, between, top);
  await force(doomed.id);
  await gone(doomed.id);
  const rows = await query<{ id: string; parent_trace_id: string | null; root_trace_id: string | null }>(
    'select id, parent_trace_id, root_trace_id from traces where project_id = $1',
    [space.projectId],
  );
  expect(new Map(rows.map((row) => [row.id, [row.parent_trace_id, row.root_trace_id]]))).toEqual(
    new Map([
      [child, [null, null]],
      [grandchild, [child, child]],
      [deepest, [null, null]],
      [leaf, [deepest, deepest]],
      [top, [null, null]],
      [under, [null, null]],
    ]),
  );
});

test('a trace in which another agent took turns stays with that agent, its counts and its last failure', async () => {
  const doomed = await buildAgent(space);
  const other = await buildAgent(space);
  const shared = await trace(doomed.id);
  await ran(doomed.id, shared, { steps: 2 });
  await ran(other.id, shared, { steps: 3, error: 'AI_PROVIDER_ERROR' });
  await ran(doomed.id, shared, { steps: 4, error: 'GENERATION_FAILED' });
  const theirs = await trace(other.id);
  await ran(other.id, theirs, { steps: 1 });
  await ran(doomed.id, theirs, { steps: 5, error: 'GENERATION_FAILED' });
  await force(doomed.id);
  await gone(doomed.id);
  const rows = await query('select id, agent_id, step_count, error ->> $2 as code from traces where project_id = $1', [
    space.projectId,
    'code',
  ]);
  expect(rows).toHaveLength(2);
  expect(rows).toEqual(
    expect.arrayContaining([
      { id: shared, agent_id: other.id, step_count: 3, code: 'AI_PROVIDER_ERROR' },
      { id: theirs, agent_id: other.id, step_count: 1, code: null },
    ]),
  );
});

test('the sealed error of a run that keeps nothing does not become that of its trace', async () => {
  const [doomed, other] = [await buildAgent(space), await buildAgent(space)];
  const shared = await trace(doomed.id);
  await ran(doomed.id, shared, { error: 'GENERATION_FAILED' });
  const sealed = await ran(other.id, shared, { error: 'AI_PROVIDER_ERROR' });
  await query(`update generations set content_mode = 'none', error = '{"sealed":"x"}' where id = $1`, [sealed]);
  await force(doomed.id);
  await gone(doomed.id);
  expect(await queryOne('select error from traces where id = $1', [shared])).toEqual({ error: null });
});

test('a run that names a trace which is being removed is refused', async () => {
  const [doomed, other] = [await buildAgent(space), await buildAgent(space)];
  const id = await trace(doomed.id);
  const run = await inTransaction(async (tx) => {
    await query('delete from traces where id = $1', [id], tx);
    const asked = space.api.post(`${space.at}/agents/${other.id}/generate`, saying('x', { trace_id: id }));
    const reply = asked.then((given) => given);
    await eventually(async () => {
      const blocked = await query(
        'select 1 from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())',
      );
      expect(blocked).toHaveLength(1);
    });
    return { reply };
  });
  expect(await run.reply).toMatchObject({
    status: 400,
    body: { error: { code: 'VALIDATION_FAILED', details: [{ path: 'trace_id' }] } },
  });
});

describe('a deletion whose run is lost', () => {
  /** The rows as the request leaves them, without a run. */
  const committed = async (ageMs: number): Promise<string> => {
    const { id } = await buildAgent(space);
    await ran(id, await trace(id));
    await query('delete from agents where id = $1', [id]);
    await query(`insert into deletions (id, project_id, kind, created_at) values ($1, $2, 'agent', $3)`, [
      id,
      space.projectId,
      new Date(Date.now() - ageMs),
    ]);
    return id;
  };

  const sweepStarts = async (): Promise<void> => {
    const id = `sweep/tests/${newId('event')}`;
    const labels = { resourceType: 'sweep', resourceId: id };
    await startRun({ type: 'sweepStarts', id, args: [{ kinds: SWEEP_KINDS }], labels, memo: { trigger: 'test' } });
    await engine().workflow.getHandle(id).result();
  };

  test('[engine 2] before its start is started by the sweep, and comes to its end', async () => {
    const id = await committed(60_000);
    const young = await committed(0);
    await sweepStarts();
    await gone(id);
    expect(await leftOf(young)).toMatchObject({ generations: 1, deletions: 1 });
    await reconcile();
    await gone(young);
  });

  test('[engine 2] in its midst is started again by a comparison', async () => {
    const id = await committed(0);
    await query('update deletions set run_seen_at = now() where id = $1', [id]);
    await reconcile();
    await gone(id);
    expect(await runEnded(`delete/${id}`, 5_000)).toBe(true);
  });

  test('an open generation without a run of its own is cancelled too', async () => {
    const { id } = await buildAgent(space);
    const traceId = await trace(id);
    const generationId = await ran(id, traceId);
    await query(`update generations set status = 'in_progress', completed_at = null where id = $1`, [generationId]);
    expect(await cancelRun(generationId)).toBe(false);
    expect((await force(id)).status).toBe(204);
    await gone(id);
  });
});
