/** Pure rules: how often an address may ask for a code. */

const MINUTE_MS = 60_000;
export const DAY_MS = 24 * 60 * MINUTE_MS;

export interface CodeCaps {
  perMinute: number;
  perDay: number;
}

/**
 * Seconds until an address may ask again, or null when it may now. The windows slide and are exact: a request is
 * refused when as many accepted ones as the cap already lie within the trailing minute or day. Spec: Limits.
 * @param acceptedMs times of accepted requests, newest first; those of the trailing day, or at least the newest `perDay`
 */
export function secondsUntilAllowed(acceptedMs: readonly number[], nowMs: number, caps: CodeCaps): number | null {
  const waitMs = Math.max(
    waitOf(acceptedMs, nowMs, { windowMs: MINUTE_MS, cap: caps.perMinute }),
    waitOf(acceptedMs, nowMs, { windowMs: DAY_MS, cap: caps.perDay }),
  );
  return waitMs <= 0 ? null : Math.ceil(waitMs / 1000);
}

/** The window has room again when the oldest of the newest `cap` requests has left it. */
function waitOf(acceptedMs: readonly number[], nowMs: number, rule: { windowMs: number; cap: number }): number {
  const oldest = acceptedMs[rule.cap - 1];
  return oldest === undefined ? 0 : oldest + rule.windowMs - nowMs;
}
