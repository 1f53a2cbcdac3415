import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { buildClientTool, created } from '../support/builders';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

const SETTLED = 290;
const EACH = 5;

const service = useLocal();
let receiver: Receiver;
let runs: Runs;

beforeAll(async () => {
  receiver = await startReceiver();
  runs = new Runs(service, await service.workspace());
  created(await runs.space.api.post(runs.at('/webhooks'), { url: `${receiver.url}/events`, events: ['generation.*'] }));
});

afterAll(() => receiver.close());

/** An agent with 300 generations, each in a trace of its own: five running, five paused, the others settled. */
async function busyAgent(gate: string, within: Runs = runs): Promise<{ agentId: string; openIds: string[] }> {
  const tool = await buildClientTool(within.space, { name: 'ask' });
  const running = await within.agent([{ text: 'late', hold: gate }], { tool_bindings: [{ tool_id: tool.id }] });
  const pausing = await within.agent([{ toolCalls: [{ name: 'ask', args: { order_id: '1' } }] }]);
  const openIds: string[] = [];
  for (let index = 0; index < EACH; index += 1) openIds.push(await within.begin(running.id));
  for (const generationId of openIds) await service.modelServer.waitForCall({ generationId });
  await within.space.api.patch(within.at(`/agents/${running.id}`), { model: pausing.model });
  const paused: string[] = [];
  for (let index = 0; index < EACH; index += 1) paused.push(await within.begin(running.id));
  for (const id of paused) await within.reached(id, 'requires_action');
  await settled(running.id, within.space.projectId);
  return { agentId: running.id, openIds: [...openIds, ...paused] };
}

/** Generations that ended before, with content, written at once. */
async function settled(agentId: string, projectId: string): Promise<void> {
  const bind = [projectId, agentId, agentId.slice(-8), SETTLED];
  await service.rows(
    `with numbers as (select 'x' || $3 || lpad(n::text, 7, '0') as id from generate_series(1, $4::int) as n),
     made as (insert into traces (id, project_id, agent_id, created_at, updated_at)
       select 'trace_' || id, $1, $2, now(), now() from numbers),
     ran as (insert into generations (id, project_id, agent_id, agent_version, trace_id, status, created_at, updated_at)
       select 'gen_' || id, $1, $2, 1, 'trace_' || id, 'completed', now(), now() from numbers)
     insert into generation_contents (generation_id, project_id, input) select 'gen_' || id, $1, '[]' from numbers`,
    bind,
  );
}

const left = (agentId: string): Promise<object> =>
  service.row(
    `select (select count(*)::int from agents where id = $1) as agents,
       (select count(*)::int from agent_versions where agent_id = $1) as versions,
       (select count(*)::int from generations where agent_id = $1) as generations,
       (select count(*)::int from generation_contents c where not exists
         (select 1 from generations g where g.id = c.generation_id)) as contents,
       (select count(*)::int from traces where agent_id = $1) as traces,
       (select count(*)::int from deletions where id = $1) as deletions`,
    [agentId],
  );

const NOTHING = { agents: 0, versions: 0, generations: 0, contents: 0, traces: 0, deletions: 0 };

/** Ids of the runs of which an endpoint was told that they were cancelled. */
const toldCancelled = (): string[] =>
  receiver.requests.flatMap(({ body }) => {
    const { type, data } = JSON.parse(body) as { type: string; data: { id: string; error: { code: string } | null } };
    return type === 'generation.failed' && data.error?.code === 'GENERATION_CANCELLED' ? [data.id] : [];
  });

test.each(['deletion-cancelled', 'deletion-page'])(
  'killed in the middle of a forced deletion, at %s: nothing of the agent is left, and every run was cancelled',
  async (point) => {
    const { agentId, openIds } = await busyAgent(point);
    expect(await left(agentId)).toMatchObject({ generations: SETTLED + 2 * EACH, traces: SETTLED + 2 * EACH });
    service.hold(point);
    expect((await runs.space.api.delete(runs.at(`/agents/${agentId}?force=true`))).status).toBe(204);
    await service.held(point, 20_000);
    const before = (await left(agentId)) as typeof NOTHING;
    expect(before).toMatchObject({ agents: 0, deletions: 1, generations: point === 'deletion-page' ? 200 : 300 });
    await service.kill('worker');
    service.letGo(point);
    await service.local.start('worker');
    await eventually(
      async () => {
        expect(await left(agentId)).toEqual(NOTHING);
      },
      { timeoutMs: 60_000, intervalMs: 250 },
    );
    for (const id of openIds) expect(await service.runStatus(id)).toBe('CANCELLED');
    await eventually(
      () => {
        expect(toldCancelled()).toEqual(expect.arrayContaining(openIds));
      },
      { timeoutMs: 30_000 },
    );
    await eventually(async () => {
      expect(await service.runStatus(`delete/${agentId}`)).toBe('COMPLETED');
    });
    service.modelServer.release(point);
  },
  150_000,
);

/** Rows of a project by table, over every table that names projects; those without any are left out. */
async function leftOfProject(projectId: string): Promise<Record<string, number>> {
  const tables = await service.rows<{ name: string }>(
    `select table_name as name from information_schema.columns where table_schema = current_schema() and column_name = 'project_id'`,
  );
  const counts: Record<string, number> = {};
  for (const { name } of tables) {
    const { n } = await service.row<{ n: number }>(`select count(*)::int as n from "${name}" where project_id = $1`, [
      projectId,
    ]);
    if (n > 0) counts[name] = n;
  }
  const { n } = await service.row<{ n: number }>('select count(*)::int as n from projects where id = $1', [projectId]);
  return n === 0 ? counts : { ...counts, projects: n };
}

test('[projects 7] killed in the middle of the deletion of a project: nothing of it is left, and every run was cancelled', async () => {
  const point = 'deletion-page';
  const own = new Runs(service, await service.workspace());
  const { projectId } = own.space;
  const gate = `project-${point}`;
  const { openIds } = await busyAgent(gate, own);
  expect(await leftOfProject(projectId)).toMatchObject({ projects: 1, generations: SETTLED + 2 * EACH });
  service.hold(point);
  expect((await own.space.api.delete(`${own.space.at}?force=true`)).status).toBe(204);
  expect((await own.space.api.get(own.space.at)).status).toBe(404);
  await service.held(point, 20_000);
  expect(await leftOfProject(projectId)).toMatchObject({ projects: 1, deletions: 1 });
  await service.kill('worker');
  service.letGo(point);
  await service.local.start('worker');
  await eventually(
    async () => {
      expect(await leftOfProject(projectId)).toEqual({});
    },
    { timeoutMs: 60_000, intervalMs: 250 },
  );
  for (const id of openIds) expect(await service.runStatus(id)).toBe('CANCELLED');
  await eventually(async () => {
    expect(await service.runStatus(`delete/${projectId}`)).toBe('COMPLETED');
  });
  service.modelServer.release(gate);
}, 150_000);
