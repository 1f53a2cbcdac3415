import { ApplicationFailure } from '@temporalio/common';

/** Code of an activity whose own row is gone; never seen by a caller. */
export const ROW_GONE = 'ROW_GONE';

/** The activity's row does not exist any more: the workflow ends. */
export const rowGone = (): ApplicationFailure =>
  ApplicationFailure.create({ type: ROW_GONE, message: ROW_GONE, nonRetryable: true });

/** Try again after that wait; the armed timer of the engine is this very number. */
export const retryIn = (waitMs: number, code = 'RETRY'): ApplicationFailure =>
  ApplicationFailure.create({ type: code, message: code, nextRetryDelay: Math.max(1, Math.round(waitMs)) });
