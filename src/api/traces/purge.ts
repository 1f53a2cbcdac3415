import { AWAIT_END, TRACE_PURGE, tracePurgeId } from '../../workflows/traces.contract';
import type { TracePurgeInput } from '../../workflows/traces.contract';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { inTransaction, query, queryOne } from '../core/db';
import { ApiError, unavailable } from '../core/errors';
import { faultPoint } from '../core/faults';
import { updateWithStart } from '../core/temporal';
import type { RunInput } from '../core/temporal';
import { inProgress, purgeGenerations } from '../generations/purge';
import type { Purger } from '../generations/purge';
import type { Trace } from './models';
import { getTrace } from './service';

/** Names a trace together with those below it. */
export interface Subtree {
  projectId: string;
  traceId: string;
}

/** Runs that end before they take the update are started again this often. */
const STARTS_MAX = 3;

/** A trace and those below it; a link that led in a circle would end it all the same. */
const SUBTREE = `
  with recursive subtree as (
    select id from traces where project_id = $1 and id = $2
    union select t.id from traces t join subtree s on t.parent_trace_id = s.id where t.project_id = $1)`;

/** The first generation of a subtree that runs or waits; null when all of it rests. */
async function openGeneration({ projectId, traceId }: Subtree): Promise<string | null> {
  const open = await queryOne<{ id: string }>(
    `${SUBTREE} select g.id from generations g join subtree s on s.id = g.trace_id
     where g.status in ('in_progress', 'requires_action') limit 1`,
    [projectId, traceId],
  );
  return open?.id ?? null;
}

/** Traces of a subtree that still hold content, those that were made last first, the named one last of all. */
async function unpurged({ projectId, traceId }: Subtree, limit: number): Promise<string[]> {
  const rows = await query<{ id: string }>(
    `${SUBTREE} select t.id from traces t join subtree s on s.id = t.id
     where t.content_redacted_at is null or exists (
       select 1 from generations g where g.trace_id = t.id and g.content_redacted_at is null)
     order by t.id = $2, t.created_at desc, t.id desc limit $3`,
    [projectId, traceId, limit],
  );
  return rows.map(({ id }) => id);
}

/** What became of one piece of a subtree. */
export interface SubtreePiece {
  purged: number;
  /** A generation in it runs or waits: nothing more was removed. */
  refused: boolean;
  /** Whether content may be left beyond this piece. */
  more: boolean;
}

/**
 * Removes the content of a trace and of those below it: one transaction for each trace, at most `tracesMax` of them.
 * Safe to repeat: what has a stamp keeps it, and what was done is not found again.
 * Spec: Traces, content purge and retention.
 * @param onTrace told after each trace, for a heartbeat
 */
export async function purgeSubtree(
  subtree: Subtree,
  by: Purger,
  { tracesMax, onTrace }: { tracesMax: number; onTrace: () => void },
): Promise<SubtreePiece> {
  if ((await openGeneration(subtree)) !== null) return { purged: 0, refused: true, more: false };
  const ids = await unpurged(subtree, tracesMax);
  let purged = 0;
  for (const traceId of ids) {
    if (!(await purgeTrace({ projectId: subtree.projectId, traceId }, by)))
      return { purged, refused: true, more: false };
    purged += 1;
    onTrace();
    await faultPoint('trace-purged');
  }
  return { purged, refused: false, more: ids.length === tracesMax };
}

/** One trace with its generations. False when one of them runs by now. Generations are locked first, as by their settlement. */
async function purgeTrace({ projectId, traceId }: Subtree, by: Purger): Promise<boolean> {
  try {
    await inTransaction(async (tx) => {
      const rows = await query<{ id: string }>(
        'select id from generations where project_id = $1 and trace_id = $2',
        [projectId, traceId],
        tx,
      );
      const ids = rows.map(({ id }) => id);
      await purgeGenerations(tx, projectId, ids, by);
      await query(
        `update traces set error = null, updated_at = $3, content_redacted_at = coalesce(content_redacted_at, $3),
           content_redacted_by_principal_type = case when content_redacted_at is null then $4 else content_redacted_by_principal_type end,
           content_redacted_by_principal_id = case when content_redacted_at is null then $5 else content_redacted_by_principal_id end
         where project_id = $1 and id = $2`,
        [projectId, traceId, clock.now(), by.type, by.id],
        tx,
      );
    });
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.code === 'GENERATION_IN_PROGRESS') return false;
    throw error;
  }
}

