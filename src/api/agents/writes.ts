import { isDeepStrictEqual } from 'node:util';
import { clock } from '../core/clock';
import type { Tx } from '../core/db';
import { notFound } from '../core/errors';
import { Agent } from './models';
import { assertVersion } from './precondition';
import type { AgentConfig } from './schemas';
import { archive } from './versions';

/** Who writes, and how the version that the write archives is called. */
export interface Authorship {
  userId: string;
  label: string | null;
}

/** The agent of a write, and the version that the write states as the live one; null = none stated. */
export interface WriteTarget {
  projectId: string;
  agentId: string;
  statedVersion: number | null;
}

/** The stored tools that a configuration binds. */
export const toolIdsOf = ({ tool_bindings: bindings }: AgentConfig): string[] =>
  (bindings ?? []).flatMap((binding) => ('tool' in binding ? [] : [binding.tool_id]));

/** The agent, held until the transaction ends: writes to it queue here. @throws not_found, VERSION_CONFLICT */
export async function lockedForWrite({ projectId, agentId, statedVersion }: WriteTarget, tx: Tx): Promise<Agent> {
  // The weaker lock: a generation that is being accepted holds the row against a delete, and need not wait.
  const agent = await Agent.findOne({
    where: { projectId, id: agentId },
    transaction: tx,
    lock: tx.LOCK.NO_KEY_UPDATE,
  });
  if (agent === null) throw notFound();
  assertVersion(agent.version, statedVersion);
  return agent;
}

/** Whether two configurations are the same: by value, the order of keys says nothing. */
export const isSameConfig = (one: AgentConfig, other: AgentConfig): boolean => isDeepStrictEqual(one, other);

/**
 * Makes a checked configuration the live one of a held agent, under the next number that was never given, and archives
 * it; one that is live already changes nothing. Spec: Agents, versions.
 */
export async function writeConfig(
  agent: Agent,
  { config, aiProviderId }: { config: AgentConfig; aiProviderId: string },
  by: Authorship,
  tx: Tx,
): Promise<Agent> {
  if (isSameConfig(config, agent.config)) return agent;
  const now = clock.now();
  const version = agent.lastVersion + 1;
  agent.set({ config, aiProviderId, toolIds: toolIdsOf(config), version, lastVersion: version, updatedAt: now });
  await agent.save({ transaction: tx });
  await archive(agent, { label: by.label, createdBy: by.userId, at: now }, tx);
  return agent;
}
