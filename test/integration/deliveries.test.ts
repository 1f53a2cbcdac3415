import { Webhook as StandardWebhook } from 'standardwebhooks';
import { config } from '../../src/api/core/config';
import { query, queryOne } from '../../src/api/core/db';
import { engine, runEnded } from '../../src/api/core/temporal';
import { firstAttempts } from '../../src/api/webhooks/first-attempts';
import { startDelivery } from '../../src/api/webhooks/runs';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { ApiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { gapsMs, startReceiver, verifySignature } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { alterDelivery, deliveryRow, emit, recordOnly } from '../support/webhooks';

// Before the service's own ending, which closes the database and the engine.
afterAll(() => firstAttempts.drain(1_000));

const service = useService({ worker: true });
const BASE_MS = 300;

let owner: Person;
let client: ApiClient;
let projectId: string;
let receiver: Receiver;

beforeAll(async () => {
  owner = await service.signedIn();
  client = service.client(owner.token);
});

beforeEach(async () => {
  Object.assign(config(), {
    WEBHOOK_BACKOFF_BASE_SECONDS: BASE_MS / 1000,
    WEBHOOK_TIMEOUT_SECONDS: 10,
    DELIVERY_FIRST_ATTEMPT: 'inline',
  });
  projectId = (await service.project(owner)).id;
  receiver = await startReceiver();
});

afterEach(() => receiver.close());

const webhook = async (given: object = {}): Promise<{ id: string; secret: string }> => {
  const body = { url: `${receiver.url}/hook`, events: ['*'], ...given };
  const answer = await client.post(`/v1/projects/${projectId}/webhooks`, body);
  expect(answer.status).toBe(201);
  return answer.body as { id: string; secret: string };
};

const webhookPath = (id: string): string => `/v1/projects/${projectId}/webhooks/${id}`;
const deliveryPath = (id: string): string => `/v1/projects/${projectId}/webhook-deliveries/${id}`;

const only = async (ids: Promise<string[]>): Promise<string> => {
  const [id = '', ...rest] = await ids;
  expect(rest).toEqual([]);
  return id;
};

const settled = (id: string, timeoutMs = 15_000) =>
  eventually(
    async () => {
      const row = await deliveryRow(id);
      expect(row.status).not.toBe('pending');
      return row;
    },
    { timeoutMs },
  );

const attempted = (id: string, attempts: number) =>
  eventually(
    async () => {
      const row = await deliveryRow(id);
      expect(row.attempts).toBe(attempts);
      return row;
    },
    { timeoutMs: 10_000 },
  );

const runStatus = async (id: string): Promise<string> => (await engine().workflow.getHandle(id).describe()).status.name;

/** Puts the next attempt off for long, so that a test can do something in between; the run looks at the row. */
const HOUR_SECONDS = 3_600;

describe('a delivery', () => {
  test('[webhooks 1] arrives signed, at once, and without a run', async () => {
    const { id: webhookId, secret } = await webhook();
    const id = await only(emit(projectId));
    const request = await receiver.waitFor((given) => given.path === '/hook');
    expect(request.method).toBe('POST');
    expect(verifySignature(request, secret)).toBe(true);
    expect(verifySignature(request, 'whsec_4mZk0cVt8sYw2Qf6LrB1nXaP9dGhJ3uE7oTiKbRvCyM=')).toBe(false);
    const headers = request.headers as Record<string, string>;
    const envelope = JSON.parse(request.body) as Record<string, unknown>;
    expect(new StandardWebhook(secret).verify(request.body, headers)).toEqual(envelope);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'svc-webhooks/1',
      'x-svc-event': 'project.paused',
      'x-svc-delivery': id,
      'webhook-id': envelope.id,
    });
    expect(Object.keys(envelope)).toEqual([
      'id',
      'type',
      'project_id',
      'resource_type',
      'resource_id',
      'data',
      'created_at',
    ]);
    await settled(id);
    const read = await client.get(deliveryPath(id));
    expect(read.status).toBe(200);
    expect(read.body).toEqual({
      id,
      project_id: projectId,
      webhook_id: webhookId,
      event_id: envelope.id,
      event_type: 'project.paused',
      payload: envelope,
      status: 'success',
      status_code: 200,
      attempts: 1,
      next_attempt_at: null,
      last_attempt_at: expect.any(String) as string,
      response_body: '{"ok":true}',
      created_at: envelope.created_at,
      updated_at: expect.any(String) as string,
    });
    const attempts = await client.get(`${deliveryPath(id)}/attempts`);
    expect(attempts.body).toEqual({
      data: [
        {
          number: 1,
          started_at: read.body.last_attempt_at as string,
          duration_ms: expect.any(Number) as number,
          status_code: 200,
          error: null,
        },
      ],
      next_cursor: null,
    });
    await expect(runStatus(id)).rejects.toThrow('not found');
  });

  test('is recorded pending, for the process alone, before it is tried', async () => {
    await webhook();
    const before = Date.now();
    const row = await deliveryRow(await only(recordOnly(projectId)));
    expect(row).toMatchObject({ status: 'pending', attempts: 0, last_attempt_at: null, run_seen_at: null });
    expect(row.next_attempt_at).toEqual(row.created_at);
    expect(row.claimed_until?.getTime()).toBeGreaterThanOrEqual(before + 15_000);
    expect(row.claimed_until?.getTime()).toBeLessThanOrEqual(Date.now() + 15_000);
    expect(receiver.requests).toHaveLength(0);
  });

  test('[webhooks 6] is made once for each active webhook whose entries match', async () => {
    const both = await webhook({ events: ['project.*', 'project.paused', '*'] });
    await webhook({ events: ['generation.*'] });
    await webhook({ active: false });
    const ids = await emit(projectId);
    expect(ids).toHaveLength(1);
    const list = await client.get(`/v1/projects/${projectId}/webhook-deliveries`);
    expect((list.body.data as { webhook_id: string }[]).map((row) => row.webhook_id)).toEqual([both.id]);
    await settled(ids[0] ?? '');
  });

  test('and its event are not stored when nobody listens', async () => {
    await webhook({ events: ['generation.*'] });
    expect(await recordOnly(projectId)).toEqual([]);
    expect(await query('select id from events where project_id = $1', [projectId])).toEqual([]);
  });
});

