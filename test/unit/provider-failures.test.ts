import { APICallError, InvalidResponseDataError } from '@ai-sdk/provider';
import { OutboundError } from '../../src/api/core/http-error';
import { providerFailureOf } from '../../src/api/providers/failures';

const NOW = Date.parse('2026-10-01T12:00:00Z');
const answered = (statusCode: number, headers: Record<string, string> = {}, message = 'said no') =>
  new APICallError({
    message,
    url: 'https://vendor.test',
    requestBodyValues: {},
    statusCode,
    responseHeaders: headers,
  });
const outbound = (kind: OutboundError['kind']) =>
  new TypeError('fetch failed', { cause: new OutboundError({ kind, detail: 'ECONNREFUSED', sent: false }) });

test.each([
  [400, false],
  [401, false],
  [403, false],
  [404, false],
  [409, false],
  [429, true],
  [500, true],
  [503, true],
  [529, true],
])('status %i: may pass = %s', (status, retryable) => {
  expect(providerFailureOf(answered(status), NOW)).toMatchObject({
    retryable,
    statusCode: status,
    message: `Provider returned ${String(status)}: said no`,
  });
});

test.each([
  ['7', 7_000],
  ['0.5', 500],
  ['Thu, 01 Oct 2026 12:00:30 GMT', 30_000],
  ['86400', 600_000],
  ['soon', null],
  ['-3', null],
])('Retry-After %s is a wait of %s ms', (header, waitMs) => {
  expect(providerFailureOf(answered(429, { 'retry-after': header }), NOW).retryAfterMs).toBe(waitMs);
});

test.each([
  ['connection', true],
  ['timeout', true],
  ['tls', true],
  ['egress_blocked', false],
  ['too_large', false],
  ['redirects', false],
] as const)('a request that fails by %s: may pass = %s', (kind, retryable) => {
  const failure = providerFailureOf(outbound(kind), NOW);
  expect([failure.retryable, failure.statusCode]).toEqual([retryable, null]);
});

test('an answer that cannot be read is final: it was paid for', () => {
  expect(providerFailureOf(answered(200), NOW)).toMatchObject({ retryable: false, statusCode: 200 });
  expect(providerFailureOf(new InvalidResponseDataError({ data: {} }), NOW)).toMatchObject({
    retryable: false,
    statusCode: null,
  });
});

test('messages are bounded', () => {
  expect(providerFailureOf(answered(400, {}, 'x'.repeat(10_000)), NOW).message.length).toBe(2_000);
});
