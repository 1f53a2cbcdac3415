import {
  ApplicationFailure,
  ContinueAsNew,
  defaultPayloadConverter,
  proxySinks,
  workflowInfo,
} from '@temporalio/workflow';
import type { Headers, Next, WorkflowExecuteInput, WorkflowInboundCallsInterceptor } from '@temporalio/workflow';
import type { WorkflowInterceptors } from '@temporalio/workflow';
import { TRACE_HEADER } from './tracing.contract';
import type { RunSpan, RunSpanSinks } from './tracing.contract';

type Started = Pick<RunSpan, 'traceId' | 'spanId' | 'parentSpanId'>;

/**
 * Hands the trace that started a run on to its activities, below a span of the run. In the bundle that is loaded while traces
 * are written, and there alone. A run without a trace, as of a Schedule, stays without.
 *
 * Nothing in here waits or makes a promise of its own that the run sees: commands would come in another order, and open runs
 * that were begun without tracing could not go on with it.
 */
export const interceptors = (): WorkflowInterceptors => {
  const carried: Headers = {};
  const passing = <Input extends { headers: Headers }>(input: Input): Input => ({
    ...input,
    headers: { ...input.headers, ...carried },
  });
  return {
    inbound: [
      {
        execute: (input: WorkflowExecuteInput, next: Next<WorkflowInboundCallsInterceptor, 'execute'>) => {
          const trace = traceOf(input.headers);
          if (trace === null) return next(input);
          const traceparent = `00-${trace.traceId}-${trace.spanId}-${trace.flags}`;
          carried[TRACE_HEADER] = defaultPayloadConverter.toPayload({ traceparent });
          const ended = next(input);
          if (trace.flags === '01') reportEnd(trace, ended);
          return ended;
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(passing(input)),
        startChildWorkflowExecution: (input, next) => next(passing(input)),
        signalWorkflow: (input, next) => next(passing(input)),
        continueAsNew: (input, next) => next(passing(input)),
      },
    ],
  };
};

/** The trace that started the run; the run's own span has its id from the run's, the same in every replay. */
function traceOf(headers: Headers): (Started & { flags: string }) | null {
  const payload = headers[TRACE_HEADER];
  if (payload === undefined) return null;
  const { traceparent = '' } = defaultPayloadConverter.fromPayload<{ traceparent?: string }>(payload);
  const [, traceId, parentSpanId, flags] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? [];
  if (traceId === undefined || parentSpanId === undefined || flags === undefined) return null;
  return { traceId, parentSpanId, flags, spanId: workflowInfo().runId.replaceAll('-', '').slice(-16) };
}

function reportEnd({ traceId, spanId, parentSpanId }: Started, ended: Promise<unknown>): void {
  const report = (problem?: string): void => {
    proxySinks<RunSpanSinks>().runSpans.ended({
      traceId,
      spanId,
      parentSpanId,
      startedMs: workflowInfo().runStartTime.getTime(),
      endedMs: Date.now(),
      ...(problem === undefined ? {} : { problem }),
    });
  };
  ended.then(
    () => {
      report();
    },
    (error: unknown) => {
      report(error instanceof ContinueAsNew ? undefined : codeOf(error));
    },
  );
}

const codeOf = (error: unknown): string =>
  error instanceof ApplicationFailure && error.type != null ? error.type : 'error';