/** A root trace of a project, past the time for which its content is kept. */
export interface ExpiredRoot {
  projectId: string;
  id: string;
}

/** Longest retention that is told from for ever, so that no setting leaves the range of dates: a thousand years. */
const RETENTION_DAYS_MAX = 365_000;

/**
 * A page of root traces that are past the content retention of their project while something in their tree still holds
 * content, in the order of project and id.
 */
export async function expiredRoots(after: ExpiredRoot, limit: number): Promise<ExpiredRoot[]> {
  const holdsContent = (trace: string): string =>
    `${trace}.content_redacted_at is null or exists (
       select 1 from generations g where g.trace_id = ${trace}.id and g.content_redacted_at is null)`;
  const rows = await query<{ project_id: string; id: string }>(
    `select r.project_id, r.id from projects p join traces r on r.project_id = p.id
     where p.trace_content_retention_days is not null and r.root_trace_id is null
       and r.created_at < $1::timestamptz - least(p.trace_content_retention_days, $2::int) * interval '24 hours'
       and (r.project_id, r.id) > ($3::text, $4::text)
       and (${holdsContent('r')} or exists (
         select 1 from traces t where t.root_trace_id = r.id and (${holdsContent('t')})))
     order by r.project_id, r.id limit $5`,
    [clock.now(), RETENTION_DAYS_MAX, after.projectId, after.id, limit],
  );
  return rows.map(({ project_id: projectId, id }) => ({ projectId, id }));
}

/** Who asks for a purge, and by which request. */
export interface PurgeRequest extends Subtree {
  by: Purger;
  requestId: string;
}

/**
 * Removes the content of a trace and of those below it, and answers the trace. The removal is a run of its own: it goes on
 * when the caller leaves, and a second call joins it. Safe to repeat: the first stamp stays.
 * Spec: Traces, content purge.
 * @throws not_found, GENERATION_IN_PROGRESS, service_unavailable
 */
export async function removeContent(request: PurgeRequest): Promise<Trace> {
  const { projectId, traceId } = request;
  const trace = await getTrace(projectId, traceId);
  await assertAtRest(request);
  const until = clock.ms() + config().WAIT_MAX_SECONDS * 1000;
  for (let start = 1; start <= STARTS_MAX; start += 1) {
    const run = purgeRun(trace, request);
    const outcome = await updateWithStart(run, AWAIT_END, [], {
      timeoutMs: Math.max(1, until - clock.ms()),
      outlastsOutages: false, // Without its start nothing is going on that could be spoken of.
    }).catch(async (error: unknown) => {
      if (error instanceof ApiError && error.code === 'GENERATION_IN_PROGRESS') throw await refusalOf(request);
      throw error;
    });
    if (outcome === 'timeout') throw unavailable('No worker did the removal in time; it goes on when one runs.');
    if (outcome === 'answered') return getTrace(projectId, traceId);
  }
  throw unavailable('The removal was ended before it was done; it may be asked for again.');
}

async function assertAtRest(subtree: Subtree): Promise<void> {
  if ((await openGeneration(subtree)) !== null) throw await refusalOf(subtree);
}

/** The refusal, naming the generation in the way unless it has settled meanwhile. */
async function refusalOf(subtree: Subtree): Promise<ApiError> {
  return inProgress((await openGeneration(subtree)) ?? undefined);
}

function purgeRun(trace: Trace, { by, requestId }: PurgeRequest): RunInput {
  const input: TracePurgeInput = { projectId: trace.projectId, traceId: trace.id, by };
  return {
    type: TRACE_PURGE,
    id: tracePurgeId(trace.id),
    args: [input],
    labels: { resourceType: 'trace', resourceId: trace.id, projectId: trace.projectId, agentId: trace.agentId },
    memo: { requestId, principalId: by.id, trigger: 'api' },
    mayRepeat: true,
  };
}
