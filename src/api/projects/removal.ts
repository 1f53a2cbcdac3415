import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';

/** The areas of these rows import this one, so it removes them by statement. */

/** A run takes its content, steps and calls along, so fewer of them go at once. */
const GENERATIONS_A_PAGE = 100;
const ROWS_A_PAGE = 1_000;

interface Part {
  table: string;
  counts: 'generations' | 'traces' | 'rows';
  /** Which rows, where they are not found by an index over projects. */
  where?: string;
  /** Rows that are left for later: a run that is open is cancelled before it goes. */
  only?: string;
}

const OF_AGENTS = 'agent_id in (select id from agents where project_id = $1)';

/** What makes new runs: without it none is accepted any more. */
const SOURCES: readonly Part[] = [
  { table: 'agent_versions', counts: 'rows', where: OF_AGENTS },
  { table: 'agent_credentials', counts: 'rows' },
  { table: 'agents', counts: 'rows' },
];

/** All others, those that refer to others first. */
const REST: readonly Part[] = [
  { table: 'generations', counts: 'generations', only: `status in ('completed', 'failed')` },
  { table: 'webhook_deliveries', counts: 'rows' },
  { table: 'events', counts: 'rows' },
  { table: 'webhooks', counts: 'rows' },
  { table: 'traces', counts: 'traces' },
  { table: 'prices', counts: 'rows' },
  { table: 'ai_providers', counts: 'rows' },
  { table: 'tools', counts: 'rows' },
  { table: 'secrets', counts: 'rows' },
  { table: 'api_keys', counts: 'rows' },
  { table: 'project_members', counts: 'rows' },
  { table: 'project_idempotency_keys', counts: 'rows' },
  { table: 'deletions', counts: 'rows', only: `kind <> 'project'` },
];

const PARTS = [...SOURCES, ...REST];

/** One page of removed rows; null = there was none. */
export type RemovedPage = { counts: Part['counts']; removed: number } | null;

/** Removes one page of what new runs are made of. Safe to repeat. */
export const removeSources = (projectId: string): Promise<RemovedPage> => removePage(SOURCES, projectId);

/** Removes one page of a project's rows, children first; runs that are open stay. Safe to repeat. */
export const removeRows = (projectId: string): Promise<RemovedPage> => removePage(PARTS, projectId);

async function removePage(parts: readonly Part[], projectId: string): Promise<RemovedPage> {
  for (const part of parts) {
    const limit = part.table === 'generations' ? GENERATIONS_A_PAGE : ROWS_A_PAGE;
    const gone = await query<{ gone: number }>(removalOf(part), [projectId, limit]);
    if (gone.length > 0) return { counts: part.counts, removed: gone.length };
  }
  return null;
}

const removalOf = ({ table, where = 'project_id = $1', only }: Part): string =>
  `delete from ${table} where ctid = any(array(
     select ctid from ${table} where ${where}${only === undefined ? '' : ` and ${only}`} limit $2)) returning 1 as gone`;

/** Ids of a project's generations that run or wait, at most `limit`. */
export const openGenerationsOf = async (projectId: string, limit: number): Promise<string[]> => {
  const rows = await query<{ id: string }>(
    `select id from generations where project_id = $1 and status in ('in_progress', 'requires_action') order by id limit $2`,
    [projectId, limit],
  );
  return rows.map(({ id }) => id);
};

/**
 * Removes the row of a project of which nothing else is left, and with it that of its deletion; false when something was
 * written meanwhile. Whoever writes a row of the project holds the project's own, so that it is waited for here; whoever comes
 * later finds no project to refer to. Safe to repeat.
 */
export async function removeProject(projectId: string): Promise<boolean> {
  return inTransaction(async (tx) => {
    await query('select id from projects where id = $1 for update', [projectId], tx);
    if (await anyLeft(projectId, tx)) return false;
    await query(KEEP_RUN_COUNTS, [projectId], tx);
    await query('delete from projects where id = $1 and deleted_at is not null', [projectId], tx);
    return true;
  });
}

const ANY_LEFT = `select ${PARTS.map(
  ({ table, where = 'project_id = $1', only }) =>
    `exists (select 1 from ${table} where ${where}${table === 'deletions' ? ` and ${only ?? ''}` : ''})`,
).join(' or ')} as found`;

const anyLeft = async (projectId: string, tx: Tx): Promise<boolean> =>
  (await queryOne<{ found: boolean }>(ANY_LEFT, [projectId], tx))?.found === true;

/** What was run is the account's, and stays under the empty project id. Spec: Projects, delete; Billing, cycles. */
const KEEP_RUN_COUNTS = `
  with gone as (delete from run_counts where project_id = $1 returning user_id, month, shard, runs)
  insert into run_counts (user_id, month, project_id, shard, runs)
  select user_id, month, '', shard, runs from gone order by user_id, month, shard
  on conflict (user_id, month, project_id, shard) do update set runs = run_counts.runs + excluded.runs`;
