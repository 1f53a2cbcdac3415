import {
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  context,
  isSpanContextValid,
  propagation,
  ROOT_CONTEXT,
  trace,
} from '@opentelemetry/api';
import type { Span, Tracer } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import type { Resource } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace-base';
import {
  OpenTelemetryActivityInboundInterceptor,
  OpenTelemetryWorkflowClientInterceptor,
} from '@temporalio/interceptors-opentelemetry-v2';
import type { ActivityInterceptorsFactory, InjectedSinks } from '@temporalio/worker';
import type { WorkflowInfo } from '@temporalio/workflow';
import { useTracing } from './api/core/tracing';
import type { OpenSpan, SpanFacts, SpanOptions } from './api/core/tracing';
import type { RunSpan, RunSpanSinks } from './workflows/tracing.contract';

/** What a worker is given beside its activities while traces are written. */
export interface WorkerTracing {
  activityInterceptors: ActivityInterceptorsFactory[];
  sinks: InjectedSinks<RunSpanSinks>;
}

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;
const CODE = /^[A-Za-z0-9_]{1,64}$/;

let current: { worker: WorkerTracing; provider: BasicTracerProvider } | undefined;

/** What the workers of this process are given; undefined without tracing. */
export const workerTracing = (): WorkerTracing | undefined => current?.worker;

/** Hands spans on without what may hold texts: the events that libraries make of errors, and messages that are no codes. */
class WithoutTexts implements SpanProcessor {
  constructor(private readonly next: SpanProcessor) {}

  onStart(...given: Parameters<SpanProcessor['onStart']>): void {
    this.next.onStart(...given);
  }

  onEnd(span: ReadableSpan): void {
    const { code, message } = span.status;
    const status = message === undefined || !CODE.test(message) ? { code } : { code, message };
    // Over the span itself, whose other fields are read through.
    const told = Object.create(span, { events: { value: [] }, status: { value: status } }) as ReadableSpan;
    this.next.onEnd(told);
  }

  forceFlush(): Promise<void> {
    return this.next.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.next.shutdown();
  }
}

class OtelSpan implements OpenSpan {
  constructor(private readonly span: Span) {}

  set(facts: SpanFacts): void {
    this.span.setAttributes(facts);
  }

  rename(name: string): void {
    this.span.updateName(name);
  }

  end(problem?: string): void {
    if (problem !== undefined) {
      this.span.setAttribute('error.type', problem);
      this.span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.span.end();
  }

  run<T>(fn: () => T): T {
    return context.with(trace.setSpan(context.active(), this.span), fn);
  }

  logFacts(): Record<string, string> {
    return idsOf(this.span);
  }
}

function idsOf(span: Span | undefined): Record<string, string> {
  const ids = span?.spanContext();
  return ids === undefined || !isSpanContextValid(ids) ? {} : { trace_id: ids.traceId, span_id: ids.spanId };
}

function open(tracer: Tracer, name: string, { kind, facts, traceparent }: SpanOptions): OpenSpan {
  // Of what a caller sends its ids alone are taken: other fields of the standard may say anything.
  const parent =
    kind === 'server'
      ? propagation.extract(ROOT_CONTEXT, traceparent === undefined ? {} : { traceparent })
      : context.active();
  return new OtelSpan(tracer.startSpan(name, { kind: KINDS[kind], attributes: facts ?? {} }, parent));
}

/** Milliseconds as OpenTelemetry has its times. */
const timeOf = (ms: number): [number, number] => [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)];

/** Writes the span of a run, which the sandbox cannot: its ids are the run's own. */
function workflowSinks(processor: SpanProcessor, resource: Resource): InjectedSinks<RunSpanSinks> {
  const ended = ({ workflowId, runId, workflowType }: WorkflowInfo, span: RunSpan): void => {
    const { traceId, spanId, parentSpanId, startedMs, endedMs, problem } = span;
    const ids = { traceId, traceFlags: TraceFlags.SAMPLED };
    processor.onEnd({
      name: `RunWorkflow:${workflowType}`,
      kind: SpanKind.INTERNAL,
      spanContext: () => ({ ...ids, spanId }),
      parentSpanContext: { ...ids, spanId: parentSpanId, isRemote: true },
      startTime: timeOf(startedMs),
      endTime: timeOf(endedMs),
      duration: timeOf(endedMs - startedMs),
      status: { code: problem === undefined ? SpanStatusCode.UNSET : SpanStatusCode.ERROR },
      attributes: {
        temporalWorkflowId: workflowId,
        run_id: runId,
        ...(problem === undefined ? {} : { 'error.type': problem }),
      },
      links: [],
      events: [],
      ended: true,
      resource,
      instrumentationScope: { name: 'svc' },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    });
  };
  return { runSpans: { ended: { fn: ended } } };
}

/**
 * Begins to write spans to the receiver that OpenTelemetry's own variables name, before the engine is connected to.
 * @param serviceName of this process, where `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` say nothing
 */
export function startTraces(serviceName: string): void {
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': serviceName }))
    .merge(detectResources({ detectors: [envDetector] }));
  const processor = new WithoutTexts(new BatchSpanProcessor(new OTLPTraceExporter()));
  const provider = new BasicTracerProvider({ resource, spanProcessors: [processor] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  const tracer = provider.getTracer('svc');
  const worker: WorkerTracing = {
    activityInterceptors: [(activity) => ({ inbound: new OpenTelemetryActivityInboundInterceptor(activity) })],
    sinks: workflowSinks(processor, resource),
  };
  current = { worker, provider };
  useTracing({
    open: (name, options) => open(tracer, name, options),
    active: () => idsOf(trace.getActiveSpan()),
    clientInterceptors: [new OpenTelemetryWorkflowClientInterceptor()],
  });
}

/** Sends what is left and writes no more. */
export async function stopTraces(): Promise<void> {
  const ending = current;
  current = undefined;
  useTracing(undefined);
  trace.disable();
  context.disable();
  propagation.disable();
  await ending?.provider.shutdown().catch(() => undefined); // A receiver that is gone does not keep a process from ending.
}

/** Sends what has been written so far. */
export const flushTraces = async (): Promise<void> => current?.provider.forceFlush();
