import { verifyWebhook } from '@agent-platform/sdk';
import type { HeadersLike } from '@agent-platform/sdk';
import { Webhook } from 'standardwebhooks';
import { signedHeaders } from '../../src/api/webhooks/signing';

const SECRET = 'whsec_4mZk0cVt8sYw2Qf6LrB1nXaP9dGhJ3uE7oTiKbRvCyM=';
const OTHER = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const AT = 1_790_856_000;
const now = (): number => AT * 1000;
const EVENT = {
  id: 'evt_7Hq2ZsN4kLwXc0Vb',
  type: 'project.paused',
  project_id: 'proj_V1StGXR8Z5jdHi6B',
  resource_type: 'project',
  resource_id: 'proj_V1StGXR8Z5jdHi6B',
  data: { pause_reason: 'Grüße 🌳' },
  created_at: '2026-10-01T12:00:00.000Z',
};
const BODY = JSON.stringify(EVENT);

const signed = (given: { secret?: string; body?: string; eventId?: string; atSeconds?: number } = {}) =>
  signedHeaders({
    deliveryId: 'whd_7Hq2ZsN4kLwXc0Vb',
    eventId: EVENT.id,
    eventType: EVENT.type,
    body: BODY,
    secret: SECRET,
    atSeconds: AT,
    ...given,
  });

const verdict = async (
  headers: HeadersLike,
  given: { body?: string; secrets?: string | string[]; at?: number } = {},
): Promise<unknown> => {
  const { body = BODY, secrets = SECRET, at = AT } = given;
  return verifyWebhook(body, headers, secrets, { now: () => at * 1000 }).then(
    () => 'taken',
    (error: unknown) => (error as { reason?: string }).reason,
  );
};

test('takes what the service signs, as text and as bytes, with the headers of any server', async () => {
  const headers = signed();
  expect(await verifyWebhook(BODY, headers, SECRET, { now })).toEqual(EVENT);
  expect(await verifyWebhook(Buffer.from(BODY), new Headers(headers), SECRET, { now })).toEqual(EVENT);
  const bytes = new TextEncoder().encode(BODY);
  expect(await verifyWebhook(bytes.buffer, headers, SECRET, { now })).toEqual(EVENT);
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]]));
  expect(await verifyWebhook(BODY, lower, SECRET, { now })).toEqual(EVENT);
});

test('agrees with the library of the Standard Webhooks project', async () => {
  const library = new Webhook(SECRET);
  const date = new Date();
  const atSeconds = Math.floor(date.getTime() / 1000);
  const theirs = {
    'webhook-id': EVENT.id,
    'webhook-timestamp': String(atSeconds),
    'webhook-signature': library.sign(EVENT.id, date, BODY),
  };
  expect(await verifyWebhook(BODY, theirs, SECRET)).toEqual(EVENT);
  expect(library.verify(BODY, signed({ atSeconds }))).toEqual(EVENT);
});

test('refuses a changed body, another secret, another event id and a signature of another kind', async () => {
  expect(await verdict(signed(), { body: BODY.replace('paused', 'pausee') })).toBe('signature');
  expect(await verdict(signed(), { secrets: OTHER })).toBe('signature');
  expect(await verdict({ ...signed(), 'webhook-id': 'evt_other' })).toBe('signature');
  expect(
    await verdict({ ...signed(), 'webhook-signature': signed()['webhook-signature']!.replace('v1,', 'v2,') }),
  ).toBe('signature');
  expect(await verdict({ ...signed(), 'webhook-signature': 'v1,%%%' })).toBe('signature');
  expect(await verdict(signed({ eventId: 'evt_other' }))).toBe('payload');
  expect(await verdict(signed({ body: 'no json' }), { body: 'no json' })).toBe('payload');
});

test('refuses what is too old or too new, and what has no headers', async () => {
  expect(await verdict(signed(), { at: AT + 300 })).toBe('taken');
  expect(await verdict(signed(), { at: AT + 301 })).toBe('timestamp');
  expect(await verdict(signed(), { at: AT - 301 })).toBe('timestamp');
  await expect(
    verifyWebhook(BODY, signed(), SECRET, { now: () => now() + 6_000, toleranceSeconds: 5 }),
  ).rejects.toThrow('too old');
  expect(await verdict({})).toBe('headers');
  expect(await verdict({ ...signed(), 'webhook-timestamp': 'soon' })).toBe('headers');
  expect(await verdict(signed(), { secrets: 'hunter2' })).toBe('secret');
  expect(await verdict(signed(), { secrets: [] })).toBe('secret');
});

test('takes any of several secrets against any of several signatures', async () => {
  const [mine, others] = [signed(), signed({ secret: OTHER })];
  expect(await verdict(mine, { secrets: [OTHER, SECRET] })).toBe('taken');
  const both = `${others['webhook-signature']!} v2,abc ${mine['webhook-signature']!}`;
  expect(await verdict({ ...mine, 'webhook-signature': both })).toBe('taken');
});
