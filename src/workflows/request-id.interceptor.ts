import { defaultPayloadConverter, workflowInfo } from '@temporalio/workflow';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { REQUEST_ID_HEADER } from './request-id.contract';

/**
 * Hands the request id of a run's memo on to its activities, so that their log lines carry it. A run that no request started
 * has none. The memo is not there yet when this is called, only when an activity is scheduled. Headers are no part of what a
 * replay compares.
 */
export const interceptors = (): WorkflowInterceptors => ({
  outbound: [
    {
      scheduleActivity: (input, next) => {
        const requestId = workflowInfo().memo?.requestId;
        if (typeof requestId !== 'string') return next(input);
        const payload = defaultPayloadConverter.toPayload(requestId);
        return next({ ...input, headers: { ...input.headers, [REQUEST_ID_HEADER]: payload } });
      },
    },
  ],
});
