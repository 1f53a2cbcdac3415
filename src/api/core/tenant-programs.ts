import { createPrograms } from './programs';
import type { Programs } from './programs';

let shared: Programs | undefined;

/** Runs programs of tenants (schema checks, JSON Logic, jq) outside the event loop of this process, under their bounds. */
export function programs(): Programs {
  shared ??= createPrograms({});
  return shared;
}

/** Ends its threads. */
export async function closePrograms(): Promise<void> {
  const open = shared;
  shared = undefined;
  await open?.close();
}
