/** The workflow's exported name. */
export const AGENT_DELETION = 'agentDeletion';

/** What the workflow `agentDeletion` is started with: the agent whose row is gone already. */
export interface AgentDeletionInput {
  agentId: string;
}

/** The workflow's id, derived from the agent's, so that a second start changes nothing. */
export const agentDeletionId = (agentId: string): string => `delete/${agentId}`;
