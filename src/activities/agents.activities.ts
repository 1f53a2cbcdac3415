import { closeDeletion, openDeletion } from '../api/agents/deletion';
import type { AgentDeletion } from '../api/agents/deletion';
import { openGenerations, removeGenerations, removeTraces } from '../api/agents/removal';
import { ApiError } from '../api/core/errors';
import { faultPoint } from '../api/core/faults';
import { errorFacts, log } from '../api/core/log';
import { cancelGeneration } from '../api/generations/outputs';
import type { DeleteBatchInput, DeleteBatchResult } from '../workflows/agents.contract';
import { retryIn, rowGone } from './failures';
import { withHeartbeats } from './heartbeats';

/** Rows of one transaction: each generation takes its content along. */
const ROWS_A_PAGE = 100;
/** Pages of one batch; then the engine notes how far it came. */
const PAGES_A_BATCH = 10;
const CANCELS_AT_ONCE = 10;
const CANCEL_RETRY_MS = 1_000;

/** Activities of agents. */
export const agentActivities = () => ({
  /**
   * Does the next piece of a deletion: while runs are open it cancels them, then it removes generations, then traces, and
   * at the end the deletion's own row. The rows say where it stands, so it is safe to repeat.
   * Spec: Agents, delete; Engine, `agentDeletion`.
   */
  deleteBatch: ({ id: agentId }: DeleteBatchInput): Promise<DeleteBatchResult> =>
    withHeartbeats(async ({ signal }) => {
      const projectId = await openDeletion(agentId);
      if (projectId === null) throw rowGone();
      const deletion = { projectId, agentId };
      await cancelAll(deletion, signal);
      return removeBatch(deletion, signal);
    }),
});

/** Cancels every open run of the agent; throws for another try while some do not end. No new ones can begin. */
async function cancelAll(deletion: AgentDeletion, signal: AbortSignal): Promise<void> {
  for (;;) {
    const open = await openGenerations(deletion, CANCELS_AT_ONCE);
    if (open.length === 0) return;
    if (signal.aborted) throw retryIn(CANCEL_RETRY_MS, 'service_unavailable');
    const ended = await Promise.all(open.map((id) => cancelled(deletion.projectId, id)));
    await faultPoint('deletion-cancelled');
    if (ended.includes(false)) throw retryIn(CANCEL_RETRY_MS, 'service_unavailable');
  }
}

/** Cancels a run as its own route does; false when nobody took the cancellation in time. A settled run is as good. */
async function cancelled(projectId: string, generationId: string): Promise<boolean> {
  try {
    await cancelGeneration(projectId, generationId);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === 'GENERATION_ALREADY_SETTLED' || error.code === 'not_found') return true;
    log.warn({ msg: 'run not cancelled yet', generation_id: generationId, ...errorFacts(error) });
    return false;
  }
}

async function removeBatch(deletion: AgentDeletion, signal: AbortSignal): Promise<DeleteBatchResult> {
  const done = { generations: 0, traces: 0 };
  for (let page = 0; page < PAGES_A_BATCH && !signal.aborted; page += 1) {
    const generations = await removeGenerations(deletion, ROWS_A_PAGE);
    const traces = generations > 0 ? 0 : await removeTraces(deletion, ROWS_A_PAGE);
    done.generations += generations;
    done.traces += traces;
    await faultPoint('deletion-page');
    if (generations + traces > 0) continue;
    await closeDeletion(deletion.agentId);
    return { ...done, more: false };
  }
  return { ...done, more: true };
}
