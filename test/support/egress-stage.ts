import type { ServerResponse } from 'node:http';
import { config } from '../../src/api/core/config';
import { resolver } from '../../src/api/core/outbound';
import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { startCanary, watchDialling } from './canary';
import type { Canary, Dialled } from './canary';
import { startDnsServer } from './dns-server';
import type { DnsServer } from './dns-server';
import { chainedNames, nameTricks } from './egress-tricks';
import { startLoopback } from './loopback';
import type { Loopback, SeenRequest } from './loopback';
import { startMcpServer } from './mcp-server';
import type { McpTestServer } from './mcp-server';

/**
 * A deployment with an empty allow list but for three ports of 127.0.0.1: a server of models, a server that redirects, and
 * an mcp server.
 * Everything else on this machine answers too, and must not be reached.
 */
export interface EgressStage {
  models: ModelServer;
  /** Answers 403, and redirects where its path says so (`redirectFrom`, `stairsFrom`, `chainFrom`). */
  allowed: Loopback;
  /** An mcp server that answers its next requests with the redirects that are put there. */
  remote: McpTestServer & { redirects: Redirect[] };
  /** On every address, at a port of its own. */
  canary: Canary;
  /** On 127.0.0.2, at the port of `allowed`. */
  neighbour: Canary;
  /** What the environment names as proxy. */
  proxy: Canary;
  dns: DnsServer;
  dialled: Dialled;
  /** Tries to connect that nothing of the test explains: the servers of the stage, the database and the engine do. */
  strayed: () => string[];
  close: () => Promise<void>;
}

export interface Redirect {
  status: number;
  location: string;
}

async function startRemote(): Promise<EgressStage['remote']> {
  const redirects: Redirect[] = [];
  const server = await startMcpServer({
    intercept: (_request, response) => {
      const next = redirects.shift();
      if (next !== undefined) response.writeHead(next.status, { location: next.location, connection: 'close' }).end();
      return next !== undefined;
    },
  });
  return { ...server, redirects };
}

/** Ranges that the stage denies beside those that are not public. */
export const DENIED = '9.9.9.0/24,2620:fe::/48';

/** Starts it, before anything builds the guard: what may be reached is read once in a process. */
export async function startEgressStage(): Promise<EgressStage> {
  const [models, allowed, remote, canary, proxy, dns] = await Promise.all([
    startModelServer(),
    startLoopback(redirecting),
    startRemote(),
    startCanary(),
    startCanary(),
    startDnsServer(),
  ]);
  const neighbour = await startCanary({ host: '127.0.0.2', port: allowed.port });
  Object.assign(config(), {
    TOOL_EGRESS_ALLOWED_HOSTS: [models, allowed, remote].map(({ url }) => new URL(url).host).join(','),
    EGRESS_DENIED_CIDRS: DENIED,
    WEBHOOK_ALLOW_HTTP: true,
    // Of a busy machine: runs of this stage end at once.
    GENERATION_WAIT_MAX_SECONDS: 25,
  });
  const { lookup } = resolver;
  resolver.lookup = dns.lookup;
  dns.set({ ...Object.fromEntries(nameTricks.map(({ host, answers }) => [host, answers])), ...chainedNames });
  const dialled = watchDialling();
  const inside = [canary.port, proxy.port, 80, 443].map(String);
  return {
    ...{ models, allowed, remote, canary, neighbour, proxy, dns, dialled },
    strayed: () => dialled.to().filter((target) => !LOCAL.test(target) || inside.includes(target.split(':')[1] ?? '')),
    close: async () => {
      dialled.restore();
      resolver.lookup = lookup;
      await Promise.all([models, allowed, remote, canary, neighbour, proxy, dns].map((one) => one.close()));
    },
  };
}

const LOCAL = /^((127\.0\.0\.1|localhost):\d+|path:.*)$/;

const coded = (text: string): string => Buffer.from(text).toString('base64url');

/** A base URL of the allowed server that answers every path below it with a redirect. */
export const redirectFrom = (base: string, status: number, location: string): string =>
  `${base}/redirect/${String(status)}/${coded(location)}`;

/** One that redirects to itself once with each status, with the last of them to `location`. */
export const stairsFrom = (base: string, statuses: number[], location: string): string =>
  `${base}/stairs/${statuses.join('-')}/${coded(location)}`;

/** One that redirects to itself so many times before the last redirect, to `location`. */
export const chainFrom = (base: string, links: number, location: string): string =>
  stairsFrom(
    base,
    Array.from({ length: links + 1 }, () => 302),
    location,
  );

function redirecting({ path }: SeenRequest, response: ServerResponse): void {
  const [, kind, given = '', location = ''] = /^\/(redirect|stairs)\/([\d-]+)\/([\w-]+)/.exec(path) ?? [];
  // Every connection ends with its answer: the next request has to resolve anew.
  const headers = { connection: 'close' };
  if (kind === undefined) {
    response.writeHead(403, headers).end('not for you');
    return;
  }
  const [status = 0, ...left] = given.split('-').map(Number);
  const further = left.length > 0 ? `/stairs/${left.join('-')}/${location}` : undefined;
  const target = further ?? Buffer.from(location, 'base64url').toString();
  response.writeHead(status, { ...headers, location: target }).end();
}
