import { lookup as systemLookup } from 'node:dns/promises';
import { isIP, type Socket } from 'node:net';
import { buildConnector } from 'undici';
import type { EgressPolicy } from './egress';
import { errorText, OutboundError, toOutboundError } from './http-error';

/** Resolves a host name to all of its addresses. */
export type Lookup = (hostname: string) => Promise<readonly { address: string }[]>;

/** The system's resolver (hosts file included), addresses in its order of preference. */
export const resolveAll: Lookup = (hostname) => systemLookup(hostname, { all: true });

interface GuardSettings {
  policy: EgressPolicy;
  lookup: Lookup;
  /** PEM; certificate authorities to trust instead of the built-in ones. */
  ca?: string | undefined;
}

/** More answers than this are an attack or a mistake; all of them would have to be checked. */
const ADDRESSES_MAX = 64;
const ADDRESSES_TRIED_MAX = 4;
/** An address with another one behind it gets less time, so that a dead IPv6 route costs little. */
const CONNECT_MS = { quick: 2_000, patient: 15_000 };

const blocked = (detail: string, extra: { address?: string; cause?: unknown } = {}): OutboundError =>
  new OutboundError({ kind: 'egress_blocked', detail, sent: false, ...extra });

/** All addresses of a host, every one checked; the caller connects to these and looks nothing up again. */
async function checkedAddresses({ policy, lookup }: GuardSettings, host: string, port: number): Promise<string[]> {
  let found: string[];
  if (isIP(host) !== 0) found = [host];
  else {
    const answers = await lookup(host).catch((error: unknown) => {
      throw blocked(`${host} cannot be resolved (${errorText(error, 'code') ?? 'lookup failed'})`, { cause: error });
    });
    found = answers.map(({ address }) => address);
  }
  if (found.length === 0) throw blocked(`${host} has no address`);
  if (found.length > ADDRESSES_MAX) throw blocked(`${host} has too many addresses`);
  for (const address of found) {
    // One bad answer refuses them all: which of them a later connection would use is not ours to guess.
    if (!policy.addressAllowed(address, host, port)) throw blocked(`${address} is not public`, { address });
    if (isIP(address) === 0) throw blocked(`${host} resolved to no address`);
  }
  return found;
}

type Target = buildConnector.Options;

const connectOnce = (connector: buildConnector.connector, target: Target): Promise<Socket> =>
  new Promise((resolve, reject) => {
    connector(target, (error, socket) => {
      if (error === null) resolve(socket);
      else reject(error);
    });
  });

/**
 * The only way in which outbound connections are made: resolves the host once, refuses it unless every address may be
 * reached, and connects to one of exactly these addresses, while TLS still names and verifies the original host.
 */
export function createGuardedConnector(settings: GuardSettings): buildConnector.connector {
  const shared = {
    minVersion: 'TLSv1.2' as const,
    rejectUnauthorized: true,
    ...(settings.ca === undefined ? {} : { ca: settings.ca }),
  };
  const quick = buildConnector({ ...shared, timeout: CONNECT_MS.quick });
  const patient = buildConnector({ ...shared, timeout: CONNECT_MS.patient });

  const connect = async (target: Target): Promise<Socket> => {
    const host = target.hostname;
    const port = target.port === '' ? (target.protocol === 'https:' ? 443 : 80) : Number(target.port);
    const addresses = (await checkedAddresses(settings, host, port)).slice(0, ADDRESSES_TRIED_MAX);
    let failure: unknown;
    for (const [index, address] of addresses.entries()) {
      // The name to verify comes from the URL; a `Host` header given by a tenant has no say in it.
      const { servername: _fromHeader, ...rest } = target;
      const named = isIP(host) === 0 ? { servername: host.replace(/\.$/, '') } : {};
      const connector = index === addresses.length - 1 ? patient : quick;
      try {
        return await connectOnce(connector, { ...rest, ...named, hostname: address });
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  };

  return (target, callback) => {
    connect(target).then(
      (socket) => {
        callback(null, socket);
      },
      (error: unknown) => {
        callback(toOutboundError(error, false), null);
      },
    );
  };
}
