import { AGENT_DELETION, agentDeletionId } from '../../workflows/agents.contract';
import type { AgentDeletionInput } from '../../workflows/agents.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock } from '../core/clock';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { errorFacts, log } from '../core/log';
import { startRun } from '../core/temporal';
import type { RunInput, RunMemo } from '../core/temporal';

/** An agent whose row is gone, and whose generations and traces are being removed. */
export interface AgentDeletion {
  projectId: string;
  agentId: string;
}

/** Writes down, with the end of the agent's row, that what hangs from it is to go. */
export async function recordDeletion({ projectId, agentId }: AgentDeletion, tx: Tx): Promise<void> {
  await query(
    `insert into deletions (id, project_id, kind, created_at) values ($1, $2, 'agent', $3)`,
    [agentId, projectId, clock.now()],
    tx,
  );
}

/** The project of a deletion that is not at its end, marked as seen by its run; null when it is. Safe to repeat. */
export async function openDeletion(agentId: string): Promise<string | null> {
  const row = await queryOne<{ project_id: string }>(
    `update deletions set run_seen_at = coalesce(run_seen_at, $2) where id = $1 and kind = 'agent' returning project_id`,
    [agentId, clock.now()],
  );
  return row?.project_id ?? null;
}

/** Ends a deletion: nothing is left of the agent. Safe to repeat. */
export async function closeDeletion(agentId: string): Promise<void> {
  await query(`delete from deletions where id = $1 and kind = 'agent'`, [agentId]);
}

const deletionRun = ({ projectId, agentId }: AgentDeletion, memo: RunMemo): RunInput => {
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
export async function startAgentDeletion(
  deletion: AgentDeletion,
  by: { requestId: string; principalId: string },
): Promise<void> {
  try {
    await startRun(deletionRun(deletion, { ...by, trigger: 'api' }));
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', agent_id: deletion.agentId, ...errorFacts(error) });
  }
}

const rowsOf = async (sql: string, bind: unknown[]): Promise<{ id: string; run: RunInput }[]> => {
  const rows = await query<{ id: string; project_id: string }>(sql, bind);
  return rows.map(({ id, project_id: projectId }) => ({
    id,
    run: { ...deletionRun({ projectId, agentId: id }, { trigger: 'sweep' }), mayRepeat: true },
  }));
};

/** How the sweeps find deletions of agents whose start was lost, and those without an open run. */
export const agentDeletionSweep: SweepKind = {
  name: 'agent_deletions',
  workflowType: AGENT_DELETION,
  endsByItself: true,
  unseen: async (olderThan, limit) => {
    const found = await rowsOf(
      `select id, project_id from deletions where kind = 'agent' and run_seen_at is null and created_at < $1
       order by created_at limit $2`,
      [olderThan, limit],
    );
    return found.map(({ run }) => run);
  },
  unsettled: (afterId, limit) =>
    rowsOf(`select id, project_id from deletions where kind = 'agent' and id > $1 order by id limit $2`, [
      afterId ?? '',
      limit,
    ]),
};
