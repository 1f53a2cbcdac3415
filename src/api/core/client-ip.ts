import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** Bits of an IPv6 address that name one subscriber's network. */
const NETWORK_BITS = 64;
const PARTS_OF_NETWORK = NETWORK_BITS / 16;

/**
 * The address that a request comes from. Behind `proxies` trusted proxies it is that many addresses from the right of
 * `X-Forwarded-For`, where each proxy has written whom it saw; the leftmost when there are fewer. Without proxies the header
 * says nothing, since anybody can write it. IPv4 within IPv6 is told as IPv4. Spec: Limits, client IP.
 */
export function clientIp(peer: string, forwarded: string | undefined, proxies: number): string {
  const seen = proxies === 0 ? [] : (forwarded ?? '').split(',').filter((entry) => entry.trim() !== '');
  const told = seen.at(-Math.min(proxies, seen.length));
  return (told === undefined ? null : addressIn(told)) ?? addressIn(peer) ?? peer;
}

/** Callers come again: an address that was read lately is not read anew. */
const CACHED_MAX = 10_000;
const cached = (read: (text: string) => string): LRUCache<string, string> =>
  new LRUCache({ max: CACHED_MAX, memoMethod: read });

const addresses = cached((text) => {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1');
  return ipaddr.isValid(bare) ? ipaddr.process(bare).toString() : '';
});

/** An address as proxies write it, with or without a port; null when it is none. */
function addressIn(text: string): string | null {
  const address = addresses.memo(text);
  return address === '' ? null : address;
}

const networks = cached((ip) => {
  if (!ipaddr.isValid(ip)) return ip;
  const address = ipaddr.parse(ip);
  if (!(address instanceof ipaddr.IPv6)) return address.toString();
  const network = address.parts.slice(0, PARTS_OF_NETWORK).map((part) => part.toString(16));
  return `${network.join(':')}::/${String(NETWORK_BITS)}`;
});

/** What the limits count an address under: IPv4 by itself, IPv6 by its network of 64 bits. */
export const networkOf = (ip: string): string => networks.memo(ip);
