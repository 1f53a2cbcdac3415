import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A range of addresses: network and prefix length. */
export type Cidr = [Address, number];

/** One entry of `TOOL_EGRESS_ALLOWED_HOSTS`. `port` null = every port. */
export type AllowEntry =
  | { kind: 'host'; host: string; port: number | null }
  | { kind: 'suffix'; suffix: string }
  | { kind: 'range'; range: Cidr; port: number | null };

export type UrlVerdict = { ok: true; url: URL } | { ok: false; reason: string };

/** What may be reached from this service; one instance serves webhooks, tools, providers and channels. */
export interface EgressPolicy {
  /** True when the operator exempted this host (any address of it) from the address rules. */
  hostAllowed(host: string, port: number): boolean;
  /** True when a connection to this address, in the name of this host, may be made. */
  addressAllowed(address: string, host: string, port: number): boolean;
  /** The rules a stored URL must meet, as far as they can be told without a look-up. Spec: Webhooks, URL rules. */
  checkUrl(text: string, options?: { allowHttp?: boolean }): UrlVerdict;
}

/** A list in the settings that cannot be read; the message names the entry. */
export class EgressListError extends Error {
  override readonly name = 'EgressListError';
}

const URL_LENGTH_MAX = 2_048;
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** Names that mean "this machine" or "this network" by convention, whatever a resolver says about them today. */
const LOCAL_NAME = /^(localhost|.*\.localhost|.*\.local|.*\.internal)$/;
/** The only IPv6 space in public use (IANA); `::/8` with its dead transition forms lies outside. */
const GLOBAL_IPV6: Cidr = [ipaddr.IPv6.parse('2000::'), 3];

/** Host as compared: lower case, no brackets, no dot at the end. */
const plainHost = (host: string): string =>
  host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

/** Port of a URL, the scheme's own when none is written. */
export const portOf = (url: URL): number =>
  url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);

const entriesOf = (text: string): string[] => (text.trim() === '' ? [] : text.split(',').map((entry) => entry.trim()));

const malformed = (entry: string, form: string): EgressListError =>
  new EgressListError(`malformed entry ${JSON.stringify(entry)}: expected ${form}`);

/** An address as programs write it, without a zone. */
const isAddress = (text: string): boolean => isIP(text) !== 0 && !text.includes('%');

/** An IPv4-mapped range means the IPv4 one: addresses are compared with it without that wrapping. */
const unwrapped = ([network, length]: Cidr): Cidr =>
  network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress() && length >= 96
    ? [network.toIPv4Address(), length - 96]
    : [network, length];

function cidrOf(entry: string): Cidr | null {
  const [network, prefix, ...rest] = entry.split('/');
  if (network === undefined || prefix === undefined || rest.length > 0) return null;
  // `isIP` first: ipaddr.js also reads `10.1` and octal spellings, which nobody means in a settings file.
  if (!isAddress(network) || !/^\d{1,3}$/.test(prefix)) return null;
  const address = ipaddr.parse(network);
  const length = Number(prefix);
  return length <= address.toByteArray().length * 8 ? unwrapped([address, length]) : null;
}

const singleAddress = (text: string): Cidr => {
  const address = ipaddr.parse(text);
  return unwrapped([address, address.toByteArray().length * 8]);
};

/** `host`, `host:port`, an address, or an address with a port (IPv6 in brackets); null for anything else. */
function hostEntryOf(entry: string): AllowEntry | null {
  if (isAddress(entry)) return { kind: 'range', range: singleAddress(entry), port: null };
  const parts = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(entry);
  if (parts?.[1] === undefined) return null;
  const host = plainHost(parts[1]);
  const port = parts[2] === undefined ? null : Number(parts[2]);
  if (port !== null && (port < 1 || port > 65_535)) return null;
  if (isAddress(host)) return { kind: 'range', range: singleAddress(host), port };
  // An all-numeric last label is read as an address by every URL parser; such a name could never match.
  return HOST_NAME.test(host) && !/(^|\.)\d+$/.test(host) && !parts[1].startsWith('[')
    ? { kind: 'host', host, port }
    : null;
}

function suffixEntryOf(entry: string): AllowEntry | null {
  const suffix = plainHost(entry.slice(2));
  return HOST_NAME.test(suffix) && !isAddress(suffix) ? { kind: 'suffix', suffix } : null;
}

function rangeEntryOf(entry: string): AllowEntry | null {
  const range = cidrOf(entry);
  return range === null ? null : { kind: 'range', range, port: null };
}

function allowEntryOf(entry: string): AllowEntry {
  const read = entry.includes('/') ? rangeEntryOf : entry.startsWith('*.') ? suffixEntryOf : hostEntryOf;
  const found = read(entry);
  if (found === null) throw malformed(entry, 'host, host:port, *.suffix or CIDR');
  return found;
}

/**
 * Reads `TOOL_EGRESS_ALLOWED_HOSTS`: a comma list of `host`, `host:port`, `*.suffix` (names below it, not itself) and CIDR.
 * An address is read as a range of one.
 * @throws EgressListError naming the entry that has none of these forms.
 */
export const parseAllowList = (text: string): AllowEntry[] => entriesOf(text).map(allowEntryOf);

/**
 * Reads `EGRESS_DENIED_CIDRS`: a comma list of CIDRs; a bare address is a range of one.
 * @throws EgressListError naming the entry that is neither.
 */
