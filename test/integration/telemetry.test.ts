import { defaultPayloadConverter } from '@temporalio/common';
import { logFacts } from '../../src/api/core/log-context';
import type { LogFacts } from '../../src/api/core/log-context';
import { engine } from '../../src/api/core/temporal';
import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { startMetrics } from '../../src/telemetry-metrics';
import type { MetricsListener } from '../../src/telemetry-metrics';
import { flushTraces, startTraces, stopTraces } from '../../src/telemetry-traces';
import { useService } from '../support/app';
import { buildAgent, buildHttpTool, created, saying, workspace } from '../support/builders';
import type { Workspace } from '../support/builders';
import { eventually } from '../support/eventually';
import { startOtlpReceiver } from '../support/otlp';
import type { OtlpReceiver, ReceivedSpan } from '../support/otlp';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const CALLER_SPAN = 'b7ad6b7169203331';
const REQUEST_ID = 'req-of-the-telemetry-test';
const CANARY = 'canary-c7f1';
const GENERATE = 'POST /v1/projects/:project_id/agents/:agent_id/generate';

let otlp: OtlpReceiver;
let metrics: MetricsListener;
let server: ModelServer;
let receiver: Receiver;
let space: Workspace;
const inActivity: LogFacts[] = [];

// Before the service starts: its workers and its client of the engine are made with what is set by then.
beforeAll(async () => {
  otlp = await startOtlpReceiver();
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = otlp.url;
  startTraces('tests');
  metrics = await startMetrics({ host: '127.0.0.1', port: 0, fallback: true });
});

const service = useService({ worker: true });

beforeAll(async () => {
  server = await startModelServer({});
  receiver = await startReceiver();
  const owner = await service.signedIn();
  const project = await service.project(owner);
  space = await workspace(service.client(owner.token), project.id, server.url);
  (globalThis as { svcFaultPoint?: (name: string) => void }).svcFaultPoint = (name) => {
    if (name === 'step-stored') inActivity.push(logFacts());
  };
});

afterAll(async () => {
  await Promise.all([server.close(), receiver.close()]);
  await stopTraces();
  await Promise.all([otlp.close(), metrics.close()]);
});

const scrape = async (): Promise<string> => (await fetch(`http://127.0.0.1:${String(metrics.port)}/metrics`)).text();

/** The value of one line of the text; 0 while it is not there. */
const valueOf = (text: string, line: string): number =>
  Number(
    text
      .split('\n')
      .find((one) => one.startsWith(`${line} `))
      ?.slice(line.length + 1) ?? 0,
  );

const MOVED = {
  'svc_runs_accepted_total{resource="generation"}': 1,
  'svc_runs_settled_total{resource="generation",status="completed",reason="stop"}': 1,
  'svc_model_step_duration_seconds_count{vendor="custom",outcome="stored"}': 2,
  'svc_tool_call_duration_seconds_count{type="http",outcome="result"}': 1,
  'svc_delivery_attempts_total{outcome="success",try="first"}': 1,
  svc_delivery_lag_seconds_count: 1,
  'svc_activity_queue_seconds_count{queue="calls"}': 3,
  'svc_http_request_duration_seconds_count{method="POST",route="/v1/projects/:project_id/agents/:agent_id/generate",status="2xx"}': 1,
  'svc_runs_paused_total{resource="generation"}': 0,
} as const;

const differences = (before: string, after: string): Record<string, number> =>
  Object.fromEntries(Object.keys(MOVED).map((line) => [line, valueOf(after, line) - valueOf(before, line)]));

let generationId: string;
let before: string;
let spans: ReceivedSpan[];