describe('retries', () => {
  test('[webhooks 2] five attempts with growing waits, then it has failed, and so has its run', async () => {
    await webhook();
    // What the receiver asks for says nothing: the waits are the service's own.
    receiver.respond({ status: 500, body: 'broken', headers: { 'retry-after': '3600' } });
    const id = await only(emit(projectId));
    const row = await settled(id);
    expect(row).toMatchObject({
      status: 'failed',
      attempts: 5,
      next_attempt_at: null,
      status_code: 500,
      response_body: 'broken',
    });
    expect(row.claimed_until).toBeNull();
    expect(receiver.requests).toHaveLength(5);
    for (const [index, gap] of gapsMs(receiver.requests).entries()) {
      const nominal = BASE_MS * 2 ** index;
      // The run starts within the first wait, and may take what is left of it when that is no more than 0.2 s.
      expect(gap).toBeGreaterThanOrEqual(nominal * 0.9 - (index === 0 ? 205 : 5));
      expect(gap).toBeLessThanOrEqual(nominal * 1.1 + 2_000); // Beside the wait: the engine's own time on a busy machine.
    }
    expect(new Set(receiver.requests.map(({ body }) => body)).size).toBe(1);
    expect(new Set(receiver.requests.map(({ headers }) => headers['x-svc-delivery']))).toEqual(new Set([id]));
    const attempts = await client.get(`${deliveryPath(id)}/attempts`);
    expect((attempts.body.data as { number: number }[]).map(({ number }) => number)).toEqual([1, 2, 3, 4, 5]);
    expect(await runEnded(id, 5_000)).toBe(true);
    expect(await runStatus(id)).toBe('FAILED');
    // One early try at most, which finds the wait not over, and then one for each attempt: none was lost.
    const { events } = await engine().workflow.getHandle(id).fetchHistory();
    const tries = events?.map((event) => event.activityTaskStartedEventAttributes?.attempt ?? 0) ?? [];
    expect(Math.max(...tries)).toBeLessThanOrEqual(5);
  });

  test('[engine 1] a run is found by its attributes, and its history holds ids only', async () => {
    await webhook();
    receiver.respond([{ status: 500, body: 'canary-answer' }, {}]);
    const id = await only(emit(projectId));
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 2, response_body: '{"ok":true}' });
    expect((await deliveryRow(id)).run_seen_at).not.toBeNull();
    expect(await runEnded(id, 5_000)).toBe(true);
    expect(await runStatus(id)).toBe('COMPLETED');
    for (const attribute of [`ProjectId = "${projectId}"`, `ResourceId = "${id}"`]) {
      await eventually(async () => {
        const found: string[] = [];
        const runs = engine().workflow.list({ query: `${attribute} AND ResourceType = "webhook_delivery"` });
        for await (const run of runs) found.push(run.workflowId);
        expect(found).toEqual([id]);
      });
    }
    const history = JSON.stringify(await engine().workflow.getHandle(id).fetchHistory());
    const bytes = Buffer.from(history).toString('latin1');
    for (const canary of ['canary-answer', 'Grüße', receiver.url, 'whsec_']) expect(bytes).not.toContain(canary);
  });

  test("the planned time and the engine's armed timer agree", async () => {
    Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: 2 });
    const { id: webhookId } = await webhook();
    receiver.respond({ status: 500 });
    const id = await only(emit(projectId));
    await attempted(id, 1);
    const { next_attempt_at: planned } = await attempted(id, 2);
    const armed = await eventually(async () => {
      const { raw } = await engine().workflow.getHandle(id).describe();
      const { seconds, nanos } = raw.pendingActivities?.[0]?.nextAttemptScheduleTime ?? {};
      expect(seconds).toBeDefined();
      return Number(seconds) * 1_000 + (nanos ?? 0) / 1_000_000;
    });
    expect(Math.abs(armed - (planned?.getTime() ?? 0))).toBeLessThan(200);
    await client.delete(webhookPath(webhookId));
  });

  test.each([
    [302, { status: 302, headers: { location: '/elsewhere' } }],
    [404, { status: 404 }],
    [199 + 101, { status: 300 }],
  ])('[webhooks 4] an answer of %i is a failure, and redirects are not followed', async (status, answer) => {
    Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: HOUR_SECONDS });
    await webhook();
    receiver.respond(answer);
    const row = await attempted(await only(emit(projectId)), 1);
    expect(row).toMatchObject({ status: 'pending', status_code: status });
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/hook']);
  });

  test('a receiver that takes too long is left', async () => {
    Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: HOUR_SECONDS, WEBHOOK_TIMEOUT_SECONDS: 0.3 });
    await webhook();
    receiver.respond({ hold: 'never' });
    const id = await only(emit(projectId));
    expect(await attempted(id, 1)).toMatchObject({ status: 'pending', status_code: null, response_body: 'timeout' });
    const { data } = (await client.get(`${deliveryPath(id)}/attempts`)).body as { data: Record<string, unknown>[] };
    expect(data).toMatchObject([{ number: 1, status_code: null, error: 'timeout' }]);
    expect(data[0]?.duration_ms).toBeGreaterThanOrEqual(295);
  });

  test('a refused connection and a blocked address are named', async () => {
    Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: HOUR_SECONDS });
    const closed = await startReceiver();
    await closed.close();
    const { id: webhookId } = await webhook({ url: closed.url });
    expect(await attempted(await only(emit(projectId)), 1)).toMatchObject({
      status_code: null,
      response_body: 'connection_error: ECONNREFUSED',
    });
    // What was public at registration may be private later.
    await query('update webhooks set url = $2 where id = $1', [webhookId, 'https://10.0.0.5/']);
    expect(await attempted(await only(emit(projectId)), 1)).toMatchObject({
      status_code: null,
      response_body: 'egress_blocked',
    });
  });

  test('the kept answer is short and storable', async () => {
    await webhook();
    receiver.respond({ body: `\u0000${'a'.repeat(998)}👋${'b'.repeat(100_000)}` });
    const { response_body: kept } = await settled(await only(emit(projectId)));
    expect(kept).toBe(`\ufffd${'a'.repeat(998)}`);
  });
});

