import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { Gates, pause } from './model-server/gates';
import { abortOf, BodyTooLarge, BoundedLog, listen, readBody, stop } from './model-server/http';

/** How far a signature's time may be from now: the window that the specification suggests. */
const signatureWindowSeconds = 300;
const waitTimeoutMs = 10_000;

export interface ReceivedRequest {
  method: string;
  /** Path with query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** The raw body as text. */
  body: string;
  /** Unix milliseconds at which the whole request was in. */
  at: number;
}

/** What to answer; an empty one is 200 `{"ok":true}`. */
export interface ReceiverAnswer {
  status?: number;
  headers?: Record<string, string>;
  /** A text goes out as it is, anything else as JSON. */
  body?: unknown;
  delayMs?: number;
  /** Name of a gate: the answer waits until it is released. */
  hold?: string;
  /** Ends the connection without an answer, after the delay and the hold. */
  disconnect?: boolean;
}

export type ReceiverRule =
  ReceiverAnswer | ReceiverAnswer[] | ((request: ReceivedRequest) => ReceiverAnswer | Promise<ReceiverAnswer>);

/** A running HTTP receiver for webhooks and tools, on 127.0.0.1. */
export interface Receiver {
  /** Without a trailing slash. */
  url: string;
  port: number;
  /** All requests in order of arrival; the oldest go first beyond 10,000 requests or 64 MiB of bodies. */
  requests: readonly ReceivedRequest[];
  /** Sets the answer, for one path (without query) or all others; of a list each serves one request, the last the rest. */
  respond(rule: ReceiverRule, path?: string): void;
  waitFor: WaitFor;
  /** Opens a gate for good; answers how many requests waited at it. */
  release(gate: string): number;
  close(): Promise<void>;
}

/** Waits for the first request that passes, or for a number of requests in all; rejects after `timeoutMs` (10,000). */
interface WaitFor {
  (wanted: (request: ReceivedRequest) => boolean, timeoutMs?: number): Promise<ReceivedRequest>;
  (wanted: number, timeoutMs?: number): Promise<ReceivedRequest[]>;
}

/** Starts a receiver; port 0, the default, takes a free one. */
export async function startReceiver(options: { port?: number } = {}): Promise<Receiver> {
  const service = new ReceiverService();
  const { server, port } = await listen((request, response) => {
    void service.serve(request, response);
  }, options.port ?? 0);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests: service.requests,
    respond: (rule, path) => {
      service.respond(rule, path ?? null);
    },
    waitFor: service.waitFor,
    release: (gate) => service.gates.release(gate),
    close: () => stop(server),
  };
}

class ReceiverService {
  readonly gates = new Gates();
  readonly #log = new BoundedLog<ReceivedRequest>();
  readonly #rules = new Map<string | null, { rule: ReceiverRule; used: number }>();
  readonly #listeners = new Set<() => void>();

  get requests(): readonly ReceivedRequest[] {
    return this.#log.entries;
  }

  respond(rule: ReceiverRule, path: string | null): void {
    this.#rules.set(path, { rule, used: 0 });
  }

  readonly waitFor = ((wanted: number | ((request: ReceivedRequest) => boolean), timeoutMs = waitTimeoutMs) => {
    if (typeof wanted === 'function') {
      return this.#until(() => this.requests.find(wanted), { goal: 'no request matched', timeoutMs });
    }
    const enough = () => (this.requests.length >= wanted ? [...this.requests] : undefined);
    return this.#until(enough, { goal: `fewer than ${wanted} requests`, timeoutMs });
  }) as WaitFor;

  #until<Found>(look: () => Found | undefined, limit: { goal: string; timeoutMs: number }): Promise<Found> {
    return new Promise<Found>((resolve, reject) => {
      const check = () => {
        const found = look();
        if (found === undefined) return;
        clearTimeout(timer);
        this.#listeners.delete(check);
        resolve(found);
      };
      const timer = setTimeout(() => {
        this.#listeners.delete(check);
        const seen = this.requests.slice(-20).map(({ method, path }) => `${method} ${path}`);
        reject(
          new Error(`${limit.goal} in ${limit.timeoutMs} ms; ${this.requests.length} came, last: ${seen.join(', ')}`),
        );
      }, limit.timeoutMs);
      this.#listeners.add(check);
      check();
    });
  }

  /** Serves one request; never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const signal = abortOf(response);
    try {
      const received = await this.#receive(request);
      const answer = await this.#answerTo(received);
      if (answer.delayMs !== undefined && !(await pause(answer.delayMs, signal))) return;
      if (answer.hold !== undefined && !(await this.gates.wait(answer.hold, signal))) return;
      send(response, answer);
    } catch (error) {
      const status = error instanceof BodyTooLarge ? 413 : 500;
      if (!response.headersSent) send(response, { status, body: { error: String(error) } });
    }
  }

  async #receive(request: IncomingMessage): Promise<ReceivedRequest> {
    const body = await readBody(request);
    const { method = '', url: path = '/', headers } = request;
    const received = { method, path, headers, body, at: Date.now() };
    this.#log.add(received, Buffer.byteLength(body));
    for (const listener of [...this.#listeners]) listener();
    return received;
  }

  async #answerTo(received: ReceivedRequest): Promise<ReceiverAnswer> {
    const pathname = new URL(received.path, 'http://127.0.0.1').pathname;
    const entry = this.#rules.get(pathname) ?? this.#rules.get(null);
    if (entry === undefined) return {};
    if (typeof entry.rule === 'function') return entry.rule(received);
    if (!Array.isArray(entry.rule)) return entry.rule;
    const answer = entry.rule[Math.min(entry.used, entry.rule.length - 1)] ?? {};
    entry.used += 1;
    return answer;
  }
}

function send(response: ServerResponse, answer: ReceiverAnswer): void {
  if (answer.disconnect === true) {
    response.destroy();
    return;
  }
  const { status = 200, body = { ok: true } } = answer;
  const isText = typeof body === 'string';
  response.writeHead(status, {
    'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json',
    ...answer.headers,
  });
  response.end(isText ? body : JSON.stringify(body));
}

/**
 * Whether a delivery is genuine, as a customer's receiver would check it: both signatures over the raw body, and a time
 * within five minutes. Written from the specification, not from the sender's code. Spec: Webhooks, Signing.
 * @param nowSeconds Unix seconds; the system's clock when left out
 */
export function verifySignature(
  request: Pick<ReceivedRequest, 'headers' | 'body'>,
  secret: string,
  nowSeconds: number = Date.now() / 1000,
): boolean {
  const own = /^t=(\d{1,15}),v1=([0-9a-f]{64})$/.exec(headerOf(request.headers, 'x-svc-signature'));
  const standard = /^v1,([A-Za-z0-9+/]{43}=)$/.exec(headerOf(request.headers, 'webhook-signature'));
  const time = own?.[1];
  if (time === undefined || Math.abs(nowSeconds - Number(time)) > signatureWindowSeconds) return false;
  if (headerOf(request.headers, 'webhook-timestamp') !== time) return false;
  const ownExpected = createHmac('sha256', secret).update(`${time}.${request.body}`).digest();
  const standardKey = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const standardText = `${headerOf(request.headers, 'webhook-id')}.${time}.${request.body}`;
  const standardExpected = createHmac('sha256', standardKey).update(standardText).digest();
  return (
    sameBytes(Buffer.from(own?.[2] ?? '', 'hex'), ownExpected) &&
    sameBytes(Buffer.from(standard?.[1] ?? '', 'base64'), standardExpected)
  );
}

function headerOf(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}

function sameBytes(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
