import type { Counter, Histogram, Meter } from '@opentelemetry/api';

/** Seconds: of what takes milliseconds to seconds, and of what waits for a model or a queue. */
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LONG = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

interface Definition {
  name: string;
  type: 'counter' | 'gauge' | 'histogram';
  /** Few values each: never an id, an address, a name that a tenant chose. */
  labels: readonly string[];
  help: string;
  /** Upper bounds of a histogram, in seconds. */
  buckets?: readonly number[];
}

/** Every metric of the service, and the only place where one is named. `docs/metrics.md` says what each is for. */
export const METRICS = {
  runsAccepted: {
    name: 'svc_runs_accepted_total',
    type: 'counter',
    labels: ['resource'],
    help: 'Runs whose row was committed.',
  },
  runsSettled: {
    name: 'svc_runs_settled_total',
    type: 'counter',
    labels: ['resource', 'status', 'reason'],
    help: 'Runs that were settled, by status and stop reason, of failed ones by error code.',
  },
  runsPaused: {
    name: 'svc_runs_paused_total',
    type: 'counter',
    labels: ['resource'],
    help: 'Pauses that were committed.',
  },
  stepSeconds: {
    name: 'svc_model_step_duration_seconds',
    type: 'histogram',
    labels: ['vendor', 'outcome'],
    help: 'Model steps from the call of the provider to the stored answer, or to its failure.',
    buckets: LONG,
  },
  toolSeconds: {
    name: 'svc_tool_call_duration_seconds',
    type: 'histogram',
    labels: ['type', 'outcome'],
    help: 'Tool calls of every origin; the steps of a pipeline count beside the pipeline.',
    buckets: LONG,
  },
  queueSeconds: {
    name: 'svc_activity_queue_seconds',
    type: 'histogram',
    labels: ['queue'],
    help: 'Wait of an activity from the time it was due to its start on a worker.',
    buckets: SHORT,
  },
  deliveryLag: {
    name: 'svc_delivery_lag_seconds',
    type: 'histogram',
    labels: [],
    help: 'From the commit of a delivery to its first attempt that was counted.',
    buckets: LONG,
  },
  deliveryAttempts: {
    name: 'svc_delivery_attempts_total',
    type: 'counter',
    labels: ['outcome', 'try'],
    help: 'Attempts of webhook deliveries, the first of a delivery and those after it.',
  },
  sweepRepairs: {
    name: 'svc_sweep_repairs_total',
    type: 'counter',
    labels: ['kind', 'action'],
    help: 'Runs that a sweep started, or told that their row had changed.',
  },
  sweepRemoved: {
    name: 'svc_sweep_removed_rows_total',
    type: 'counter',
    labels: ['table'],
    help: 'Rows, or pieces of content, that were past their time.',
  },
  httpSeconds: {
    name: 'svc_http_request_duration_seconds',
    type: 'histogram',
    labels: ['method', 'route', 'status'],
    help: 'Requests to the API until their answer was out, waits and streams included.',
    buckets: LONG,
  },
  programSeconds: {
    name: 'svc_tenant_program_duration_seconds',
    type: 'histogram',
    labels: ['program', 'outcome'],
    help: 'Programs of tenants, the wait for a thread included.',
    buckets: SHORT,
  },
  openStreams: { name: 'svc_open_streams', type: 'gauge', labels: [], help: 'Answers that are streamed now.' },
  databaseConnections: {
    name: 'svc_database_connections',
    type: 'gauge',
    labels: ['state'],
    help: 'Connections of the pool, in use or idle.',
  },
  databaseConnectionsMax: {
    name: 'svc_database_connections_max',
    type: 'gauge',
    labels: [],
    help: 'Connections that the pool may hold.',
  },
  databaseWaiting: {
    name: 'svc_database_waiting',
    type: 'gauge',
    labels: [],
    help: 'Statements and transactions that wait for a connection.',
  },
  eventLoopDelay: {
    name: 'svc_event_loop_delay_seconds',
    type: 'gauge',
    labels: ['quantile'],
    help: 'Delay of the event loop since the last scrape.',
  },
  cpuSeconds: {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    labels: [],
    help: 'Processor time of the process, user and system.',
  },
  residentBytes: {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory that the process holds.',
  },
  heapBytes: { name: 'nodejs_heap_used_bytes', type: 'gauge', labels: [], help: 'Heap in use.' },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    labels: [],
    help: 'Start of the process since the Unix epoch.',
  },
} as const satisfies Record<string, Definition>;

type Metric = keyof typeof METRICS;
type Labels<M extends Metric> = Readonly<Record<(typeof METRICS)[M]['labels'][number], string>>;
type OfType<T extends Definition['type']> = {
  [M in Metric]: (typeof METRICS)[M]['type'] extends T ? M : never;
}[Metric];
/** A value that is read when it is asked for. */
export interface Reading {
  labels?: Record<string, string>;
  value: number;
}

const readers = new Map<string, () => Reading[]>();
const counters = new Map<string, Counter>();
const histograms = new Map<string, Histogram>();

/** Counts what has happened: after its commit, not before. Does nothing in a process without metrics. */
export function count<M extends OfType<'counter'>>(metric: M, labels: Labels<M>, by = 1): void {
  if (by > 0) counters.get(metric)?.add(by, labels);
}

/** Takes down how long something took, in seconds. */
export function observe<M extends OfType<'histogram'>>(metric: M, labels: Labels<M>, seconds: number): void {
  histograms.get(metric)?.record(Math.max(0, seconds), labels);
}

/** Names what a metric is read from, at each scrape; the last one named counts. */
export function readFrom(metric: OfType<'gauge'> | 'cpuSeconds', read: () => Reading[]): void {
  readers.set(metric, read);
}

/** Registers every metric with a meter: what is counted from here on is shown by it. */
export function useMeter(meter: Meter): void {
  for (const [metric, definition] of Object.entries<Definition>(METRICS)) {
    if (definition.type === 'gauge' || readers.has(metric)) observed(meter, metric, definition);
    else if (definition.type === 'counter') counters.set(metric, counterOf(meter, definition));
    else histograms.set(metric, histogramOf(meter, definition));
  }
}

/** One without labels is there from the start, so that its first event is seen as a rise. */
function counterOf(meter: Meter, { name, help, labels }: Definition): Counter {
  const counter = meter.createCounter(name, { description: help });
  if (labels.length === 0) counter.add(0);
  return counter;
}

const histogramOf = (meter: Meter, { name, help, buckets = SHORT }: Definition): Histogram =>
  meter.createHistogram(name, { description: help, advice: { explicitBucketBoundaries: [...buckets] } });

function observed(meter: Meter, metric: string, { name, help, type }: Definition): void {
  const options = { description: help };
  const instrument =
    type === 'counter' ? meter.createObservableCounter(name, options) : meter.createObservableGauge(name, options);
  instrument.addCallback((result) => {
    for (const { value, labels } of readers.get(metric)?.() ?? []) result.observe(value, labels ?? {});
  });
}
