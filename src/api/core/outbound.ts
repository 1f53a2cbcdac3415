import { config } from './config';
import { createEgressPolicy, parseAllowList, parseCidrs } from './egress';
import type { EgressPolicy } from './egress';
import { createOutbound } from './http';
import type { Lookup, Outbound } from './http';
import { resolveAll } from './http-guard';

/** Who resolves the hosts of outbound requests. An object, so that tests can ask a server of their own. */
export const resolver: { lookup: Lookup } = { lookup: resolveAll };

let policy: EgressPolicy | undefined;
let shared: Outbound | undefined;

/** What this deployment lets tenants reach, from `TOOL_EGRESS_ALLOWED_HOSTS` and `EGRESS_DENIED_CIDRS`. */
export function egressPolicy(): EgressPolicy {
  policy ??= createEgressPolicy({
    allowedHosts: parseAllowList(config().TOOL_EGRESS_ALLOWED_HOSTS),
    deniedCidrs: parseCidrs(config().EGRESS_DENIED_CIDRS),
  });
  return policy;
}

/** The one outbound HTTP client of this process: everything a tenant can make the service request goes through it. */
export function outbound(): Outbound {
  shared ??= createOutbound({ policy: egressPolicy(), lookup: (hostname) => resolver.lookup(hostname) });
  return shared;
}

/** Ends its connections. */
export async function closeOutbound(): Promise<void> {
  const open = shared;
  shared = undefined;
  await open?.close();
}
