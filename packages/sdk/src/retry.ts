import { ConnectionError, answering, nameOf, retryAfterOf } from './errors';

/** How often and how long calls are repeated that may be repeated. Times in milliseconds. */
export interface RetryPolicy {
  /** Repeats of one call, 3 by default; 0 turns them off. */
  retries: number;
  /** Wait before the first repeat; doubles from one to the next, each between half and the whole of it. */
  baseMs: number;
  /** The longest wait of our own. */
  maxMs: number;
  /** A `Retry-After` beyond it is not waited for: the refusal is the answer. */
  maxRetryAfterMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { retries: 3, baseMs: 500, maxMs: 8_000, maxRetryAfterMs: 60_000 };

/** The wait before repeat `number` (from 0), in milliseconds. */
export const backoffMs = ({ baseMs, maxMs }: RetryPolicy, number: number, chance = Math.random()): number =>
  Math.min(maxMs, baseMs * 2 ** number) * (0.5 + chance / 2);

/** Resolves after a time. @throws the signal's reason as soon as it fires */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const give = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', give);
      resolve();
    }, ms);
    if (signal?.aborted === true) give();
    else signal?.addEventListener('abort', give, { once: true });
  });
}

/** Reading has no effect, and a keyed request has it once. */
const mayRepeat = ({ method, headers }: Request): boolean =>
  method === 'GET' || method === 'HEAD' || headers.has('idempotency-key');

const isJson = (response: Response): boolean =>
  (response.headers.get('content-type') ?? '').startsWith('application/json');

/** The wait before a repeat of a refused call; null when the refusal is the answer. */
function waitFor(response: Response, repeatable: boolean, policy: RetryPolicy): number | 'backoff' | null {
  const seconds = retryAfterOf(response);
  // A refusal for too many calls had no effect whatever was asked; without a time, waiting is no remedy.
  if (response.status === 429) return seconds === null ? null : bounded(seconds, policy);
  if (!repeatable) return null;
  if (response.status === 503) return seconds === null ? 'backoff' : bounded(seconds, policy);
  // The service's own 502 and 504 are verdicts on a run; those of a proxy in between carry no envelope.
  return (response.status === 502 || response.status === 504) && !isJson(response) ? 'backoff' : null;
}

const bounded = (seconds: number, { maxRetryAfterMs }: RetryPolicy): number | null =>
  seconds * 1000 <= maxRetryAfterMs ? seconds * 1000 : null;

/** A JSON answer with its body read: a body that is cut short is a lost connection like any other. */
async function whole(response: Response): Promise<Response> {
  if (!isJson(response)) return response;
  const { status, statusText, headers } = response;
  return new Response(await response.arrayBuffer(), { status, statusText, headers });
}

type Fetch = (request: Request) => Promise<Response>;

/**
 * A `fetch` that repeats what may be repeated: reads and keyed requests after a lost connection, a 503, or a proxy's 502 and
 * 504; everything after a 429 that says when. `prepare` makes the request of each try, so that a token may be a fresh one.
 * @throws ConnectionError when no whole answer came
 */
export function retrying(fetch: Fetch, policy: RetryPolicy, prepare: (request: Request) => Promise<Request>): Fetch {
  return async (request) => {
    const repeatable = mayRepeat(request);
    for (let number = 0; ; number += 1) {
      const last = number >= policy.retries;
      const own = (): number => backoffMs(policy, number);
      const attempt = await prepare(last ? request : request.clone());
      let waitMs: number;
      try {
        const response = await whole(await fetch(attempt));
        const wait = last ? null : waitFor(response, repeatable, policy);
        if (wait === null) return answering(request, response);
        // Not waited for: what is thrown away has no say in when the next try begins.
        response.body?.cancel().catch(() => undefined);
        waitMs = wait === 'backoff' ? own() : wait;
      } catch (error) {
        if (request.signal.aborted) throw request.signal.reason;
        if (last || !repeatable)
          throw new ConnectionError(`${nameOf(request)}: no whole answer came`, { cause: error });
        waitMs = own();
      }
      await sleep(waitMs, request.signal);
    }
  };
}
