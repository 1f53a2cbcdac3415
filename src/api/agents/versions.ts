import type { Tx } from '../core/db';
import { notFound } from '../core/errors';
import { newId } from '../core/ids';
import { AgentVersion } from './models';
import type { Agent } from './models';

const VERSION_MAX = 2_147_483_647;

/**
 * Archives the live configuration of an agent under its live number, in the transaction that wrote it. Each number is
 * archived once; an archived version is never rewritten.
 */
export async function archive(
  agent: Agent,
  { label, createdBy, at }: { label: string | null; createdBy: string | null; at: Date },
  tx: Tx,
): Promise<void> {
  await AgentVersion.create(
    {
      id: newId('agentVersion'),
      projectId: agent.projectId,
      agentId: agent.id,
      version: agent.version,
      config: agent.config,
      label,
      createdBy,
      createdAt: at,
    },
    { transaction: tx },
  );
}

/** A page of an agent's versions, the highest number first. @throws not_found when there is no such agent */
export async function listVersions(
  projectId: string,
  agentId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ rows: AgentVersion[]; total: number; limit: number; offset: number }> {
  const where = { projectId, agentId };
  // By number and not by time: two writes of one millisecond have one time.
  const { rows, count } = await AgentVersion.findAndCountAll({ where, order: [['version', 'DESC']], limit, offset });
  // Every agent has a version, so none at all means that there is no agent.
  if (count === 0) throw notFound();
  return { rows, total: count, limit, offset };
}

/** One version of an agent. @throws not_found */
export async function getVersion(projectId: string, agentId: string, version: number, tx?: Tx): Promise<AgentVersion> {
  const where = { projectId, agentId, version };
  const options = tx === undefined ? { where } : { where, transaction: tx };
  const row = version > VERSION_MAX ? null : await AgentVersion.findOne(options);
  if (row === null) throw notFound();
  return row;
}
