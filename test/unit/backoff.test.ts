import fc from 'fast-check';
import { BACKOFF_SPREAD, DELIVERY_ATTEMPTS_MAX, backoffMs, placeWaitMs } from '../../src/workflows/backoff';

const BASE_MS = 20_000;

test.each([
  [1, 20_000],
  [2, 40_000],
  [3, 80_000],
  [4, 160_000],
])('[webhooks 2] after attempt %i the nominal wait is %i ms', (failed, waitMs) => {
  expect(backoffMs(failed, BASE_MS, 1)).toBe(waitMs);
});

test('the four waits sum to five minutes', () => {
  const waits = [1, 2, 3, 4].map((failed) => backoffMs(failed, BASE_MS, 1) ?? 0);
  expect(waits.reduce((total, wait) => total + wait)).toBe(300_000);
});

test.each([DELIVERY_ATTEMPTS_MAX, 6, 100])('no attempt follows attempt %i', (failed) => {
  expect(backoffMs(failed, BASE_MS, 1)).toBeNull();
});

test('[webhooks 2] jitter keeps each wait within a tenth of the nominal one', () => {
  const factors = fc.double({ min: 1 - BACKOFF_SPREAD, max: 1 + BACKOFF_SPREAD, noNaN: true });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), factors, (failed, factor) => {
      const waitMs = backoffMs(failed, BASE_MS, factor) ?? 0;
      const nominalMs = BASE_MS * 2 ** (failed - 1);
      return waitMs >= nominalMs * 0.9 - 1 && waitMs <= nominalMs * 1.1 + 1;
    }),
  );
});

test.each([
  [1, 1_000],
  [2, 2_000],
  [6, 32_000],
  [7, 60_000],
  [5_000, 60_000],
])('at the engine attempt %i the wait for a place is %i ms', (attempt, waitMs) => {
  expect(placeWaitMs(attempt)).toBe(waitMs);
});
