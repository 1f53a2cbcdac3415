import { continueAsNew } from '@temporalio/workflow';
import type { AgentDeletionInput } from './agents.contract';
import { deleteAll } from './deletions';
import type { DeletionCounts } from './deletions.contract';

/**
 * Cancels the open runs of an agent that was deleted by force, then removes its generations and traces batch by batch.
 * The rows say what is left, so that a run that is started again goes on where this one stood.
 */
export async function agentDeletion({ agentId }: AgentDeletionInput): Promise<Omit<DeletionCounts, 'rows'>> {
  const { generations, traces } = await deleteAll({ kind: 'agent', id: agentId }, () =>
    continueAsNew<typeof agentDeletion>({ agentId }),
  );
  return { generations, traces };
}