/** One run with a tool call and a delivery, and canaries wherever content goes. */
async function oneRun(): Promise<string> {
  const tool = await buildHttpTool(space, `${receiver.url}/tool?key=${CANARY}-query`, {
    name: `tool_${CANARY.slice(-4)}`,
  });
  created(
    await space.api.post(`${space.at}/webhooks`, {
      url: `${receiver.url}/hook?key=${CANARY}-hook`,
      events: ['generation.completed'],
    }),
  );
  const agent = await buildAgent(space, {
    instructions: `${CANARY}-instructions`,
    tool_bindings: [{ tool_id: tool.id }],
  });
  receiver.respond({ body: { found: `${CANARY}-result` } }, '/tool');
  server.script(space.model, [
    { toolCalls: [{ id: 'c1', name: tool.name, args: { order_id: `${CANARY}-argument` } }] },
    { text: `${CANARY}-answer` },
  ]);
  const reply = await space.api.post(
    `${space.at}/agents/${agent.id}/generate?wait=true`,
    saying(`${CANARY}-question`),
    {
      traceparent: `00-${TRACE_ID}-${CALLER_SPAN}-01`,
      tracestate: `vendor=${CANARY}-state`,
      baggage: `key=${CANARY}-baggage`,
      'X-Request-Id': REQUEST_ID,
    },
  );
  expect([reply.status, reply.body.status]).toEqual([200, 'completed']);
  expect(reply.headers['x-request-id']).toBe(REQUEST_ID);
  await receiver.waitFor(({ path }) => path.startsWith('/hook'));
  return reply.body.id as string;
}

beforeAll(async () => {
  before = await scrape();
  generationId = await oneRun();
  spans = await eventually(
    async () => {
      await flushTraces();
      const found = otlp.spans().filter(({ traceId }) => traceId === TRACE_ID);
      for (const name of ['RunWorkflow:generation', 'webhook attempt', GENERATE]) {
        if (!found.some((span) => span.name === name)) throw new Error(`no span ${name}`);
      }
      return found;
    },
    { timeoutMs: 15_000 },
  );
}, 60_000);

const named = (name: string, wanted: (span: ReceivedSpan) => boolean = () => true): ReceivedSpan => {
  const found = spans.find((span) => span.name === name && wanted(span));
  if (found === undefined) throw new Error(`No span ${name}: ${spans.map((span) => span.name).join(', ')}`);
  return found;
};

/** The names of a span and of those above it, up to the first of the service. */
function wayUp(span: ReceivedSpan): string[] {
  const above = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return above === undefined ? [span.name] : [span.name, ...wayUp(above)];
}

