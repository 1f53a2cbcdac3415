import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@agent-platform/sdk';
import type { Client } from '@agent-platform/sdk';

const POLL_MS = 100;

/** The service's HTTP API as any user of the client sees it; a refusal is told at once, not tried again. */
export const clientOf = (baseUrl: string, credential?: string): Client =>
  createClient({ baseUrl, retry: { retries: 0 }, ...(credential === undefined ? {} : { accessToken: credential }) });

/**
 * Asks every 100 ms until the answer is there.
 * @throws Error saying what did not come within `timeoutMs`
 */
export async function poll<Found>(
  look: () => Promise<Found | undefined> | Found | undefined,
  { timeoutMs, goal }: { timeoutMs: number; goal: string },
): Promise<Found> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() >= end) throw new Error(`${goal} did not come within ${String(timeoutMs / 1000)} s`);
    await sleep(POLL_MS);
  }
}