describe('what changes while a delivery is pending', () => {
  test('an attempt that somebody else has counted meanwhile changes nothing', async () => {
    await webhook();
    receiver.respond({ hold: 'never' });
    Object.assign(config(), { WEBHOOK_TIMEOUT_SECONDS: 0.5, WEBHOOK_BACKOFF_BASE_SECONDS: HOUR_SECONDS });
    const ids = [await only(emit(projectId)), await only(emit(projectId))];
    const [counted = '', other = ''] = ids;
    await alterDelivery(counted, "status = 'success', attempts = 1, status_code = 200");
    expect(await attempted(other, 1)).toMatchObject({ status: 'pending', response_body: 'timeout' });
    expect(await deliveryRow(counted)).toMatchObject({ status: 'success', attempts: 1, response_body: null });
  });

  /** One failed attempt, the second one to come when the test has made its change. */
  const failedOnce = async (): Promise<{ id: string; secret: string; webhookId: string }> => {
    Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: 1 });
    const { id: webhookId, secret } = await webhook();
    receiver.respond([{ status: 500 }, {}]);
    const id = await only(emit(projectId));
    await attempted(id, 1);
    return { id, secret, webhookId };
  };

  test('[webhooks 8] a rotated secret signs the next attempt, and the old one no longer verifies', async () => {
    const { id, secret, webhookId } = await failedOnce();
    const rotated = await client.post(`${webhookPath(webhookId)}:rotate-secret`);
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 2 });
    const [first, second] = receiver.requests;
    if (first === undefined || second === undefined) throw new Error('two requests were expected');
    expect([verifySignature(first, secret), verifySignature(second, secret)]).toEqual([true, false]);
    expect(verifySignature(second, rotated.body.secret as string)).toBe(true);
  });

  test('the next attempt goes to a changed URL', async () => {
    const { id, webhookId } = await failedOnce();
    await client.patch(webhookPath(webhookId), { url: `${receiver.url}/new` });
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 2 });
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/hook', '/new']);
  });

  test('a webhook that is switched off fails it, uncounted', async () => {
    const { id, webhookId } = await failedOnce();
    await client.patch(webhookPath(webhookId), { active: false });
    expect((await deliveryRow(id)).status).toBe('pending');
    expect(await settled(id)).toMatchObject({
      status: 'failed',
      attempts: 1,
      response_body: 'webhook_inactive',
      next_attempt_at: null,
    });
    expect(receiver.requests).toHaveLength(1);
  });

  test('with its webhook deleted nothing more is sent, and the run ends', async () => {
    const { id, webhookId } = await failedOnce();
    await client.delete(webhookPath(webhookId));
    expect((await client.get(deliveryPath(id))).status).toBe(404);
    expect(await runEnded(id, 10_000)).toBe(true);
    expect(await runStatus(id)).toBe('COMPLETED');
    expect(receiver.requests).toHaveLength(1);
  });

  test('a secret that cannot be decrypted fails it at once', async () => {
    const { id: webhookId } = await webhook();
    await query('update webhooks set secret_data = $2 where id = $1', [webhookId, Buffer.alloc(64)]);
    const id = await only(emit(projectId));
    expect(await settled(id)).toMatchObject({
      status: 'failed',
      attempts: 0,
      response_body: 'secret_unavailable',
      next_attempt_at: null,
    });
    expect(receiver.requests).toHaveLength(0);
  });
});

