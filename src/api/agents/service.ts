import { clock } from '../core/clock';
import { inTransaction, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import { faultPoint } from '../core/faults';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { recordDeletion } from '../projects/deletions';
import { openBindings, storeCredentials, storedBindings } from './bindings';
import { deletionOf, startAgentDeletion } from './deletion';
import { Agent } from './models';
import { checkedOutputSchema } from './output-schema';
import { assertReferences } from './references';
import type { AgentConfig, Unchecked } from './schemas';
import { archive } from './versions';
import { lockedForWrite, toolIdsOf, writeConfig } from './writes';
import type { Authorship, WriteTarget } from './writes';

/**
 * Stores an agent and archives its version 1. Not repeatable: each call makes one.
 * @throws not_found (ai_provider_id), VALIDATION_FAILED, INVALID_OUTPUT_SCHEMA, FORCED_TOOL_CHOICE_CANNOT_STOP and the
 *   codes of unknown references
 */
export async function createAgent(projectId: string, input: Unchecked<AgentConfig>, by: Authorship): Promise<Agent> {
  const { output_schema: schema, tool_bindings: given, ...rest } = input;
  const output_schema = await checkedOutputSchema(schema);
  const opened = given == null ? null : await openBindings(given);
  return inTransaction(async (tx) => {
    const { bindings, fresh } = await storedBindings(projectId, { opened, live: null }, tx);
    const config: AgentConfig = { ...rest, output_schema, tool_bindings: bindings };
    const write = { given: config, result: config, unknownProvider: 'not_found' } as const;
    const aiProviderId = await assertReferences(projectId, write, tx);
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
    await storeCredentials(agent, fresh, tx);
    await archive(agent, { label: by.label, createdBy: by.userId, at: now }, tx);
    return agent;
  });
}

/**
 * Changes the given fields. Writes to one agent queue on its row, and each that changes something takes the next version;
 * one that changes nothing takes none, but a stale stated version is refused all the same. Repeatable.
 * @throws not_found (also ai_provider_id), VERSION_CONFLICT, VALIDATION_FAILED, INVALID_OUTPUT_SCHEMA,
 *   FORCED_TOOL_CHOICE_CANNOT_STOP and the codes of unknown references
 */
export async function updateAgent(
  target: WriteTarget,
  { output_schema: schema, tool_bindings: rebound, ...rest }: Unchecked<Partial<AgentConfig>>,
  by: Authorship,
): Promise<Agent> {
  // Before the transaction: compiling takes its time, and no connection waits for it.
  const checked: Partial<AgentConfig> =
    schema === undefined ? rest : { ...rest, output_schema: await checkedOutputSchema(schema) };
  const opened = rebound == null ? null : await openBindings(rebound);
  return inTransaction(async (tx) => {
    const agent = await lockedForWrite(target, tx);
    const live = agent.config.tool_bindings;
    const { bindings, fresh } = await storedBindings(target.projectId, { opened, live }, tx);
    const given = rebound === undefined ? checked : { ...checked, tool_bindings: bindings };
    const result = { ...agent.config, ...given };
    const aiProviderId = await assertReferences(target.projectId, { given, result, unknownProvider: 'not_found' }, tx);
    await storeCredentials(agent, fresh, tx);
    return writeConfig(agent, { config: result, aiProviderId }, by, tx);
  });
}

/**
 * Deletes an agent with its versions; one that ran only by force. The row is locked first: a generation that is being
 * accepted holds it, so it is either counted here or finds no agent. With force the agent is gone when this returns, and
 * a run cancels and removes what hangs from it. Repeating answers not_found.
 * Spec: Agents, delete. @throws not_found, AGENT_HAS_DEPENDENTS
 */
export async function deleteAgent(
  { projectId, agentId, force }: { projectId: string; agentId: string; force: boolean },
  by: { requestId: string; principalId: string },
): Promise<void> {
  const leftBehind = await inTransaction(async (tx) => {
    const agent = await Agent.findOne({ where: { projectId, id: agentId }, transaction: tx, lock: tx.LOCK.UPDATE });
    if (agent === null) throw notFound();
    const { generations, traces } = await dependentsOf(projectId, agentId, tx);
    const ran = generations + traces > 0;
    if (ran && !force) {
      throw new ApiError('AGENT_HAS_DEPENDENTS', 'The agent has generations or traces.', {
        meta: {
          generation_count: generations,
          trace_count: traces,
          accepted_share_count: 0,
          ingestion_rule_count: 0,
        },
      });
    }
    if (ran) await recordDeletion(deletionOf({ projectId, agentId }), tx);
    await agent.destroy({ transaction: tx });
    return ran;
  });
  await faultPoint('agent-deleted');
  if (leftBehind) await startAgentDeletion({ projectId, agentId }, by);
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
 * The configuration that serves a generation now, with the model that its provider has for agents that name none; null when
 * there is no such agent. Inside a transaction the agent is
 * held until it ends, so that it is not deleted while the generation is written.
 */
export async function servedAgent(
  projectId: string,
  agentId: string,
  tx?: Tx,
): Promise<{
  id: string;
  version: number;
  config: ServedConfig;
  defaultModel: string | null;
  /** Whether the project refuses models without a price. */
  needsPrice: boolean;
} | null> {
  if (!isId('agent', agentId)) return null;
  const lock = tx === undefined ? '' : ' for key share of a';
  return queryOne(
    `select a.id, a.version, a.config, p.default_model as "defaultModel", r.require_priced_model as "needsPrice"
     from agents a join projects r on r.id = a.project_id
     left join ai_providers p on p.project_id = a.project_id and p.id = a.config ->> 'ai_provider_id'
     where a.project_id = $1 and a.id = $2${lock}`,
    [projectId, agentId],
    tx,
  );
}

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
