import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { parse } from 'protobufjs';

/** What of OTLP's own definition the tests look at. */
const { root } = parse(`
  syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { repeated Span spans = 2; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
    repeated KeyValue attributes = 9; repeated Event events = 11; Status status = 15;
  }
  message Event { string name = 2; repeated KeyValue attributes = 3; }
  message Status { string message = 2; int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`);
const RequestType = root.lookupType('Request');

interface Encoded {
  resourceSpans?: {
    resource?: { attributes?: Attribute[] };
    scopeSpans?: { spans?: EncodedSpan[] }[];
  }[];
}
interface Attribute {
  key: string;
  value?: Record<string, string | number | boolean>;
}
interface EncodedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind: number;
  attributes?: Attribute[];
  events?: unknown[];
  status?: { message?: string; code?: number };
}

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  traceState: string;
  name: string;
  kind: number;
  attributes: Record<string, string | number | boolean>;
  events: number;
  status: { message?: string; code?: number };
  service: string;
}

/** A receiver of traces: OTLP over HTTP, protobuf. */
export interface OtlpReceiver {
  url: string;
  spans: () => ReceivedSpan[];
  /** Whether a text stands anywhere in what was received. */
  holds: (text: string) => boolean;
  close: () => Promise<void>;
}

const attributesOf = (given: Attribute[] = []): ReceivedSpan['attributes'] =>
  Object.fromEntries(given.map(({ key, value }) => [key, Object.values(value ?? {})[0] ?? '']));

const hex = (base64 = ''): string => Buffer.from(base64, 'base64').toString('hex');

function decoded(body: Buffer): ReceivedSpan[] {
  const request = RequestType.toObject(RequestType.decode(body), { bytes: String, longs: Number }) as Encoded;
  return (request.resourceSpans ?? []).flatMap(({ resource, scopeSpans = [] }) =>
    scopeSpans
      .flatMap(({ spans = [] }) => spans)
      .map((span) => ({
        traceId: hex(span.traceId),
        spanId: hex(span.spanId),
        parentSpanId: hex(span.parentSpanId),
        traceState: span.traceState ?? '',
        name: span.name,
        kind: span.kind,
        attributes: attributesOf(span.attributes),
        events: span.events?.length ?? 0,
        status: span.status ?? {},
        service: String(attributesOf(resource?.attributes)['service.name']),
      })),
  );
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const bodies: Buffer[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = Buffer.concat(chunks);
      if (req.url === '/v1/traces') bodies.push(req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body);
      res.writeHead(req.url === '/v1/traces' ? 200 : 404, { 'Content-Type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    spans: () => bodies.flatMap(decoded),
    holds: (text) => bodies.some((body) => body.includes(text)),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}
