import { isDeepStrictEqual } from 'node:util';
import { clock } from '../core/clock';
import { inTransaction, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { Agent } from './models';
import { assertVersion } from './precondition';
import { assertReferences } from './references';
import type { AgentConfig } from './schemas';
import { archive } from './versions';

/** Who writes, and how the version that the write archives is called. */
export interface Authorship {
  userId: string;
  label: string | null;
}

/**
 * Stores an agent and archives its version 1. Not repeatable: each call makes one.
 * @throws not_found (ai_provider_id), VALIDATION_FAILED and the codes of unknown references
 */
export async function createAgent(projectId: string, config: AgentConfig, by: Authorship): Promise<Agent> {
  return inTransaction(async (tx) => {
    const aiProviderId = await assertReferences(projectId, { given: config, result: config }, tx);
    const now = clock.now();
    const agent = await Agent.create(
      {
        id: newId('agent'),
        projectId,
        aiProviderId,
        toolIds: toolIdsOf(config),
        config,
        version: 1,
        lastVersion: 1,
        createdAt: now,
        updatedAt: now,
      },
      { transaction: tx },
    );
    await archive(agent, { label: by.label, createdBy: by.userId, at: now }, tx);
    return agent;
  });
}

/**
 * Changes the given fields. Writes to one agent queue on its row, and each that changes something takes the next version;
 * one that changes nothing takes none, but a stale stated version is refused all the same. Repeatable.
 * @throws not_found (also ai_provider_id), VERSION_CONFLICT, VALIDATION_FAILED and the codes of unknown references
 */
export async function updateAgent(
  { projectId, agentId, statedVersion }: { projectId: string; agentId: string; statedVersion: number | null },
  given: Partial<AgentConfig>,
  by: Authorship,
): Promise<Agent> {
  return inTransaction(async (tx) => {
    // The weaker lock: a generation being accepted holds the row by its foreign key, and need not wait.
    const agent = await Agent.findOne({
      where: { projectId, id: agentId },
      transaction: tx,
      lock: tx.LOCK.NO_KEY_UPDATE,
    });
    if (agent === null) throw notFound();
    assertVersion(agent.version, statedVersion);
    const result = { ...agent.config, ...given };
    const aiProviderId = await assertReferences(projectId, { given, result }, tx);
    // By value: the order of keys says nothing.
    if (isDeepStrictEqual(result, agent.config)) return agent;
    const now = clock.now();
    const version = agent.lastVersion + 1;
    agent.set({
      config: result,
      aiProviderId,
      toolIds: toolIdsOf(result),
      version,
      lastVersion: version,
      updatedAt: now,
    });
    await agent.save({ transaction: tx });
    await archive(agent, { label: by.label, createdBy: by.userId, at: now }, tx);
    return agent;
  });
}

/**
 * Deletes an agent that never ran, with its versions. The row is locked first: a generation being accepted holds it by
 * its foreign key, so it is either counted here or finds no agent.
 * @throws not_found, AGENT_HAS_DEPENDENTS
 */
export async function deleteAgent(projectId: string, agentId: string): Promise<void> {
  await inTransaction(async (tx) => {
    const agent = await Agent.findOne({ where: { projectId, id: agentId }, transaction: tx, lock: tx.LOCK.UPDATE });
    if (agent === null) throw notFound();
    const { generations, traces } = await dependentsOf(projectId, agentId, tx);
    if (generations + traces > 0) {
      throw new ApiError('AGENT_HAS_DEPENDENTS', 'The agent has generations or traces.', {
        meta: {
          generation_count: generations,
          trace_count: traces,
          accepted_share_count: 0,
          ingestion_rule_count: 0,
        },
      });
    }
    await agent.destroy({ transaction: tx });
  });
}

/** One agent of the project. @throws not_found */
export async function getAgent(projectId: string, agentId: string): Promise<Agent> {
  const row = await Agent.findOne({ where: { projectId, id: agentId } });
  if (row === null) throw notFound();
  return row;
}

/** A page of the project's agents, newest first. */
export const listAgents = (projectId: string, page: { limit: number; offset: number }) =>
  listByOffset(Agent, { where: { projectId }, ...page });

/** A stored configuration: this build has one kind of model source, so it is always set. */
export type ServedConfig = AgentConfig & { ai_provider_id: string };

/**
 * The configuration that serves a generation now, or null when there is no such agent. Inside a transaction the agent is
 * held until it ends, so that it is not deleted while the generation is written.
 */
export async function servedAgent(
  projectId: string,
  agentId: string,
  tx?: Tx,
): Promise<{ id: string; version: number; config: ServedConfig } | null> {
  if (!isId('agent', agentId)) return null;
  const lock = tx === undefined ? '' : ' for key share';
  return queryOne(
    `select id, version, config from agents where project_id = $1 and id = $2${lock}`,
    [projectId, agentId],
    tx,
  );
}

const toolIdsOf = ({ tool_bindings: bindings }: AgentConfig): string[] => (bindings ?? []).map(({ tool_id: id }) => id);

/** Generations import this area, so it counts their rows by statement and not through their service. */
async function dependentsOf(
  projectId: string,
  agentId: string,
  tx: Tx,
): Promise<{ generations: number; traces: number }> {
  const counts = await queryOne<{ generations: number; traces: number }>(
    `select (select count(*)::int from generations where project_id = $1 and agent_id = $2) as generations,
            (select count(*)::int from traces where project_id = $1 and agent_id = $2) as traces`,
    [projectId, agentId],
    tx,
  );
  return counts ?? { generations: 0, traces: 0 };
}
