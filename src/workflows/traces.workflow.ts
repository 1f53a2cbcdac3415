import {
  ApplicationFailure,
  CancellationScope,
  allHandlersFinished,
  condition,
  defineUpdate,
  proxyActivities,
  setHandler,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import { batch } from './options';
import { AWAIT_END } from './traces.contract';
import type { PurgePiece, TracePurgeInput } from './traces.contract';

const { purgeTraces } = proxyActivities<Activities>(batch);

export const awaitEnd = defineUpdate<undefined>(AWAIT_END);

/** Removes the content of a trace and of those below it, piece by piece; who waits is told when nothing is left, or why not. */
export async function tracePurge({ projectId, traceId, by }: TracePurgeInput): Promise<{ purged: number }> {
  const progress = { over: false, refused: false, purged: 0 };
  setHandler(awaitEnd, async () => {
    // A waiter outlives the cancellation of the run, and reads the rows.
    await CancellationScope.nonCancellable(() => condition(() => progress.over));
    if (progress.refused) throw ApplicationFailure.nonRetryable('GENERATION_IN_PROGRESS', 'GENERATION_IN_PROGRESS');
    return undefined;
  });
  try {
    for (let done = false; !done;) {
      const piece: PurgePiece = await purgeTraces({ projectId, traceIds: [traceId], by });
      progress.purged += piece.purged;
      progress.refused = piece.refused;
      done = piece.done;
    }
  } finally {
    progress.over = true;
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
  }
  return { purged: progress.purged };
}