describe('who makes the attempt', () => {
  test('with the engine from the first one on, every delivery has a run', async () => {
    Object.assign(config(), { DELIVERY_FIRST_ATTEMPT: 'engine' });
    await webhook();
    const id = await only(recordOnly(projectId));
    expect((await deliveryRow(id)).claimed_until).toBeNull();
    firstAttempts.offerById([id]);
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 1 });
    expect(await runEnded(id, 5_000)).toBe(true);
    expect(await runStatus(id)).toBe('COMPLETED');
  });

  test('a run does not send while the process that made the event has the claim', async () => {
    await webhook();
    const id = await only(recordOnly(projectId));
    const claimedUntil = new Date(Date.now() + 1_500);
    await alterDelivery(id, 'claimed_until = $2', [claimedUntil]);
    await startDelivery({ id, projectId });
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 1, claimed_until: null });
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.requests[0]?.at).toBeGreaterThanOrEqual(claimedUntil.getTime());
  });

  test('a run that is started early waits for the planned time, and starting it twice changes nothing', async () => {
    await webhook();
    const id = await only(recordOnly(projectId));
    const planned = new Date(Date.now() + 1_500);
    await alterDelivery(id, 'claimed_until = null, next_attempt_at = $2', [planned]);
    await Promise.all([startDelivery({ id, projectId }), startDelivery({ id, projectId })]);
    expect(await settled(id)).toMatchObject({ status: 'success', attempts: 1 });
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.requests[0]?.at).toBeGreaterThanOrEqual(planned.getTime() - 200);
  });

  test('[webhooks 7] at most ten are under way to one webhook, and the rest waits uncounted', async () => {
    await webhook();
    receiver.respond({ hold: 'gate' });
    const ids: string[] = [];
    for (let count = 0; count < 30; count += 1) ids.push(await only(emit(projectId)));
    await receiver.waitFor(10);
    // Runs of the other twenty come by, find no place, and come again.
    await eventually(
      async () => {
        const moved = await queryOne<{ count: number }>(
          'select count(*)::int as count from webhook_deliveries where project_id = $1 and next_attempt_at > created_at',
          [projectId],
        );
        expect(moved?.count).toBe(20);
      },
      { timeoutMs: 10_000 },
    );
    expect(receiver.requests).toHaveLength(10);
    receiver.release('gate');
    const rows = await Promise.all(ids.map((id) => settled(id, 25_000)));
    for (const row of rows) expect(row).toMatchObject({ status: 'success', attempts: 1 });
    expect(receiver.requests).toHaveLength(30);
  });
});