describe('one trace', () => {
  test('goes from the request over workflow and activity to the call of the provider', () => {
    const chat = named('chat');
    const call = spans.find(({ name, parentSpanId }) => name === 'POST' && parentSpanId === chat.spanId);
    expect(call).toBeDefined();
    expect(wayUp(call!)).toEqual([
      'POST',
      'chat',
      'RunActivity:runModelStep',
      'RunWorkflow:generation',
      expect.stringMatching(/^(UpdateWithStart|StartUpdateWithStart|StartWorkflow)/) as string,
      GENERATE,
    ]);
    expect(named(GENERATE).parentSpanId).toBe(CALLER_SPAN);
  });

  test('and to tools and webhooks', () => {
    for (const parent of ['execute_tool', 'webhook attempt']) {
      const { spanId } = named(parent);
      const call = spans.find((span) => span.parentSpanId === spanId);
      expect(wayUp(call!).at(-1)).toBe(GENERATE);
      expect(call!.attributes).toMatchObject({ 'server.address': '127.0.0.1', 'http.response.status_code': 200 });
    }
  });

  test('says what the conventions name', () => {
    expect(named(GENERATE)).toMatchObject({
      kind: 2,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/projects/:project_id/agents/:agent_id/generate',
        'http.response.status_code': 200,
        'svc.request_id': REQUEST_ID,
      },
    });
    expect(named('chat').attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'custom',
      'gen_ai.request.model': space.model,
      'gen_ai.usage.input_tokens': expect.any(Number) as number,
      'gen_ai.usage.output_tokens': expect.any(Number) as number,
    });
    expect(named('RunWorkflow:generation').attributes).toEqual({
      temporalWorkflowId: generationId,
      run_id: expect.any(String) as string,
    });
    expect(new Set(spans.map(({ service: name }) => name))).toEqual(new Set(['tests']));
  });

  test('holds no content, URL or text of an error', () => {
    expect(otlp.holds(CANARY)).toBe(false);
    expect(otlp.holds('/tool?')).toBe(false);
    expect(
      spans.filter(({ events, status, traceState }) => events > 0 || status.message !== undefined || traceState !== ''),
    ).toEqual([]);
  });

  test('is told to nobody outside', () => {
    const outside = [
      ...receiver.requests.map(({ headers }) => headers),
      ...server.calls().map(({ headers }) => headers),
    ];
    expect(outside.length).toBeGreaterThanOrEqual(4);
    for (const headers of outside) {
      expect(Object.keys(headers)).not.toEqual(expect.arrayContaining(['traceparent']));
      expect(JSON.stringify(headers)).not.toContain(TRACE_ID);
    }
  });

  test('stands in the history as ids alone, beside the request id', async () => {
    const { events } = await engine().workflow.getHandle(generationId).fetchHistory();
    const headers = (events ?? []).flatMap((event) => {
      const { fields } =
        event.workflowExecutionStartedEventAttributes?.header ??
        event.activityTaskScheduledEventAttributes?.header ??
        {};
      return fields == null ? [] : [fields];
    });
    expect(headers.length).toBeGreaterThanOrEqual(4);
    for (const fields of headers) {
      const values = Object.entries(fields).map(([name, payload]) => [
        name,
        defaultPayloadConverter.fromPayload(payload),
      ]);
      for (const [name, value] of values) {
        if (name === 'request-id') expect(value).toBe(REQUEST_ID);
        else
          expect([name, value]).toEqual(['_tracer-data', { traceparent: expect.stringContaining(TRACE_ID) as string }]);
      }
    }
    expect(JSON.stringify(events)).not.toContain(CANARY);
  });
});

test('log lines of an activity carry the request, the run and the trace', () => {
  expect(inActivity[0]).toEqual({
    request_id: REQUEST_ID,
    workflow_id: generationId,
    run_id: expect.any(String) as string,
    activity: 'runModelStep',
    trace_id: TRACE_ID,
    span_id: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
  });
});

describe('metrics', () => {
  test('move by exactly what happened', async () => {
    await eventually(
      async () => {
        expect(differences(before, await scrape())).toEqual(MOVED);
      },
      { timeoutMs: 10_000 },
    );
  });

  test('show the process, its pool and its loop, and no id, address or name of a tenant', async () => {
    const text = await scrape();
    for (const name of ['process_cpu_seconds_total', 'process_start_time_seconds', 'svc_database_connections_max'])
      expect(valueOf(text, name)).toBeGreaterThan(0);
    expect(text).toMatch(/^svc_event_loop_delay_seconds\{quantile="0.99"\} [\d.e-]+$/m);
    expect(text).toMatch(/^svc_database_connections\{state="idle"\} \d+$/m);
    expect(text).not.toMatch(/(gen|agent|proj|whd|user)_[0-9A-Za-z]{16}|127\.0\.0\.1|http:/);
    expect(text).not.toContain(space.model);
  });

  test('are served on a port of their own, which serves nothing else', async () => {
    const at = `http://127.0.0.1:${String(metrics.port)}`;
    expect((await fetch(`${at}/`)).status).toBe(404);
    expect((await fetch(`${at}/health`)).status).toBe(404);
    expect((await fetch(`${at}/metrics`, { method: 'POST' })).status).toBe(405);
    expect((await service.client().get('/metrics')).status).toBe(404);
  });

  test('a port that is taken stops the start, but in local mode another is taken', async () => {
    const taken = { host: '127.0.0.1', port: metrics.port };
    await expect(startMetrics({ ...taken, fallback: false })).rejects.toThrow(/METRICS_PORT: \d+ is in use/);
  });
});
