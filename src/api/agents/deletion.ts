import { AGENT_DELETION, agentDeletionId } from '../../workflows/agents.contract';
import type { AgentDeletionInput } from '../../workflows/agents.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import type { RunInput, RunMemo } from '../core/temporal';
import { deletionSweep, startDeletion } from '../projects/deletions';
import type { Deletion } from '../projects/deletions';

/** An agent whose row is gone, and whose generations and traces are being removed. */
export interface AgentDeletion {
  projectId: string;
  agentId: string;
}

/** The deletion of an agent, as its row has it. */
export const deletionOf = ({ projectId, agentId }: AgentDeletion): Deletion => ({
  kind: 'agent',
  id: agentId,
  projectId,
});

const deletionRun = ({ projectId, id: agentId }: Deletion, memo: RunMemo): RunInput => {
  const input: AgentDeletionInput = { agentId };
  return {
    type: AGENT_DELETION,
    id: agentDeletionId(agentId),
    args: [input],
    labels: { resourceType: 'agent', resourceId: agentId, projectId, agentId },
    memo,
  };
};

/** Starts the run of a committed deletion. A start that fails or is unknown is no error: the sweep starts it. */
export const startAgentDeletion = (
  deletion: AgentDeletion,
  by: { requestId: string; principalId: string },
): Promise<void> => startDeletion(deletionRun(deletionOf(deletion), { ...by, trigger: 'api' }));

/** How the sweeps find deletions of agents whose start was lost, and those without an open run. */
export const agentDeletionSweep: SweepKind = deletionSweep('agent', {
  name: 'agent_deletions',
  workflowType: AGENT_DELETION,
  runOf: deletionRun,
});