export function parseCidrs(text: string): Cidr[] {
  return entriesOf(text).map((entry) => {
    const range = isAddress(entry) ? singleAddress(entry) : cidrOf(entry);
    if (range === null) throw malformed(entry, 'CIDR');
    return range;
  });
}

const inRange = (address: Address, [network, length]: Cidr): boolean =>
  address.kind() === network.kind() && address.match([network, length]);

const ipv4Of = (high = 0, low = 0): ipaddr.IPv4 =>
  new ipaddr.IPv4([(high >> 8) & 255, high & 255, (low >> 8) & 255, low & 255]);

/**
 * The IPv4 addresses that packets to a transition address end at (or pass through); null when it is no such form,
 * empty when it is one whose end cannot be told.
 */
function embedded(address: ipaddr.IPv6): ipaddr.IPv4[] | null {
  const parts = address.parts;
  const range = address.range();
  if (range === 'ipv4Mapped') return [address.toIPv4Address()];
  if (range === '6to4') return [ipv4Of(parts[1], parts[2])];
  // NAT64. 64:ff9b:1::/48 leaves the place of the IPv4 part to each network; only where the bits between are zero can no
  // layout hide another address than the last 32 bits.
  if (range === 'rfc6052') return parts.slice(3, 6).every((part) => part === 0) ? [ipv4Of(parts[6], parts[7])] : [];
  if (range !== 'teredo') return null;
  // Server, then the client, whose bits are stored inverted.
  return [ipv4Of(parts[2], parts[3]), ipv4Of((parts[6] ?? 0) ^ 0xffff, (parts[7] ?? 0) ^ 0xffff)];
}

/**
 * Whether an address (as a resolver or a URL parser writes it) is on the public internet: `unicast` after unwrapping
 * IPv4-mapped, NAT64, 6to4 and Teredo forms, and in none of `deniedCidrs`. Anything that is no address is not public.
 * Spec: Webhooks, URL rules.
 */
export function isPublicAddress(text: string, deniedCidrs: readonly Cidr[] = []): boolean {
  if (!isAddress(text)) return false;
  const address = ipaddr.parse(text);
  const denied = (candidate: Address): boolean => deniedCidrs.some((range) => inRange(candidate, range));
  if (denied(address)) return false;
  const ends = address instanceof ipaddr.IPv6 ? embedded(address) : [address];
  if (ends === null) return address.range() === 'unicast' && inRange(address, GLOBAL_IPV6);
  return ends.length > 0 && ends.every((end) => end.range() === 'unicast' && !denied(end));
}

/** The same address without the IPv4-mapped wrapping, which the operating system sees as IPv4 too. */
const unmapped = (address: Address): Address =>
  address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address;

function syntaxFault(text: string, url: URL, allowHttp: boolean): string | null {
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) return 'the scheme must be https';
  if (url.username !== '' || url.password !== '' || /^[a-z]+:\/*[^/?#]*@/i.test(text))
    return 'user info is not allowed';
  if (text.includes('#')) return 'a fragment is not allowed';
  return null;
}

/**
 * Builds the guard's rules from the parsed settings. The allow list wins over the address rules, the denied ranges included.
 * Spec: Tools, egress rule.
 */
export function createEgressPolicy(lists: {
  allowedHosts: readonly AllowEntry[];
  deniedCidrs: readonly Cidr[];
}): EgressPolicy {
  const { allowedHosts, deniedCidrs } = lists;
  const portMatches = (entryPort: number | null, port: number): boolean => entryPort === null || entryPort === port;

  const hostAllowed = (host: string, port: number): boolean => {
    const name = plainHost(host);
    return allowedHosts.some((entry) => {
      if (entry.kind === 'host') return entry.host === name && portMatches(entry.port, port);
      return entry.kind === 'suffix' && isIP(name) === 0 && name.endsWith(`.${entry.suffix}`);
    });
  };

  const rangeAllowed = (address: string, port: number): boolean => {
    if (!isAddress(address)) return false;
    const candidate = unmapped(ipaddr.parse(address));
    return allowedHosts.some(
      (entry) => entry.kind === 'range' && portMatches(entry.port, port) && inRange(candidate, entry.range),
    );
  };

  const addressAllowed = (address: string, host: string, port: number): boolean =>
    isPublicAddress(address, deniedCidrs) || rangeAllowed(address, port) || hostAllowed(host, port);

  const checkUrl = (text: string, { allowHttp = false }: { allowHttp?: boolean } = {}): UrlVerdict => {
    const refused = (reason: string): UrlVerdict => ({ ok: false, reason });
    if (text.length > URL_LENGTH_MAX) return refused(`at most ${String(URL_LENGTH_MAX)} characters`);
    // The URL parser drops or turns these silently; what is stored would differ from what is called.
    if (/[\s\\\p{Cc}]/u.test(text) || !/^[a-z][a-z0-9+.-]*:\/\/[^/]/i.test(text) || !URL.canParse(text))
      return refused('must be an absolute URL');
    const url = new URL(text);
    const fault = syntaxFault(text, url, allowHttp);
    if (fault !== null) return refused(fault);
    const host = plainHost(url.hostname);
    const port = portOf(url);
    if (isIP(host) !== 0) {
      return addressAllowed(host, host, port) ? { ok: true, url } : refused('the address must be public');
    }
    if (LOCAL_NAME.test(host) && !hostAllowed(host, port)) return refused('the host must be public');
    return { ok: true, url };
  };

  return { hostAllowed, addressAllowed, checkUrl };
}
