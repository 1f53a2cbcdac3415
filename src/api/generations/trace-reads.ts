import { query, queryOne } from '../core/db';
import type { GenerationRow } from './models';
import type { PendingCall, StepRow } from './present';
import { CALL_JSON, STEP_JSON, fromColumns, pendingCalls, readTurn, generationColumns } from './rows';
import type { TurnJson } from './rows';
import { plain } from './sealing';
import type { StoredCall } from './turn';

/** One finished step of a trace. */
export interface TraceStepRow {
  generationId: string;
  /** Counted from 0 over the turn of its generation. */
  index: number;
  step: StepRow;
  calls: StoredCall[];
}

/** Steps that may be shown, none of them sealed: those of turns that rest, as in their transcripts, and whose content is still there. */
const SHOWN = `
  from generations g join generation_steps s on s.generation_id = g.id and s.stored_at is not null
  where g.project_id = $1 and g.trace_id = $2 and g.status <> 'in_progress' and g.content_redacted_at is null`;

/** One page of the steps of all turns of a trace, in the order in which the turns and their steps were made. */
export async function stepsOfTrace(
  { projectId, traceId }: { projectId: string; traceId: string },
  { limit, offset }: { limit: number; offset: number },
): Promise<{ rows: TraceStepRow[]; total: number; limit: number; offset: number }> {
  const [counted, rows] = await Promise.all([
    queryOne<{ total: number }>(`select count(*)::int as total ${SHOWN}`, [projectId, traceId]),
    query<TurnJson & { generation_id: string; index: number }>(
      `with page as (
         select g.id, g.created_at, s.step, (row_number() over (partition by g.id order by s.step) - 1)::int as index ${SHOWN}
         order by g.created_at, g.id, s.step limit $3 offset $4)
       select p.id as generation_id, p.index,
         (select json_agg(${STEP_JSON}) from generation_steps s where s.generation_id = p.id and s.step = p.step) as steps,
         (select coalesce(json_agg(${CALL_JSON} order by k.call), '[]')
           from generation_calls k where k.generation_id = p.id and k.step = p.step) as calls
       from page p order by p.created_at, p.id, p.step`,
      [projectId, traceId, limit, offset],
    ),
  ]);
  return { rows: rows.flatMap(stepRow), total: counted?.total ?? 0, limit, offset };
}

/** A step that was purged between the page and its content is left out. */
function stepRow(row: TurnJson & { generation_id: string; index: number }): TraceStepRow[] {
  const { steps, calls } = readTurn(
    { steps: row.steps.filter(({ content }) => content !== null), calls: row.calls },
    plain,
  );
  return steps.map((step) => ({ generationId: row.generation_id, index: row.index, step, calls }));
}

/** A generation in a tree, with the calls that wait for their caller. */
export interface TreeGeneration {
  row: GenerationRow;
  pending: PendingCall[];
}

/** The generations of traces, by trace, each trace's oldest first; of all together the oldest `limit`. */
export async function generationsOfTraces(
  projectId: string,
  traceIds: string[],
  limit: number,
): Promise<{ byTrace: ReadonlyMap<string, TreeGeneration[]>; complete: boolean }> {
  const found = (
    await query<Record<string, unknown>>(
      `select ${generationColumns()} from generations where project_id = $1 and trace_id = any($2::text[])
       order by created_at, id limit $3`,
      [projectId, traceIds, limit + 1],
    )
  ).map(fromColumns);
  const rows = found.slice(0, limit);
  const pending = await pendingCalls(rows.filter(({ status }) => status === 'requires_action').map(({ id }) => id));
  const byTrace = new Map<string, TreeGeneration[]>();
  for (const row of rows) {
    const own = byTrace.get(row.traceId) ?? [];
    own.push({ row, pending: pending.get(row.id) ?? [] });
    byTrace.set(row.traceId, own);
  }
  return { byTrace, complete: found.length <= limit };
}
