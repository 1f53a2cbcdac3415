import { inTransaction } from '../core/db';
import type { Agent } from './models';
import { assertReferences } from './references';
import { CONFIG_DEFAULTS } from './schemas';
import { getVersion } from './versions';
import { isSameConfig, lockedForWrite, writeConfig } from './writes';
import type { WriteTarget } from './writes';

/**
 * Makes an archived configuration the live one again, as a new and higher version; fields that the archive did not set
 * are cleared. Restoring what is live changes nothing, whatever became of what it names. Repeatable.
 * @param label of the new version; absent = `restored from v<n>`
 * Spec: Agents, versions.
 * @throws not_found, VERSION_CONFLICT, VALIDATION_FAILED, FORCED_TOOL_CHOICE_CANNOT_STOP and the codes of references that
 *   are gone, AI_PROVIDER_NOT_FOUND among them
 */
export async function restoreVersion(
  target: WriteTarget,
  version: number,
  by: { userId: string; label: string | null | undefined },
): Promise<Agent> {
  return inTransaction(async (tx) => {
    // First: a version that is not there is told before a stale stated one. What is archived is never rewritten.
    const archived = await getVersion(target.projectId, target.agentId, version, tx);
    const agent = await lockedForWrite(target, tx);
    const config = { ...CONFIG_DEFAULTS, ...archived.config };
    if (isSameConfig(config, { ...CONFIG_DEFAULTS, ...agent.config })) return agent;
    const write = { given: config, result: config, unknownProvider: 'AI_PROVIDER_NOT_FOUND' } as const;
    const aiProviderId = await assertReferences(target.projectId, write, tx);
    const label = by.label === undefined ? `restored from v${String(version)}` : by.label;
    return writeConfig(agent, { config, aiProviderId }, { userId: by.userId, label }, tx);
  });
}
