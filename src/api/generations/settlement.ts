import { onCommit } from '../core/after-commit';
import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { count } from '../core/metrics';
import { recordEvent } from '../webhooks/deliveries';
import type { DueDelivery } from '../webhooks/due';
import { failure } from './endings';
import type { Ending } from './endings';
import { presentGeneration } from './present';
import type { GenerationError, GenerationRow } from './models';
import { fromColumns, generationColumns } from './rows';
import { dropContent, sealOf } from './scratch';

/** Submissions that were not taken go with the settlement. */
const SETTLE = `
  with settled as (
    update generations set status = $2, stop_reason = $3, error = case when content_mode = 'full' then $4::json end,
      completed_at = $5, last_activity_at = $5, updated_at = $5, run_seen_at = coalesce(run_seen_at, $5)
    where id = $1 and status in ('in_progress', 'requires_action') returning ${generationColumns()}),
  losers as (
    delete from generation_submissions s using settled where s.generation_id = settled.id and s.accepted_at is null),
  told as (
    update traces t set error = coalesce(settled.error, t.error), updated_at = $5 from settled
    where t.project_id = settled.project_id and t.id = settled.trace_id)
  select ${generationColumns()} from settled`;

/**
 * Settles a generation in the caller's transaction: status, event and deliveries commit together, with whatever step
 * led here. Under zero retention content and error go with it, or stay sealed for the caller that waits. One compare-and-set on the status: of several settlements one wins, the others change nothing.
 * Answers the deliveries, or null when the generation is settled already or gone. Safe to repeat.
 * Spec: Events, rules 2 and 7; Generations, what is kept.
 */
export async function settle(tx: Tx, generationId: string, ending: Ending): Promise<DueDelivery[] | null> {
  const now = clock.now();
  const error = ending.status === 'failed' ? ending.error : null;
  const columns = await queryOne<Record<string, unknown>>(
    SETTLE,
    [generationId, ending.status, ending.stopReason, error === null ? null : JSON.stringify(error), now],
    tx,
  );
  if (columns === null) return null;
  const row = fromColumns(columns);
  const reason = ending.status === 'failed' ? ending.error.code : ending.stopReason;
  onCommit(tx, () => count('runsSettled', { resource: 'generation', status: ending.status, reason }));
  if (row.contentMode === 'none') await removeOrLeave(tx, row, error);
  if (row.streamed) return [];
  return recordEvent(tx, {
    projectId: row.projectId,
    type: ending.status === 'completed' ? 'generation.completed' : 'generation.failed',
    resourceType: 'generation',
    resourceId: row.id,
    data: presentGeneration(row, []),
  });
}

/**
 * What zero retention leaves at the settlement: nothing, unless a caller waits for the answer. A cancellation says nothing
 * that its record does not, so it leaves nothing either.
 */
async function removeOrLeave(
  tx: Tx,
  { id, awaited, stopReason }: GenerationRow,
  error: GenerationError | null,
): Promise<void> {
  const seal = await sealOf(id, tx);
  if (!awaited || stopReason === 'cancelled' || seal?.usable !== true) {
    await dropContent(id, tx);
    return;
  }
  if (error === null) return;
  await query('update generations set error = $2 where id = $1', [id, seal.seal('error', error)], tx);
}

/** Settles by the generation's id alone, in a transaction of its own. Null when the row is gone; empty when it was settled. */
export async function settleFailed(generationId: string, code: string, message: string): Promise<DueDelivery[] | null> {
  return inTransaction(async (tx) => {
    const row = await queryOne<{ trace_id: string }>(
      'select trace_id from generations where id = $1 for update',
      [generationId],
      tx,
    );
    if (row === null) return null;
    return (await settle(tx, generationId, failure({ generationId, traceId: row.trace_id }, code, message))) ?? [];
  });
}
