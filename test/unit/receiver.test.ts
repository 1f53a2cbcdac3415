import { Webhook } from 'standardwebhooks';
import { eventually } from '../support/eventually';
import type { Receiver } from '../support/receiver';
import { gapsMs, jsonOf, startReceiver, verifySignature } from '../support/receiver';

let receiver: Receiver;

beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(async () => {
  await receiver.close();
});

function post(path: string, body: unknown = {}): Promise<Response> {
  return fetch(`${receiver.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
}

test('it records requests and answers ok', async () => {
  const response = await post('/hook?a=1', { n: 1 });
  expect([response.status, await response.json()]).toEqual([200, { ok: true }]);
  const [request] = receiver.requests;
  expect(request).toMatchObject({ method: 'POST', path: '/hook?a=1', body: '{"n":1}' });
  expect(request?.headers['content-length']).toBe('7');
  expect(request === undefined ? null : jsonOf(request)).toEqual({ n: 1 });
});

test('a sequence serves one request each and its last the rest, per path', async () => {
  receiver.respond([{ status: 500 }, { status: 503, body: 'busy' }, { status: 204 }], '/hook');
  receiver.respond((request) => ({ status: 201, body: { saw: request.path }, headers: { 'x-test': 'yes' } }));
  const statuses: number[] = [];
  for (let round = 0; round < 4; round += 1) statuses.push((await post('/hook')).status);
  expect(statuses).toEqual([500, 503, 204, 204]);
  const other = await post('/other?q');
  expect([other.status, other.headers.get('x-test'), await other.json()]).toEqual([201, 'yes', { saw: '/other?q' }]);
  expect(gapsMs(receiver.requests)).toHaveLength(4);
});

test('a request waits at its gate until it is released', async () => {
  receiver.respond({ hold: 'gate', body: 'through' }, '/hook');
  let settled = false;
  const pending = post('/hook').finally(() => {
    settled = true;
  });
  await receiver.waitFor(1);
  // A whole other exchange passes meanwhile, so the held one has had every chance to end.
  expect((await post('/open')).status).toBe(200);
  expect(settled).toBe(false);
  expect(receiver.release('gate')).toBe(1);
  expect(await (await pending).text()).toBe('through');
});

test('a connection can be ended without an answer', async () => {
  receiver.respond({ disconnect: true });
  await expect(post('/hook')).rejects.toThrow();
  expect(receiver.requests).toHaveLength(1);
});

test('waiting finds later and earlier requests, and says what came when it fails', async () => {
  const later = receiver.waitFor((request) => request.path === '/second');
  await post('/first');
  await post('/second');
  expect((await later).path).toBe('/second');
  expect((await receiver.waitFor((request) => request.path === '/first')).path).toBe('/first');
  expect(await receiver.waitFor(2)).toHaveLength(2);
  await expect(receiver.waitFor(3, 20)).rejects.toThrow(
    /fewer than 3 requests in 20 ms; 2 came, last: POST \/first, POST \/second/,
  );
});

describe('verifySignature', () => {
  const secret = 'whsec_4mZk0cVt8sYw2Qf6LrB1nXaP9dGhJ3uE7oTiKbRvCyM=';
  const time = 1_790_856_000;
  const body =
    '{"id":"evt_7Hq2ZsN4kLwXc0Vb","type":"project.paused","project_id":"proj_V1StGXR8Z5jdHi6B","resource_type":"project",' +
    '"resource_id":"proj_V1StGXR8Z5jdHi6B","data":{"project_id":"proj_V1StGXR8Z5jdHi6B","paused_at":"2026-10-01T12:00:00.000Z",' +
    '"pause_reason":"manual"},"created_at":"2026-10-01T12:00:00.000Z"}';
  const headers = {
    'x-svc-signature': `t=${time},v1=60c332882f15091cf319c92502fff732568432844458d1675e50b91a4edf5bde`,
    'webhook-id': 'evt_7Hq2ZsN4kLwXc0Vb',
    'webhook-timestamp': String(time),
    'webhook-signature': 'v1,eaQWFmLqpKFT21nJAaMrvu3JfHYTY6Xe1xShb/kJU0o=',
  };

  test('accepts the published example within five minutes of its time', () => {
    expect(verifySignature({ headers, body }, secret, time)).toBe(true);
    expect(verifySignature({ headers, body }, secret, time + 300)).toBe(true);
    expect(verifySignature({ headers, body }, secret, time + 301)).toBe(false);
    expect(verifySignature({ headers, body }, secret, time - 301)).toBe(false);
  });

  test.each([
    ['another body', { headers, body: `${body} ` }, secret],
    ['another secret', { headers, body }, 'whsec_AAAA0cVt8sYw2Qf6LrB1nXaP9dGhJ3uE7oTiKbRvCyM='],
    ['no own signature', { headers: { ...headers, 'x-svc-signature': undefined }, body }, secret],
    ['no standard signature', { headers: { ...headers, 'webhook-signature': undefined }, body }, secret],
    ['another event id', { headers: { ...headers, 'webhook-id': 'evt_other' }, body }, secret],
    ['another timestamp header', { headers: { ...headers, 'webhook-timestamp': String(time + 1) }, body }, secret],
    [
      'upper-case hex',
      { headers: { ...headers, 'x-svc-signature': headers['x-svc-signature'].toUpperCase() }, body },
      secret,
    ],
  ])('refuses %s', (_name, request, key) => {
    expect(verifySignature(request, key, time)).toBe(false);
  });

  test('agrees with the Standard Webhooks library on the standard half', () => {
    const signed = new Webhook(secret).sign('evt_7Hq2ZsN4kLwXc0Vb', new Date(time * 1000), body);
    expect(signed).toBe(headers['webhook-signature']);
  });
});

describe('eventually', () => {
  test('repeats until the assertion passes and answers its value', async () => {
    let tries = 0;
    const value = await eventually(
      async () => {
        tries += 1;
        await Promise.resolve();
        if (tries < 3) throw new Error(`try ${tries}`);
        return 'done';
      },
      { intervalMs: 1 },
    );
    expect([value, tries]).toEqual(['done', 3]);
  });

  test('throws the last error when the time is up', async () => {
    let tries = 0;
    const failing = eventually(
      () => {
        tries += 1;
        throw new Error(`try ${tries}`);
      },
      { timeoutMs: 20, intervalMs: 5 },
    );
    const error = await failing.catch((reason: unknown) => reason);
    expect(tries).toBeGreaterThan(1);
    expect(error).toEqual(new Error(`try ${tries}`));
  });
});
