import { AWAIT_REST, GENERATION } from '../../workflows/generations.contract';
import type { GenerationInput, RestInput } from '../../workflows/generations.contract';
import { shifted } from '../core/clock';
import { config } from '../core/config';
import { query } from '../core/db';
import { log, errorFacts } from '../core/log';
import { startRun, updateWithStart } from '../core/temporal';
import type { RunInput, UpdateOutcome, Wait } from '../core/temporal';
import type { ContentMode } from './sealing';

/** What a run is started from: facts of its row. */
export interface RunFacts {
  id: string;
  projectId: string;
  agentId: string;
  requestId: string | null;
  startedByPrincipalId: string | null;
  contentMode: ContentMode;
}

/** How long a run under zero retention keeps its answer for a caller that waits. */
const SCRATCH_MS = 60_000;

/** The run of a generation: workflow id = the generation's id. */
export function generationRun(row: RunFacts, trigger: 'api' | 'sweep', streamQueue?: string): RunInput {
  const input: GenerationInput = {
    generationId: row.id,
    heartbeatMs: config().CALL_HEARTBEAT_SECONDS * 1000,
    ...(streamQueue === undefined ? {} : { streamQueue }),
    ...(row.contentMode === 'full' ? {} : { scratchMs: SCRATCH_MS }),
  };
  return {
    type: GENERATION,
    id: row.id,
    args: [input],
    labels: { resourceType: 'generation', resourceId: row.id, projectId: row.projectId, agentId: row.agentId },
    memo: { requestId: row.requestId ?? undefined, principalId: row.startedByPrincipalId, trigger },
  };
}

/**
 * Starts the run of a committed row. A start that fails or is unknown is not an error: the row is accepted, and the sweep
 * starts it; then false. With a queue the run asks there for its model steps.
 */
export async function startGenerationRun(row: RunFacts, streamQueue?: string): Promise<boolean> {
  try {
    await startRun(generationRun(row, 'api', streamQueue));
    return true;
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', generation_id: row.id, ...errorFacts(error) });
    return false;
  }
}

/** Starts the run (a repeat finds the open one) and waits until it rests: settled, or paused again after `afterPause`. */
export async function awaitGenerationRest(
  row: RunFacts,
  afterPause: number,
  wait: Wait,
): Promise<UpdateOutcome | 'unknown'> {
  const rest: RestInput = { afterPause };
  try {
    return await updateWithStart(generationRun(row, 'api'), AWAIT_REST, [rest], wait);
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', generation_id: row.id, ...errorFacts(error) });
    return 'unknown';
  }
}

interface FactsRow {
  id: string;
  project_id: string;
  agent_id: string;
  request_id: string | null;
  started_by_principal_id: string | null;
  content_mode: ContentMode;
}

const FACTS = 'id, project_id, agent_id, request_id, started_by_principal_id, content_mode';

const repairOf = (row: FactsRow): RunInput => ({
  ...generationRun(
    {
      id: row.id,
      projectId: row.project_id,
      agentId: row.agent_id,
      requestId: row.request_id,
      startedByPrincipalId: row.started_by_principal_id,
      contentMode: row.content_mode,
    },
    'sweep',
  ),
  mayRepeat: true,
});

/** How the sweeps find generations whose start was lost, and those without an open run. */
export const generationSweep = {
  name: 'generations',
  workflowType: GENERATION,
  /**
   * Unsettled rows older than `olderThan` that no run has seen, and settled ones under zero retention whose content is
   * past its time: the run that was to remove it is lost.
   */
  unseen: async (olderThan: Date, limit: number): Promise<RunInput[]> => {
    const rows = await query<FactsRow>(
      `(select ${FACTS} from generations where run_seen_at is null and status in ('in_progress', 'requires_action')
         and created_at < $1 order by created_at limit $2)
       union all
       (select ${FACTS} from generations where status in ('completed', 'failed') and completed_at < $3
         and id in (select generation_id from generation_contents where key_id is not null) limit $2)`,
      [olderThan, limit, shifted(olderThan, -SCRATCH_MS)],
    );
    return rows.map(repairOf);
  },
  /** A page of unsettled rows in the order of their ids. */
  unsettled: async (
    afterId: string | null,
    limit: number,
  ): Promise<{ id: string; run: RunInput; moving: boolean }[]> => {
    const rows = await query<FactsRow & { moving: boolean }>(
      `select ${FACTS}, status = 'in_progress' as moving from generations where status in ('in_progress', 'requires_action') and id > $1 order by id limit $2`,
      [afterId ?? '', limit],
    );
    return rows.map((row) => ({ id: row.id, run: repairOf(row), moving: row.moving }));
  },
};
