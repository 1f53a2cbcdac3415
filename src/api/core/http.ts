import type { IncomingHttpHeaders } from 'node:http';
import { Agent } from 'undici';
import { deadline } from './deadline';
import type { DeadlineKind } from './deadline';
import type { EgressPolicy } from './egress';
import { collect, decoded, type BodyRule } from './http-body';
import { OutboundError } from './http-error';
import { checkedUrl, type ExchangeLimits, type OutboundBody, type OutboundHeaders } from './http-exchange';
import { createFetch, type OutboundFetch } from './http-fetch';
import { createGuardedConnector, resolveAll, type Lookup } from './http-guard';
import { follow } from './http-redirects';

export { OutboundError, outboundErrorOf } from './http-error';
export { isTransportHeader } from './http-exchange';
export type { Lookup } from './http-guard';
export type { OutboundFetch } from './http-fetch';

export interface OutboundRequest extends BodyRule {
  url: string | URL;
  method: 'GET' | 'HEAD' | 'DELETE' | 'POST' | 'PUT' | 'PATCH' | 'OPTIONS';
  /** Names go out as written. `Host`, `Content-Length` and the connection's own headers are left out: the transport says them. */
  headers?: OutboundHeaders;
  body?: OutboundBody;
  /** From the start of the look-up to the end of the body, redirects included. */
  timeoutMs: number;
  redirects: 'never' | 'follow';
  signal?: AbortSignal;
}

export interface OutboundAnswer {
  status: number;
  /** Lower-case names. */
  headers: IncomingHttpHeaders;
  /** Decoded. */
  body: Buffer;
  truncated: boolean;
  finalUrl: string;
}

/** The one outbound HTTP client: everything a tenant can make this service request goes through it. */
export interface Outbound {
  /**
   * Sends a request and reads the whole answer; a status of 400 or more is an answer.
   * @throws OutboundError for everything else; repeating is safe when its `sent` is false.
   */
  request(request: OutboundRequest): Promise<OutboundAnswer>;
  fetch: OutboundFetch;
  /** Ends all connections, those in use included; call it after draining. */
  close(): Promise<void>;
}

export interface OutboundSettings {
  policy: EgressPolicy;
  /** Another resolver than the system's; for tests. */
  lookup?: Lookup;
  redirectsMax?: number;
  /** PEM; certificate authorities to trust instead of the built-in ones. */
  ca?: string;
}

/** How long a connection may be used again: after it a host that moved is resolved and checked anew. */
const CONNECTION_AGE_MS_MAX = 60_000;

const overdue =
  (timeoutMs: number) =>
  (kind: DeadlineKind): OutboundError =>
    new OutboundError({
      kind,
      detail: kind === 'timeout' ? `no complete answer within ${String(timeoutMs)} ms` : 'aborted by the caller',
      sent: false,
    });

async function send(agent: Agent, redirectsMax: number, request: OutboundRequest): Promise<OutboundAnswer> {
  const { signal, end } = deadline(request.timeoutMs, request.signal, overdue(request.timeoutMs));
  // The deadline covers the whole exchange, so the transport's own bounds are off.
  const limits: ExchangeLimits = { signal, headersTimeoutMs: 0, bodyTimeoutMs: 0 };
  const { method, headers = {}, body, redirects: mode } = request;
  try {
    const first = { url: checkedUrl(request.url), method, headers, body };
    const opened = await follow(agent, first, { mode, redirectsMax, limits });
    const answer = decoded(opened.body, opened.headers);
    const read = await collect(answer.body, request);
    return { status: opened.status, headers: answer.headers, ...read, finalUrl: opened.url.href };
  } finally {
    end();
  }
}

/**
 * Makes the outbound client. Connections are kept and used again for the same origin only; every new one is resolved and
 * checked, and goes to the address that was checked. Proxy variables of the environment are not looked at.
 * Spec: Tools, egress rule.
 */
export function createOutbound({ policy, lookup = resolveAll, redirectsMax = 5, ca }: OutboundSettings): Outbound {
  const agent = new Agent({
    connect: createGuardedConnector({ policy, lookup, ca }),
    pipelining: 1,
    allowH2: false,
    clientTtl: CONNECTION_AGE_MS_MAX,
    keepAliveMaxTimeout: CONNECTION_AGE_MS_MAX,
  });
  return {
    request: (request) => send(agent, redirectsMax, request),
    fetch: createFetch(agent, { redirectsMax }),
    close: () => agent.destroy(),
  };
}
