import type { WorkflowClientInterceptor } from '@temporalio/client';
import { readTraceBy } from './log-context';

/** Ids, codes, counts and names of the semantic conventions: never content, a header, or a URL. */
export type SpanFacts = Record<string, string | number>;

export interface SpanOptions {
  kind: 'server' | 'client' | 'internal';
  facts?: SpanFacts;
  /** A caller's `traceparent`, for the span of a request. */
  traceparent?: string | undefined;
}

/** A span under way. */
export interface OpenSpan {
  set: (facts: SpanFacts) => void;
  rename: (name: string) => void;
  /** Ends it; `problem` is the code of what went wrong. Later calls change nothing. */
  end: (problem?: string) => void;
  /** Runs `fn`: spans that it begins are below this one. */
  run: <T>(fn: () => T) => T;
  /** For log lines that are written outside of `run`. */
  logFacts: () => Record<string, string>;
}

/** What writes spans; set at start where a receiver is named, and never otherwise. */
export interface Tracing {
  open: (name: string, options: SpanOptions) => OpenSpan;
  active: () => Record<string, string>;
  /** Carries the trace to the workflows that are started and told. */
  clientInterceptors: WorkflowClientInterceptor[];
}

const NO_SPAN: OpenSpan = {
  set: () => undefined,
  rename: () => undefined,
  end: () => undefined,
  run: (fn) => fn(),
  logFacts: () => ({}),
};

let current: Tracing | undefined;

/** Turns tracing on, before the first request and the first connection to the engine; undefined turns it off. */
export function useTracing(tracing: Tracing | undefined): void {
  current = tracing;
  readTraceBy(tracing === undefined ? () => ({}) : () => tracing.active());
}

/** Begins a span; without tracing it is one that does nothing. */
export const openSpan = (name: string, options: SpanOptions): OpenSpan => current?.open(name, options) ?? NO_SPAN;

/** Runs `fn` in a span that ends with it; an error marks the span with its class, never with its text. */
export async function inSpan<T>(name: string, options: SpanOptions, fn: (span: OpenSpan) => Promise<T>): Promise<T> {
  if (current === undefined) return fn(NO_SPAN);
  const span = current.open(name, options);
  try {
    const result = await span.run(() => fn(span));
    span.end();
    return result;
  } catch (error) {
    span.end(error instanceof Error ? error.name : 'error');
    throw error;
  }
}

/** What the engine's client is given; nothing without tracing. */
export const clientInterceptors = (): WorkflowClientInterceptor[] => current?.clientInterceptors ?? [];
