import { buildClientTool } from './builders';
import type { LocalService, Runs } from './local';

/** Runs of a busy agent that ended before, and those that run and those that are paused. */
const SETTLED = 290;
const EACH = 5;
export const RUNS = SETTLED + 2 * EACH;

/** An agent with 300 generations, each in a trace of its own: five running, five paused, the others settled. */
export async function busyAgent(runs: Runs, gate: string): Promise<{ agentId: string; openIds: string[] }> {
  const { space, service } = runs;
  const tool = await buildClientTool(space, { name: `ask_${gate.replaceAll('-', '_')}` });
  const running = await runs.agent([{ text: 'late', hold: gate }], { tool_bindings: [{ tool_id: tool.id }] });
  const pausing = await runs.agent([
    { toolCalls: [{ name: `ask_${gate.replaceAll('-', '_')}`, args: { order_id: '1' } }] },
  ]);
  const each = Array.from({ length: EACH });
  const openIds = await Promise.all(each.map(() => runs.begin(running.id)));
  await Promise.all(openIds.map((generationId) => service.modelServer.waitForCall({ generationId })));
  await space.api.patch(runs.at(`/agents/${running.id}`), { model: pausing.model });
  const paused = await Promise.all(each.map(() => runs.begin(running.id)));
  await Promise.all(paused.map((id) => runs.reached(id, 'requires_action')));
  await settled(service, running.id, space.projectId);
  return { agentId: running.id, openIds: [...openIds, ...paused] };
}

/** Generations that ended before, with content, written at once. */
async function settled(service: LocalService, agentId: string, projectId: string): Promise<void> {
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

/** Rows of an agent by what they are. */
export const leftOfAgent = (service: LocalService, agentId: string): Promise<Record<string, number>> =>
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

export const NOTHING = { agents: 0, versions: 0, generations: 0, contents: 0, traces: 0, deletions: 0 };

/** Rows of a project by table, over every table that names projects; those without any are left out. */
export async function leftOfProject(service: LocalService, projectId: string): Promise<Record<string, number>> {
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

/** Traces below the first one of a big tree. */
export const BELOW = 200;

/** A finished run with a tree of that many more traces below it, each with a turn of its own that is a copy of the first. */
export async function bigTree(runs: Runs): Promise<string> {
  const generationId = await runs.begin((await runs.agent([{ text: 'KANARIENVOGEL' }])).id);
  const { trace_id: traceId } = await runs.reached(generationId, 'completed');
  const numbers = `generate_series(1, ${String(BELOW)}) n`;
  await runs.service.rows(
    `insert into traces (id, project_id, agent_id, step_count, parent_trace_id, root_trace_id, created_at, updated_at)
     select 'trace_' || lpad(n::text, 16, '0'), project_id, agent_id, 1, id, id, now(), now()
     from traces, ${numbers} where id = $1`,
    [traceId],
  );
  await runs.service.rows(
    `insert into generations (id, project_id, agent_id, agent_version, trace_id, status, step_count, created_at, updated_at)
     select 'gen_' || lpad(n::text, 16, '0'), project_id, agent_id, 1, 'trace_' || lpad(n::text, 16, '0'), 'completed', 1, now(), now()
     from generations, ${numbers} where id = $1`,
    [generationId],
  );
  await runs.service.rows(
    `insert into generation_contents (generation_id, project_id, input)
     select 'gen_' || lpad(n::text, 16, '0'), project_id, input from generation_contents, ${numbers} where generation_id = $1`,
    [generationId],
  );
  return traceId as string;
}

/** What of a project still has its content. */
export const leftOfContent = ({ service, space }: Runs): Promise<Record<string, number>> =>
  service.row(
    `select (select count(*)::int from traces where project_id = $1 and content_redacted_at is null) as traces,
       (select count(*)::int from generations where project_id = $1 and content_redacted_at is null) as generations,
       (select count(*)::int from generation_contents where project_id = $1) as contents`,
    [space.projectId],
  );

/** Accounts on a higher plan that a lower one waits for since the turn of the last month; the service is as old as that. */
export async function accountsToLower(service: LocalService, count: number): Promise<void> {
  await service.rows(
    `with made as (
       insert into users (id, email, email_verified, created_at, updated_at, plan, next_plan, next_plan_at, next_plan_reason)
       select 'user_turn' || lpad(n::text, 12, '0'), 'turn-' || n || '@people.test', true,
         date_trunc('month', now(), 'UTC') - interval '2 days', now(), 'pro', 'free',
         date_trunc('month', now(), 'UTC'), 'less' from generate_series(1, $1::int) as n returning id)
     insert into plan_lines (id, user_id, plan, reason, effective_at, created_at)
     select 'pln_' || substr(id, 6), id, 'pro', 'more', now() - interval '2 days', now() - interval '2 days' from made`,
    [count],
  );
}

/** How far the turn of the month is for those accounts. */
export const turned = (service: LocalService): Promise<Record<string, number>> =>
  service.row(
    `select count(*) filter (where u.plan = 'free')::int as lowered, count(*) filter (where u.next_plan is not null)::int as waiting,
       coalesce(sum((select count(*) from plan_lines l where l.user_id = u.id and l.plan = 'free')), 0)::int as lines,
       (select count(*)::int from month_turns) as months
     from users u where u.email like 'turn-%'`,
  );
