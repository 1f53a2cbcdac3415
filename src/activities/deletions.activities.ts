import { deletionOf } from '../api/agents/deletion';
import { openGenerations, removeGenerations, removeTraces } from '../api/agents/removal';
import { ApiError } from '../api/core/errors';
import { faultPoint } from '../api/core/faults';
import { errorFacts, log } from '../api/core/log';
import { cancelRun, openRunsOf } from '../api/core/temporal';
import { cancelGeneration } from '../api/generations/outputs';
import { closeDeletion, openDeletion } from '../api/projects/deletions';
import { openGenerationsOf, removeProject, removeRows, removeSources } from '../api/projects/removal';
import type { DeleteBatchInput, DeleteBatchResult } from '../workflows/deletions.contract';
import { projectDeletionId } from '../workflows/projects.contract';
import { retryIn, rowGone } from './failures';
import { withHeartbeats } from './heartbeats';

/** Rows of one transaction: each generation takes its content along. */
const ROWS_A_PAGE = 100;
/** Pages of one batch; then the engine notes how far it came. */
const PAGES_A_BATCH = 10;
const CANCELS_AT_ONCE = 10;
const CANCEL_RETRY_MS = 1_000;
/** Runs of a project that are cancelled before the next look. */
const RUNS_A_PAGE = 100;

/** Activities that remove what hangs from an agent or a project that was deleted. */
export const deletionActivities = () => ({
  /**
   * Does the next piece of a deletion: while runs are open it cancels them, then it removes rows, and at the end the deletion's
   * own row. The rows say where it stands, so it is safe to repeat.
   * Spec: Agents, delete; Projects, delete; Engine, `agentDeletion`, `projectDeletion`.
   */
  deleteBatch: (what: DeleteBatchInput): Promise<DeleteBatchResult> =>
    withHeartbeats(async ({ signal }) => {
      const projectId = await openDeletion(what);
      if (projectId === null) throw rowGone();
      return what.kind === 'agent' ? agentBatch(what.id, projectId, signal) : projectBatch(projectId, signal);
    }),
});

async function agentBatch(agentId: string, projectId: string, signal: AbortSignal): Promise<DeleteBatchResult> {
  const deletion = { projectId, agentId };
  await cancelAll(projectId, (limit) => openGenerations(deletion, limit), signal);
  const done = { generations: 0, traces: 0 };
  for (let page = 0; page < PAGES_A_BATCH && !signal.aborted; page += 1) {
    const generations = await removeGenerations(deletion, ROWS_A_PAGE);
    const traces = generations > 0 ? 0 : await removeTraces(deletion, ROWS_A_PAGE);
    done.generations += generations;
    done.traces += traces;
    await faultPoint('deletion-page');
    if (generations + traces > 0) continue;
    await closeDeletion(deletionOf(deletion));
    return { ...done, more: false };
  }
  return { ...done, more: true };
}

/**
 * Agents go first, so that no new run is accepted and the open ones come to an end. What a request that was admitted before
 * wrote after this batch looked is found by the next one, or holds up the end: the project's row goes only when nothing is left.
 */
async function projectBatch(projectId: string, signal: AbortSignal): Promise<DeleteBatchResult> {
  const done = { generations: 0, traces: 0, rows: 0 };
  for (let page = 0; page < PAGES_A_BATCH && !signal.aborted; page += 1) {
    const sources = await removeSources(projectId);
    if (sources === null) await cancelAll(projectId, (limit) => openGenerationsOf(projectId, limit), signal);
    const gone = sources ?? (await removeRows(projectId));
    await faultPoint('deletion-page');
    if (gone !== null) {
      done[gone.counts] += gone.removed;
      continue;
    }
    await cancelOthers(projectId);
    if (await removeProject(projectId)) return { ...done, more: false };
  }
  return { ...done, more: true };
}

/** Cancels every open run; throws for another try while some do not end. No new ones can begin. */
async function cancelAll(
  projectId: string,
  openOnes: (limit: number) => Promise<string[]>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const open = await openOnes(CANCELS_AT_ONCE);
    if (open.length === 0) return;
    if (signal.aborted) throw retryIn(CANCEL_RETRY_MS, 'service_unavailable');
    const ended = await Promise.all(open.map((id) => cancelled(projectId, id)));
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

/**
 * Cancels what else runs in a project whose rows are gone: deliveries that wait for their next attempt, purges, deletions of
 * agents. They would end by themselves, but later; throws for another look until none is open.
 */
async function cancelOthers(projectId: string): Promise<void> {
  const open = await openRunsOf(projectId, RUNS_A_PAGE);
  const others = open.filter((id) => id !== projectDeletionId(projectId));
  if (others.length === 0) return;
  const ended: boolean[] = [];
  for (let at = 0; at < others.length; at += CANCELS_AT_ONCE) {
    ended.push(...(await Promise.all(others.slice(at, at + CANCELS_AT_ONCE).map(cancelRun))));
  }
  // One that has ended, which the list does not know yet, cannot be cancelled any more.
  if (ended.includes(true)) throw retryIn(CANCEL_RETRY_MS, 'service_unavailable');
}
