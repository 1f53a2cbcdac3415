import {
  ActivityFailure,
  ApplicationFailure,
  continueAsNew,
  proxyActivities,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { AgentDeletionInput, DeleteBatchResult, DeletionCounts } from './agents.contract';
import { batch } from './options';

const { deleteBatch } = proxyActivities<Activities>(batch);

/**
 * Cancels the open runs of an agent that was deleted by force, then removes its generations and traces batch by batch.
 * The rows say what is left, so that a run that is started again goes on where this one stood.
 */
export async function agentDeletion({ agentId }: AgentDeletionInput): Promise<DeletionCounts> {
  const total: DeletionCounts = { generations: 0, traces: 0 };
  for (;;) {
    const done = await nextBatch(agentId);
    total.generations += done.generations;
    total.traces += done.traces;
    if (!done.more) return total;
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof agentDeletion>({ agentId });
  }
}

/** The row of the deletion is gone when another run came to its end, or the project was deleted: nothing is left. */
async function nextBatch(agentId: string): Promise<DeleteBatchResult> {
  try {
    return await deleteBatch({ kind: 'agent', id: agentId });
  } catch (error) {
    const gone =
      error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === 'ROW_GONE';
    if (!gone) throw error;
    return { generations: 0, traces: 0, more: false };
  }
}
