import { Readable } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { OutboundError, toOutboundError } from './http-error';
import { openSpan } from './tracing';
import type { OpenSpan } from './tracing';

export type OutboundHeaders = Readonly<Record<string, string>>;
export type OutboundBody = string | Uint8Array;

/** One request to one URL, without redirects. */
export interface Hop {
  url: URL;
  method: string;
  headers: OutboundHeaders;
  body?: OutboundBody | undefined;
}

/** A response whose headers are here and whose body, still encoded, is on its way. */
export interface Opened {
  status: number;
  headers: IncomingHttpHeaders;
  body: Readable;
}

export interface ExchangeLimits {
  /** Ends the exchange whenever it fires, before the connection stands and in mid-body; its reason becomes the error. */
  signal: AbortSignal;
  /** Bounds of the transport itself; 0 = none, where `signal` carries a deadline. */
  headersTimeoutMs: number;
  bodyTimeoutMs: number;
}

/** Said by the transport for each message; a value from a tenant would be refused or, worse, believed. */
const TRANSPORT_HEADERS = new Set([
  'host',
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'content-length',
  'upgrade',
  'expect',
  'te',
  'trailer',
]);

/** Whether the transport says this header itself: a configured value would be ignored. */
export const isTransportHeader = (name: string): boolean => TRANSPORT_HEADERS.has(name.toLowerCase());

/** The headers that go on the wire: the transport's own left out, and an `Accept-Encoding` that we can decode. */
export function wireHeaders(headers: OutboundHeaders): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => !isTransportHeader(name));
  if (!kept.some(([name]) => name.toLowerCase() === 'accept-encoding'))
    kept.push(['accept-encoding', 'gzip, deflate, br']);
  return Object.fromEntries(kept);
}

/** A URL as the client may call it: http or https, no credentials inside. */
export function checkedUrl(text: string | URL): URL {
  const refuse = (detail: string): never => {
    throw new OutboundError({ kind: 'egress_blocked', detail, sent: false });
  };
  if (!URL.canParse(String(text))) return refuse('invalid URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return refuse(`scheme ${url.protocol.slice(0, -1)}`);
  if (url.username !== '' || url.password !== '') return refuse('credentials in the URL');
  return url;
}

class Exchange implements Dispatcher.DispatchHandler {
  /** Set when the transport begins to write: a connection stands and bytes may leave. */
  sent = false;
  private controller: Dispatcher.DispatchController | null = null;
  private body: Readable | null = null;
  private stopped: Error | null = null;
  private ended = false;

  constructor(
    private readonly resolve: (opened: Opened) => void,
    private readonly reject: (error: OutboundError) => void,
  ) {}

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    // Stopped while the connection was being made: nothing is written on it.
    if (this.stopped !== null) controller.abort(this.stopped);
    else this.sent = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return;
    const body = new Readable({
      read: () => {
        controller.resume();
      },
      destroy: (error, callback) => {
        if (!this.ended) controller.abort(error ?? new Error('response body dropped'));
        callback(error);
      },
    });
    // An error between here and the first reader is kept by the stream; without a listener it would end the process.
    body.on('error', () => undefined);
    this.body = body;
    this.resolve({ status, headers, body });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.body?.push(chunk) === false) controller.pause();
  }

  onResponseEnd(): void {
    this.ended = true;
    this.body?.push(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.stop(error);
  }

  /** Ends the exchange with an error, whatever state it is in. */
  stop(error: unknown): void {
    const failure = toOutboundError(error, this.sent);
    this.stopped ??= failure;
    if (this.body !== null) this.body.destroy(failure);
    else this.controller?.abort(failure);
    this.reject(failure);
  }
}

/** Of an address the host and port are told, and nothing of path or query; the receiver is told nothing of the trace. */
const spanOf = ({ method, url }: Hop): OpenSpan =>
  openSpan(method, {
    kind: 'client',
    facts: {
      'http.request.method': method,
      'server.address': url.hostname,
      'server.port': Number(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port),
    },
  });

/**
 * Sends one request and answers as soon as the response's headers are here.
 * @throws OutboundError; `sent` says whether repeating is safe.
 */
export function open(dispatcher: Dispatcher, hop: Hop, limits: ExchangeLimits): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const { signal } = limits;
    const span = spanOf(hop);
    const exchange = new Exchange(
      (opened) => {
        span.set({ 'http.response.status_code': opened.status });
        opened.body.once('close', () => {
          forget();
          span.end(opened.status >= 400 ? String(opened.status) : undefined);
        });
        resolve(opened);
      },
      (error) => {
        forget();
        span.end(error.kind);
        reject(error);
      },
    );
    const onAbort = (): void => {
      exchange.stop(signal.reason);
    };
    const forget = (): void => {
      signal.removeEventListener('abort', onAbort);
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      dispatcher.dispatch(
        {
          origin: hop.url.origin,
          path: hop.url.pathname + hop.url.search,
          method: hop.method,
          headers: wireHeaders(hop.headers),
          body: hop.body ?? null,
          headersTimeout: limits.headersTimeoutMs,
          bodyTimeout: limits.bodyTimeoutMs,
        },
        exchange,
      );
    } catch (error) {
      exchange.stop(error);
    }
  });
}
