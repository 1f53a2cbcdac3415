import type { Readable } from 'node:stream';
import { STATUS_CODES, type IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { decoded } from './http-body';
import { OutboundError, toOutboundError } from './http-error';
import { checkedUrl, type ExchangeLimits, type OutboundBody } from './http-exchange';
import { follow, type RedirectMode } from './http-redirects';

export type OutboundFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** Larger than any answer of a model; a stream of endless bytes must still end. */
export const FETCH_BYTES_MAX = 32 * 1024 * 1024;
/** A caller that gives no signal is still bounded: a model may think long, but not for ever. */
const FETCH_TIMEOUTS = { headersTimeoutMs: 15 * 60_000, bodyTimeoutMs: 5 * 60_000 };
const NO_BODY = new Set([204, 205, 304]);
const MODES: Record<Request['redirect'], RedirectMode> = { follow: 'follow', error: 'error', manual: 'never' };

function webHeaders(headers: IncomingHttpHeaders): Headers {
  const result = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) result.append(name, one);
  }
  return result;
}

/** The body as a web stream, chunk by chunk as it comes, bounded in all. It holds the request, whose signal would else be collected. */
function webBody(body: Readable, request: Request): ReadableStream<Uint8Array> {
  const chunks = body.iterator() as AsyncIterableIterator<Buffer>;
  let size = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await chunks.next();
          if (next.done === true) {
            controller.close();
            return;
          }
          size += next.value.length;
          if (size > FETCH_BYTES_MAX) {
            body.destroy();
            const detail = `more than ${String(FETCH_BYTES_MAX)} bytes`;
            throw new OutboundError({ kind: 'too_large', detail, sent: true });
          }
          controller.enqueue(new Uint8Array(next.value));
        } catch (error) {
          throw request.signal.aborted
            ? request.signal.reason
            : new TypeError('terminated', { cause: toOutboundError(error, true) });
        }
      },
      cancel() {
        body.destroy();
      },
    },
    // Nothing is read ahead of the reader.
    { highWaterMark: 0 },
  );
}

async function exchange(
  dispatcher: Dispatcher,
  redirectsMax: number,
  request: Request,
): Promise<{ opened: Awaited<ReturnType<typeof follow>>; body: Readable; headers: IncomingHttpHeaders }> {
  // Bodies are small and in memory already; as bytes they can be sent again to where a redirect points.
  const bytes: OutboundBody | undefined =
    request.body === null ? undefined : new Uint8Array(await request.arrayBuffer());
  const limits: ExchangeLimits = { ...FETCH_TIMEOUTS, signal: request.signal };
  const hop = {
    url: checkedUrl(request.url),
    method: request.method,
    headers: Object.fromEntries(request.headers),
    body: bytes,
  };
  const opened = await follow(dispatcher, hop, { mode: MODES[request.redirect], redirectsMax, limits });
  return { opened, ...decoded(opened.body, opened.headers) };
}

/** The library's own refusal would repeat the URL, credentials included. @throws TypeError as of any failed request */
function assertCallable(input: string | URL | Request): void {
  if (input instanceof Request) return;
  try {
    checkedUrl(input);
  } catch (cause) {
    throw new TypeError('fetch failed', { cause });
  }
}

/**
 * A WHATWG `fetch` over the guarded connections, for libraries that take one. Bodies stream; a failure of the transport is
 * a TypeError whose cause is the OutboundError (`outboundErrorOf`); an abort rejects with the signal's reason.
 */
export function createFetch(dispatcher: Dispatcher, { redirectsMax }: { redirectsMax: number }): OutboundFetch {
  return async (input, init) => {
    assertCallable(input);
    const request = new Request(input, init);
    try {
      const { opened, body, headers } = await exchange(dispatcher, redirectsMax, request);
      const hasBody = request.method !== 'HEAD' && !NO_BODY.has(opened.status);
      if (!hasBody) body.resume();
      const response = new Response(hasBody ? webBody(body, request) : null, {
        status: opened.status,
        statusText: STATUS_CODES[opened.status] ?? '',
        headers: webHeaders(headers),
      });
      Object.defineProperty(response, 'url', { value: opened.url.href });
      return response;
    } catch (error) {
      if (request.signal.aborted) throw request.signal.reason;
      throw new TypeError('fetch failed', { cause: toOutboundError(error, false) });
    }
  };
}
