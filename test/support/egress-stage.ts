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

/**
 * A deployment with an empty allow list but for two ports of 127.0.0.1: a server of models, and a server that redirects.
 * Everything else on this machine answers too, and must not be reached.
 */
export interface EgressStage {
  models: ModelServer;
  /** Answers 403, and redirects where its path says so (`redirectFrom`, `chainFrom`). */
  allowed: Loopback;
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

/** Ranges that the stage denies beside those that are not public. */
export const DENIED = '9.9.9.0/24,2620:fe::/48';

/** Starts it, before anything builds the guard: what may be reached is read once in a process. */
export async function startEgressStage(): Promise<EgressStage> {
  const [models, allowed, canary, proxy, dns] = await Promise.all([
    startModelServer(),
    startLoopback(redirecting),
    startCanary(),
    startCanary(),
    startDnsServer(),
  ]);
  const neighbour = await startCanary({ host: '127.0.0.2', port: allowed.port });
  Object.assign(config(), {
    TOOL_EGRESS_ALLOWED_HOSTS: `127.0.0.1:${String(models.port)},127.0.0.1:${String(allowed.port)}`,
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
    ...{ models, allowed, canary, neighbour, proxy, dns, dialled },
    strayed: () => dialled.to().filter((target) => !LOCAL.test(target) || inside.includes(target.split(':')[1] ?? '')),
    close: async () => {
      dialled.restore();
      resolver.lookup = lookup;
      await Promise.all([models, allowed, canary, neighbour, proxy, dns].map((one) => one.close()));
    },
  };
}

const LOCAL = /^((127\.0\.0\.1|localhost):\d+|path:.*)$/;

const coded = (text: string): string => Buffer.from(text).toString('base64url');

/** A base URL of the allowed server that answers every path below it with a redirect. */
export const redirectFrom = (base: string, status: number, location: string): string =>
  `${base}/redirect/${String(status)}/${coded(location)}`;

/** One that redirects to itself so many times before the last redirect, to `location`. */
export const chainFrom = (base: string, links: number, location: string): string =>
  `${base}/chain/${String(links)}/${coded(location)}`;

function redirecting({ path }: SeenRequest, response: ServerResponse): void {
  const [, kind, given = '', location = ''] = /^\/(redirect|chain)\/(\d+)\/([\w-]+)/.exec(path) ?? [];
  // Every connection ends with its answer: the next request has to resolve anew.
  const headers = { connection: 'close' };
  if (kind === undefined) {
    response.writeHead(403, headers).end('not for you');
    return;
  }
  const links = kind === 'chain' ? Number(given) : 0;
  const target = links > 0 ? `/chain/${String(links - 1)}/${location}` : Buffer.from(location, 'base64url').toString();
  response.writeHead(kind === 'chain' ? 302 : Number(given), { ...headers, location: target }).end();
}
