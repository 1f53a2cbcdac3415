import { ApplicationFailure, CancelledFailure, defaultPayloadConverter } from '@temporalio/common';
import { CompleteAsyncError, activityInfo } from '@temporalio/activity';
import type { ActivityExecuteInput, ActivityInboundCallsInterceptor, Next } from '@temporalio/worker';
import { ApiError } from '../api/core/errors';
import { clock } from '../api/core/clock';
import { errorFacts, log } from '../api/core/log';
import { withLogFacts } from '../api/core/log-context';
import type { LogFacts } from '../api/core/log-context';
import { observe } from '../api/core/metrics';
import { REQUEST_ID_HEADER } from '../workflows/request-id.contract';

/** Takes down how long an activity waited for its worker, and gives its log lines the ids of request, run and activity. */
export class Labelled implements ActivityInboundCallsInterceptor {
  async execute(input: ActivityExecuteInput, next: Next<ActivityInboundCallsInterceptor, 'execute'>): Promise<unknown> {
    const { taskQueue, currentAttemptScheduledTimestampMs } = activityInfo();
    // The queue of an API process is named after it: to a metric all of them are one.
    const queue = taskQueue.startsWith('api-') ? 'api' : taskQueue;
    observe('queueSeconds', { queue }, (clock.ms() - currentAttemptScheduledTimestampMs) / 1000);
    return withLogFacts(factsOf(input), () => next(input));
  }
}

function factsOf({ headers }: ActivityExecuteInput): LogFacts {
  const { workflowExecution, activityType } = activityInfo();
  const payload = headers[REQUEST_ID_HEADER];
  const requestId = payload === undefined ? undefined : defaultPayloadConverter.fromPayload(payload);
  return {
    ...(typeof requestId === 'string' ? { request_id: requestId } : {}),
    ...(workflowExecution === undefined
      ? {}
      : { workflow_id: workflowExecution.workflowId, run_id: workflowExecution.runId }),
    activity: activityType,
  };
}

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
