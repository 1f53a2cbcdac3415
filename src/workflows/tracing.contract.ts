/** The span of one run, as the sandbox hands it out: ids and times only. */
export interface RunSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  /** Unix milliseconds, by the clock of the run. */
  startedMs: number;
  endedMs: number;
  /** The code with which the run failed. */
  problem?: string;
}

/** What workflows may tell the worker about: nothing while it replays. */
export type RunSpanSinks = { runSpans: { ended: (span: RunSpan) => void } };

/** The header of the library whose interceptors begin and end the trace, in the client of the engine and at activities. */
export const TRACE_HEADER = '_tracer-data';
