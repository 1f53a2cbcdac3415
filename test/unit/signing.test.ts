import { Webhook } from 'standardwebhooks';
import { signedHeaders } from '../../src/api/webhooks/signing';

// The worked example of the webhook contract: each value was computed outside this program.
const example = {
  deliveryId: 'whd_V1StGXR8Z5jdHi6B',
  eventId: 'evt_7Hq2ZsN4kLwXc0Vb',
  eventType: 'project.paused',
  secret: 'whsec_4mZk0cVt8sYw2Qf6LrB1nXaP9dGhJ3uE7oTiKbRvCyM=',
  atSeconds: 1790856000,
  body: '{"id":"evt_7Hq2ZsN4kLwXc0Vb","type":"project.paused","project_id":"proj_V1StGXR8Z5jdHi6B","resource_type":"project","resource_id":"proj_V1StGXR8Z5jdHi6B","data":{"project_id":"proj_V1StGXR8Z5jdHi6B","paused_at":"2026-10-01T12:00:00.000Z","pause_reason":"manual"},"created_at":"2026-10-01T12:00:00.000Z"}',
};

test('[webhooks 1] signs the worked example', () => {
  expect(Buffer.byteLength(example.body)).toBe(303);
  expect(signedHeaders(example)).toEqual({
    'Content-Type': 'application/json',
    'User-Agent': 'svc-webhooks/1',
    'X-Svc-Event': 'project.paused',
    'X-Svc-Delivery': 'whd_V1StGXR8Z5jdHi6B',
    'X-Svc-Signature': 't=1790856000,v1=60c332882f15091cf319c92502fff732568432844458d1675e50b91a4edf5bde',
    'webhook-id': 'evt_7Hq2ZsN4kLwXc0Vb',
    'webhook-timestamp': '1790856000',
    'webhook-signature': 'v1,eaQWFmLqpKFT21nJAaMrvu3JfHYTY6Xe1xShb/kJU0o=',
  });
});

test('[webhooks 1] a Standard Webhooks library accepts a delivery of now, and refuses another body', () => {
  const headers = signedHeaders({ ...example, atSeconds: Math.floor(Date.now() / 1000) });
  const receiver = new Webhook(example.secret);
  expect(receiver.verify(example.body, headers)).toEqual(JSON.parse(example.body));
  expect(() => receiver.verify(example.body.replace('manual', 'billing'), headers)).toThrow();
});

test('the bytes of a body that is not ASCII are what is signed', () => {
  const body = '{"text":"Grüße 👋"}';
  const headers = signedHeaders({ ...example, body, atSeconds: Math.floor(Date.now() / 1000) });
  expect(new Webhook(example.secret).verify(Buffer.from(body, 'utf8'), headers)).toEqual({ text: 'Grüße 👋' });
});

test('every attempt has a signature of its own time', () => {
  const first = signedHeaders(example);
  const second = signedHeaders({ ...example, atSeconds: example.atSeconds + 20 });
  expect(second['X-Svc-Signature']).not.toBe(first['X-Svc-Signature']);
  expect(second['webhook-signature']).not.toBe(first['webhook-signature']);
});
