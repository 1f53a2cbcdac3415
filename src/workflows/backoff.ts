/** Pure arithmetic of retries: no time, no chance, no network. */

/** Attempts of a delivery that are counted; the fifth failure settles it. Spec: Delivery behaviour, rule 2. */
export const DELIVERY_ATTEMPTS_MAX = 5;

/** How far a wait may lie from the nominal one: a tenth either way. */
export const BACKOFF_SPREAD = 0.1;

const PLACE_WAIT_MS = { first: 1_000, longest: 60_000 };

/**
 * The wait after a failed attempt, in milliseconds: `baseMs` doubled once per earlier failure (20, 40, 80, 160 s for a
 * base of 20 s), times `factor`; null when no attempt remains. Spec: Delivery behaviour, rule 2.
 * @param failed number of the attempt that failed, from 1
 * @param factor jitter, from 0.9 to 1.1
 */
export const backoffMs = (failed: number, baseMs: number, factor: number): number | null =>
  failed >= DELIVERY_ATTEMPTS_MAX ? null : Math.round(baseMs * 2 ** (failed - 1) * factor);

/**
 * The wait for a free place of a webhook, in milliseconds: 1 s doubling to 60 s.
 * @param engineAttempt the engine's own number of the try, from 1
 */
export const placeWaitMs = (engineAttempt: number): number =>
  Math.min(PLACE_WAIT_MS.longest, PLACE_WAIT_MS.first * 2 ** (Math.max(1, engineAttempt) - 1));
