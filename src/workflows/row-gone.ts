import { ActivityFailure, ApplicationFailure } from '@temporalio/workflow';

/** Whether an activity failed because the row that its run belongs to is gone: there is nothing left to do. */
export const isRowGone = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.cause instanceof ApplicationFailure && error.cause.type === 'ROW_GONE';
