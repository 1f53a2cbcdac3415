import { proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { DeleteBatchInput, DeleteBatchResult, DeletionCounts } from './deletions.contract';
import { batch } from './options';
import { isRowGone } from './row-gone';

const { deleteBatch } = proxyActivities<Activities>(batch);

/** Asks for batches until nothing is left; `again` goes on in a fresh history, and its counts begin anew. */
export async function deleteAll(what: DeleteBatchInput, again: () => Promise<never>): Promise<DeletionCounts> {
  const total: DeletionCounts = { generations: 0, traces: 0, rows: 0 };
  for (;;) {
    const done = await nextBatch(what);
    total.generations += done.generations;
    total.traces += done.traces;
    total.rows += done.rows ?? 0;
    if (!done.more) return total;
    if (workflowInfo().continueAsNewSuggested) await again();
  }
}

/** The row of the deletion is gone when another run came to its end, or the project was deleted: nothing is left. */
async function nextBatch(what: DeleteBatchInput): Promise<DeleteBatchResult> {
  try {
    return await deleteBatch(what);
  } catch (error) {
    if (!isRowGone(error)) throw error;
    return { generations: 0, traces: 0, more: false };
  }
}
