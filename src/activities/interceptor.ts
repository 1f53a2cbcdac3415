import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { CompleteAsyncError } from '@temporalio/activity';
import type { ActivityExecuteInput, ActivityInboundCallsInterceptor, Next } from '@temporalio/worker';
import { ApiError } from '../api/core/errors';
import { errorFacts, log } from '../api/core/log';

/**
 * Error texts are content: what crosses into the engine on failure is a catalog code and ids. Every thrown error becomes
 * an ApplicationFailure whose type and message are its code; retryability and delay are kept, the text is not.
 */
export class CodesOnly implements ActivityInboundCallsInterceptor {
  async execute(input: ActivityExecuteInput, next: Next<ActivityInboundCallsInterceptor, 'execute'>): Promise<unknown> {
    try {
      return await next(input);
    } catch (error) {
      if (error instanceof CancelledFailure || error instanceof CompleteAsyncError) throw error;
      const failure = codeOnly(error);
      failure.stack = ''; // It would name this machine's files in every history.
      throw failure;
    }
  }
}

function codeOnly(error: unknown): ApplicationFailure {
  if (error instanceof ApplicationFailure) {
    const code = error.type ?? 'internal_error';
    return ApplicationFailure.create({
      type: code,
      message: code,
      nonRetryable: error.nonRetryable === true,
      ...(error.nextRetryDelay == null ? {} : { nextRetryDelay: error.nextRetryDelay }),
    });
  }
  if (error instanceof ApiError) {
    return ApplicationFailure.create({ type: error.code, message: error.code, nonRetryable: true });
  }
  log.warn({ msg: 'activity failed', ...errorFacts(error) });
  return ApplicationFailure.create({ type: 'internal_error', message: 'internal_error' });
}