describe('reading', () => {
  test('filters combine, and a page goes on where the last one ended', async () => {
    const one = await webhook({ url: `${receiver.url}/one` });
    const two = await webhook({ url: `${receiver.url}/two`, events: ['project.resumed'] });
    const ids = [...(await emit(projectId)), ...(await emit(projectId, 'project.resumed'))];
    await Promise.all(ids.map((id) => settled(id)));
    const list = `/v1/projects/${projectId}/webhook-deliveries`;
    const count = async (search: string): Promise<number> =>
      ((await client.get(`${list}?${search}`)).body.data as unknown[]).length;
    expect(await count('')).toBe(3);
    expect(await count(`webhook_id=${one.id}`)).toBe(2);
    expect(await count(`webhook_id=${two.id}&event_type=project.resumed&status=success`)).toBe(1);
    expect(await count(`webhook_id=${two.id}&event_type=project.paused`)).toBe(0);
    expect(await count('status=failed')).toBe(0);
    expect(await count('webhook_id=whk_V1StGXR8Z5jdHi6B')).toBe(0);
    expect(await count('event_type=project')).toBe(0);
    const { data } = (await client.get(`${list}?webhook_id=${two.id}`)).body as { data: { event_id: string }[] };
    expect(await count(`event_id=${data[0]?.event_id ?? ''}`)).toBe(2);
    const first = await client.get(`${list}?limit=2`);
    const second = await client.get(`${list}?limit=2&cursor=${String(first.body.next_cursor)}`);
    expect(second.body.next_cursor).toBeNull();
    const seen = [first, second].flatMap(({ body }) => (body.data as { id: string }[]).map(({ id }) => id));
    expect(new Set(seen)).toEqual(new Set(ids));
    const misused = await client.get(`${list}?status=success&cursor=${String(first.body.next_cursor)}`);
    expect(misused.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'query.cursor' }] });
  });

  test.each([
    ['status=done', 'query.status'],
    ['event=project.paused', 'query.event'],
    ['event_id=%00', 'query.event_id'],
  ])('refuses %s', async (search, path) => {
    const answer = await client.get(`/v1/projects/${projectId}/webhook-deliveries?${search}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path }] });
  });

  test('needs a credential and membership, and finds nothing elsewhere', async () => {
    await webhook();
    const id = await only(recordOnly(projectId));
    const stranger = service.client((await service.signedIn()).token);
    const elsewhere = `/v1/projects/${(await service.project(owner)).id}/webhook-deliveries/${id}`;
    const requests = (base: string, as: ApiClient) => [
      as.get(base),
      as.get(`${base}/attempts`),
      as.post(`${base}:redeliver`),
    ];
    for (const answer of await Promise.all(requests(deliveryPath(id), service.client())))
      expect(answer.status).toBe(401);
    for (const answer of await Promise.all(requests(deliveryPath(id), stranger))) expect(answer.status).toBe(404);
    for (const answer of await Promise.all(requests(elsewhere, client))) expect(answer.status).toBe(404);
    for (const answer of await Promise.all(requests(deliveryPath('whd_1'), client))) expect(answer.status).toBe(404);
    const list = `/v1/projects/${projectId}/webhook-deliveries`;
    expect((await service.client().get(list)).status).toBe(401);
    expect((await stranger.get(list)).status).toBe(404);
  });

  test('a settled delivery past its retention is not found, a pending one is', async () => {
    await webhook();
    const id = await only(emit(projectId));
    await settled(id);
    const past = new Date(Date.now() - 31 * 86_400_000);
    await alterDelivery(id, 'created_at = $2', [past]);
    expect((await client.get(deliveryPath(id))).status).toBe(404);
    expect((await client.get(`${deliveryPath(id)}/attempts`)).status).toBe(404);
    expect((await client.post(`${deliveryPath(id)}:redeliver`)).status).toBe(404);
    expect((await client.get(`/v1/projects/${projectId}/webhook-deliveries`)).body.data).toEqual([]);
    const pending = await only(recordOnly(projectId));
    await alterDelivery(pending, 'created_at = $2', [past]);
    expect((await client.get(deliveryPath(pending))).status).toBe(200);
  });
});

describe('redeliver', () => {
  test('sends the same bytes as a new delivery to the present URL, and leaves the old one', async () => {
    const { id: webhookId } = await webhook();
    const id = await only(emit(projectId));
    await settled(id);
    const before = (await client.get(deliveryPath(id))).body as Record<string, unknown>;
    await client.patch(webhookPath(webhookId), { url: `${receiver.url}/moved` });
    const { secret } = (await client.post(`${webhookPath(webhookId)}:rotate-secret`)).body as { secret: string };
    const answer = await client.post(`${deliveryPath(id)}:redeliver`);
    expect(answer.status).toBe(202);
    expect(answer.body).toMatchObject({
      status: 'pending',
      attempts: 0,
      event_id: before.event_id,
      payload: before.payload,
    });
    expect(answer.body.id).not.toBe(id);
    expect(answer.body.next_attempt_at).toBe(answer.body.created_at);
    expect(await settled(answer.body.id as string)).toMatchObject({ status: 'success', attempts: 1 });
    const [first, second] = receiver.requests;
    if (first === undefined || second === undefined) throw new Error('two requests were expected');
    expect(second.body).toBe(first.body);
    expect(second.path).toBe('/moved');
    expect(verifySignature(second, secret)).toBe(true);
    expect((await client.get(deliveryPath(id))).body).toEqual(before);
  });

  test('is refused while the delivery is pending, and while the webhook is switched off', async () => {
    const { id: webhookId } = await webhook();
    const pending = await client.post(`${deliveryPath(await only(recordOnly(projectId)))}:redeliver`);
    expect([pending.status, pending.body.error.code]).toEqual([409, 'delivery_pending']);
    const id = await only(emit(projectId));
    await settled(id);
    await client.patch(webhookPath(webhookId), { active: false });
    const inactive = await client.post(`${deliveryPath(id)}:redeliver`);
    expect([inactive.status, inactive.body.error.code]).toEqual([409, 'webhook_inactive']);
    expect((await client.get(`/v1/projects/${projectId}/webhook-deliveries`)).body.data).toHaveLength(2);
  });
});

describe('recover', () => {
  test('sends again, oldest first, what failed and was not delivered since', async () => {
    const { id: webhookId } = await webhook();
    const ids: string[] = [];
    for (let count = 0; count < 4; count += 1) ids.push(await only(recordOnly(projectId)));
    const [old = '', lost = '', repaired = '', twice = ''] = ids;
    for (const id of ids)
      await alterDelivery(id, `status = 'failed', attempts = 5, next_attempt_at = null, claimed_until = null`);
    await alterDelivery(old, `created_at = created_at - interval '2 days'`);
    const again = await client.post(`${deliveryPath(repaired)}:redeliver`);
    await settled(again.body.id as string);
    const failedAgain = await client.post(`${deliveryPath(twice)}:redeliver`);
    await settled(failedAgain.body.id as string);
    await alterDelivery(failedAgain.body.id as string, `status = 'failed'`);
    const before = receiver.requests.length;
    const since = new Date(Date.now() - 86_400_000).toISOString();
    const answer = await client.post(`${webhookPath(webhookId)}:recover`, { since });
    expect([answer.status, answer.body]).toEqual([202, { count: 2 }]);
    await receiver.waitFor(before + 2);
    const events = async (id: string) => ((await client.get(deliveryPath(id))).body as { event_id: string }).event_id;
    const sent = receiver.requests.slice(before).map(({ body }) => (JSON.parse(body) as { id: string }).id);
    expect(new Set(sent)).toEqual(new Set([await events(lost), await events(twice)]));
    expect((await client.post(`${webhookPath(webhookId)}:recover`, { since })).body).toEqual({ count: 0 });
    const longer = new Date(Date.now() - 3 * 86_400_000).toISOString();
    expect((await client.post(`${webhookPath(webhookId)}:recover`, { since: longer })).body).toEqual({ count: 1 });
  });

  test('takes the oldest thousand of a call, and hands them over in that order', async () => {
    const { id: webhookId } = await webhook();
    const first = await only(recordOnly(projectId));
    // Ids fall while ages rise, so that neither stands for the other.
    const rest = (sql: string) => query(sql, [first]);
    await rest(
      `insert into events (id, project_id, type, resource_type, resource_id, body, causation, created_at)
       select id || n, project_id, type, resource_type, resource_id, body, causation, created_at + n * interval '1 second'
       from events, generate_series(1, 1000) n where id = (select event_id from webhook_deliveries where id = $1)`,
    );
    await rest(
      `insert into webhook_deliveries (id, project_id, webhook_id, event_id, event_type, status, attempts, redelivery,
         created_at, updated_at)
       select 'whd_' || lpad((2000 - n)::text, 6, '0') || id, project_id, webhook_id, event_id || n, event_type, 'failed', 5,
         redelivery, created_at + n * interval '1 second', updated_at
       from webhook_deliveries, generate_series(1, 1000) n where id = $1`,
    );
    await alterDelivery(first, `status = 'failed', next_attempt_at = null, claimed_until = null`);
    const offered = jest.spyOn(firstAttempts, 'offerById').mockReturnValue();
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const recover = () => client.post(`${webhookPath(webhookId)}:recover`, { since });
    expect((await recover()).body).toEqual({ count: 1_000 });
    const placeOf = async (ids: readonly string[]): Promise<number[]> =>
      (
        await query<{ place: number }>(
          `select extract(epoch from e.created_at - f.created_at)::int as place
           from unnest($1::text[]) with ordinality as o (id, nth) join webhook_deliveries d on d.id = o.id
           join events e on e.id = d.event_id, webhook_deliveries f where f.id = $2 order by o.nth`,
          [ids, first],
        )
      ).map(({ place }) => place);
    expect(await placeOf(offered.mock.calls[0]?.[0] ?? [])).toEqual(Array.from({ length: 1_000 }, (_, index) => index));
    expect((await recover()).body).toEqual({ count: 1 });
    expect(await placeOf(offered.mock.calls[1]?.[0] ?? [])).toEqual([1_000]);
    offered.mockRestore();
    await client.delete(webhookPath(webhookId));
  });

  test('two calls at once send each event once', async () => {
    const { id: webhookId } = await webhook();
    const id = await only(recordOnly(projectId));
    await alterDelivery(id, `status = 'failed', next_attempt_at = null, claimed_until = null`);
    receiver.respond({ hold: 'gate' });
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const answers = await Promise.all([1, 2, 3].map(() => client.post(`${webhookPath(webhookId)}:recover`, { since })));
    expect(answers.map(({ body }) => (body as { count: number }).count).sort()).toEqual([0, 0, 1]);
    receiver.release('gate');
  });

  test.each([
    ['nothing', {}],
    ['a time that is none', { since: 'yesterday' }],
    ['a time before the retention', { since: new Date(Date.now() - 31 * 86_400_000).toISOString() }],
  ])('refuses %s', async (_what, body) => {
    const { id } = await webhook();
    const answer = await client.post(`${webhookPath(id)}:recover`, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'since' }] });
  });

  test('is refused while the webhook is switched off', async () => {
    const { id } = await webhook({ active: false });
    const answer = await client.post(`${webhookPath(id)}:recover`, { since: new Date().toISOString() });
    expect([answer.status, answer.body.error.code]).toEqual([409, 'webhook_inactive']);
  });
});

// Last: a process that stops takes no first attempts any more.
test('a process that stops gives what it holds to the engine', async () => {
  await webhook();
  receiver.respond([{ hold: 'never' }, {}]);
  const held = await only(emit(projectId));
  await receiver.waitFor(1);
  await firstAttempts.drain(100);
  expect(await settled(held)).toMatchObject({ status: 'success', attempts: 1 });
  expect(await runEnded(held, 5_000)).toBe(true);
  expect(receiver.requests).toHaveLength(2);
  const late = await only(emit(projectId));
  expect(await settled(late)).toMatchObject({ status: 'success', attempts: 1 });
  expect(await runEnded(late, 5_000)).toBe(true);
});
