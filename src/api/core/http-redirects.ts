import type { Dispatcher } from 'undici';
import { OutboundError, toOutboundError } from './http-error';
import { checkedUrl, open, type ExchangeLimits, type Hop, type Opened } from './http-exchange';

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const KEEPS_METHOD = new Set([307, 308]);
/** Credentials of the first origin; another one must never see them. */
const ORIGIN_HEADERS = new Set([
  'authorization',
  'cookie',
  'proxy-authorization',
  // Headers in which vendors of models take their keys.
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'x-amz-security-token',
]);

/** `error`: an answer that redirects is a failure; `never`: it is the answer. */
export type RedirectMode = 'never' | 'follow' | 'error';

/**
 * The request that a redirect asks for, or null when the answer is none. Pure.
 * Spec: Tools, egress rule: 301, 302 and 303 become GET (HEAD stays); credentials are dropped when the origin changes.
 * @throws OutboundError `redirects` for a location that is no URL, `egress_blocked` for one that may not be called.
 */
export function nextHop(hop: Hop, status: number, location: string | undefined): Hop | null {
  if (!REDIRECTS.has(status) || location === undefined) return null;
  if (!URL.canParse(location, hop.url.href))
    throw new OutboundError({ kind: 'redirects', detail: 'invalid location', sent: true });
  const url = checkedUrl(new URL(location, hop.url));
  const becomesGet = !KEEPS_METHOD.has(status) && hop.method !== 'GET' && hop.method !== 'HEAD';
  const kept = Object.entries(hop.headers).filter(([header]) => {
    const name = header.toLowerCase();
    if (url.origin !== hop.url.origin && ORIGIN_HEADERS.has(name)) return false;
    return !(becomesGet && name.startsWith('content-'));
  });
  const headers = Object.fromEntries(kept);
  return becomesGet ? { url, method: 'GET', headers } : { ...hop, url, headers };
}

/**
 * Sends a request and follows what it is redirected to, each hop through the same guarded dispatcher.
 * @throws OutboundError; its `sent` counts every hop.
 */
export async function follow(
  dispatcher: Dispatcher,
  first: Hop,
  options: { mode: RedirectMode; redirectsMax: number; limits: ExchangeLimits },
): Promise<Opened & { url: URL }> {
  let hop = first;
  let sent = false;
  for (let redirects = 0; ; redirects += 1) {
    try {
      const opened = await open(dispatcher, hop, options.limits);
      sent = true;
      const { location } = opened.headers;
      const next = options.mode === 'never' ? null : nextHop(hop, opened.status, location);
      if (next === null) return { ...opened, url: hop.url };
      opened.body.destroy();
      if (options.mode === 'error' || redirects >= options.redirectsMax) {
        const detail = options.mode === 'error' ? 'redirect refused' : `more than ${String(options.redirectsMax)}`;
        throw new OutboundError({ kind: 'redirects', detail, sent: true });
      }
      hop = next;
    } catch (error) {
      throw toOutboundError(error, sent);
    }
  }
}
