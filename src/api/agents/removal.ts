import { clock } from '../core/clock';
import { inTransaction, query } from '../core/db';
import type { Tx } from '../core/db';
import type { AgentDeletion } from './deletion';

/** Generations import this area, so it removes their rows, and those of traces, by statement. */

const idsOf = async (sql: string, bind: unknown[], tx?: Tx): Promise<string[]> =>
  (await query<{ id: string }>(sql, bind, tx)).map(({ id }) => id);

/** Ids of an agent's generations that run or wait, at most `limit`. */
export const openGenerations = ({ projectId, agentId }: AgentDeletion, limit: number): Promise<string[]> =>
  idsOf(
    `select id from generations where project_id = $1 and agent_id = $2 and status in ('in_progress', 'requires_action')
     order by id limit $3`,
    [projectId, agentId, limit],
  );

/**
 * Removes up to `limit` settled generations of an agent with their content, steps, calls and submissions. Their events
 * and deliveries stay until their own retention. Traces lose their steps from the count, and tell the last failure of
 * what remains in them. Answers how many went. Safe to repeat.
 */
export async function removeGenerations({ projectId, agentId }: AgentDeletion, limit: number): Promise<number> {
  return inTransaction(async (tx) => {
    const ids = await idsOf(
      `select id from generations where project_id = $1 and agent_id = $2 and status in ('completed', 'failed')
       order by id limit $3 for update`,
      [projectId, agentId, limit],
      tx,
    );
    if (ids.length === 0) return 0;
    const removed = await query<{ trace_id: string; step_count: number }>(
      'delete from generations where id = any($1::text[]) returning trace_id, step_count',
      [ids],
      tx,
    );
    await discount(projectId, removed, tx);
    return removed.length;
  });
}

/** Takes removed generations off the counts of their traces. */
async function discount(projectId: string, removed: { trace_id: string; step_count: number }[], tx: Tx): Promise<void> {
  const traceIds = removed.map(({ trace_id: id }) => id);
  // Held by a statement of its own, so that the next one sees what was written while this one waited.
  await query(
    'select id from traces where project_id = $1 and id = any($2::text[]) order by id for update',
    [projectId, traceIds],
    tx,
  );
  await query(
    `update traces t set step_count = greatest(0, t.step_count - gone.steps), updated_at = $4,
       error = (select g.error from generations g where g.trace_id = t.id and g.status = 'failed' and g.error is not null
         and g.content_mode = 'full' order by g.completed_at desc, g.id desc limit 1)
     from (select trace_id, sum(steps)::int as steps from unnest($2::text[], $3::int[]) as r (trace_id, steps) group by trace_id) as gone
     where t.project_id = $1 and t.id = gone.trace_id`,
    [projectId, traceIds, removed.map(({ step_count: steps }) => steps), clock.now()],
    tx,
  );
}

/**
 * Removes up to `limit` traces of an agent whose generations are gone. One that other agents took turns in stays and is
 * theirs: it belongs to the agent of its first generation. Traces below a removed one become roots, each of its own
 * subtree. Answers how many were dealt with. Safe to repeat.
 * Spec: Traces, invariants.
 */
export async function removeTraces({ projectId, agentId }: AgentDeletion, limit: number): Promise<number> {
  return inTransaction(async (tx) => {
    // Whoever adds a turn to a trace holds its row by a foreign key: what is locked here gets no more turns.
    const ids = await idsOf(
      'select id from traces where project_id = $1 and agent_id = $2 order by id limit $3 for update',
      [projectId, agentId, limit],
      tx,
    );
    if (ids.length === 0) return 0;
    const kept = await handOver(projectId, ids, tx);
    const gone = ids.filter((id) => !kept.has(id));
    await plantChildren(projectId, gone, tx);
    await query('delete from traces where project_id = $1 and id = any($2::text[])', [projectId, gone], tx);
    return ids.length;
  });
}

/** Gives traces that still hold generations to the agent of the first of them; answers which. */
async function handOver(projectId: string, ids: string[], tx: Tx): Promise<Set<string>> {
  const kept = await idsOf(
    `update traces t set agent_id = first.agent_id, updated_at = $3
     from (select distinct on (trace_id) trace_id, agent_id from generations where project_id = $1 and trace_id = any($2::text[])
       order by trace_id, created_at, id) as first
     where t.project_id = $1 and t.id = first.trace_id returning t.id`,
    [projectId, ids, clock.now()],
    tx,
  );
  return new Set(kept);
}

/** Makes each trace right below the given ones a root, and the root of all that hangs below it. */
async function plantChildren(projectId: string, gone: string[], tx: Tx): Promise<void> {
  await query(
    `with recursive subtree as (
       select id, id as root from traces
         where project_id = $1 and parent_trace_id = any($2::text[]) and id <> all($2::text[])
       union all
       select t.id, subtree.root from traces t join subtree on t.parent_trace_id = subtree.id
         where t.project_id = $1 and t.id <> all($2::text[]))
     update traces t set updated_at = $3,
       parent_trace_id = case when t.id = subtree.root then null else t.parent_trace_id end,
       root_trace_id = case when t.id = subtree.root then null else subtree.root end
     from subtree where t.project_id = $1 and t.id = subtree.id`,
    [projectId, gone, clock.now()],
    tx,
  );
}
