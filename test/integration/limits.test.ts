import request from 'supertest';
import { networkOf } from '../../src/api/core/client-ip';
import { config } from '../../src/api/core/config';
import { db, query, queryOne } from '../../src/api/core/db';
import { randomText } from '../../src/api/core/random';
import { RequestLimit } from '../../src/api/core/request-limit';
import { useService } from '../support/app';

const service = useService();
const hex = (): string => Math.floor(Math.random() * 65_536).toString(16);
/** An address that no other case uses. */
const fresh = (): string => `2001:db8:${hex()}:${hex()}::1`;

afterEach(() => jest.restoreAllMocks());

describe('requests of one address', () => {
  const from = (ip: string, path = '/v1/nonsense') => request(service.server).get(path).set('X-Forwarded-For', ip);

  test('[limits 1] the sixth of five is refused before anything else is looked at; health and the document still answer', async () => {
    jest.replaceProperty(config(), 'RATE_IP_LIMIT', 5);
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
    const ip = fresh();
    for (let index = 0; index < 5; index += 1) expect((await from(ip)).status).toBe(404);
    const refused = await from(ip);
    expect(refused.status).toBe(429);
    expect(refused.body).toEqual({
      error: { code: 'too_many_requests', message: 'Too many requests from this address.' },
    });
    expect(refused.headers['retry-after']).toBe('60');
    expect(refused.headers['x-request-id']).toBeDefined();
    expect((await from(ip, '/v1/users/me')).status).toBe(429);
    expect((await from(ip, '/health')).status).toBe(200);
    expect((await from(ip, '/openapi.json')).status).toBe(200);
    // The mailbox of local mode is not refused either; there is none here.
    expect((await from(ip, '/dev/mailbox?to=a@x.test')).status).toBe(404);
    expect((await from(fresh())).status).toBe(404);
  });

  test('the mailbox is exempt in local mode alone, where it is', async () => {
    jest.replaceProperty(config(), 'RATE_IP_LIMIT', 1);
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
    const ip = fresh();
    await from(ip);
    expect((await from(ip, '/dev/mailbox')).status).not.toBe(429);
    jest.replaceProperty(config(), 'localMode', false);
    expect((await from(ip, '/dev/mailbox')).status).toBe(429);
  });

  test('of many at once exactly as many are let through', async () => {
    jest.replaceProperty(config(), 'RATE_IP_LIMIT', 20);
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
    const ip = fresh();
    const replies = await Promise.all(Array.from({ length: 50 }, () => from(ip)));
    expect(replies.filter(({ status }) => status === 404)).toHaveLength(20);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(30);
  });

  test('[limits 2] without a trusted proxy the header says nothing; with one it tells callers apart', async () => {
    const before = await peerCount();
    await from(fresh());
    await from(fresh());
    await eventuallyCounted(before + 2);
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
    jest.replaceProperty(config(), 'RATE_IP_LIMIT', 1);
    const [one, other] = [fresh(), fresh()];
    expect([(await from(one)).status, (await from(other)).status, (await from(one)).status]).toEqual([404, 404, 429]);
    // What the caller put in front of what the proxy saw does not make another caller of it.
    expect((await from(`${fresh()}, ${one}`)).status).toBe(429);
  });

  test('IPv6 addresses of one network are one caller', async () => {
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
    jest.replaceProperty(config(), 'RATE_IP_LIMIT', 1);
    const ip = fresh();
    expect((await from(ip)).status).toBe(404);
    expect((await from(ip.replace(/::1$/, '::2'))).status).toBe(429);
  });

  /** Requests of the socket's own address that have reached the database. */
  async function peerCount(): Promise<number> {
    const row = await queryOne<{ count: number }>(
      `select coalesce(sum(count), 0)::int as count from rate_windows where kind = 'requests' and key = '127.0.0.1'`,
    );
    return row?.count ?? 0;
  }

  async function eventuallyCounted(count: number): Promise<void> {
    const until = Date.now() + 5_000;
    while ((await peerCount()) < count && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await peerCount()).toBeGreaterThanOrEqual(count);
  }
});

describe('sign-in calls of one address', () => {
  const call = (ip: string, path: 'code' | 'code/verify', email: string) =>
    request(service.server)
      .post(`/v1/auth/${path}`)
      .set('X-Forwarded-For', ip)
      .send(path === 'code' ? { email } : { email, code: '000000' });
  const someone = (): string => `${randomText(8).toLowerCase()}@limits.test`;

  beforeEach(() => {
    jest.replaceProperty(config(), 'RATE_AUTH_LIMIT', 20);
    jest.replaceProperty(config(), 'TRUST_PROXY', 1);
  });

  test('[limits 3] after twenty guesses the next call of either kind is refused, and refused ones do not count', async () => {
    const ip = fresh();
    const guesses = await Promise.all(Array.from({ length: 20 }, () => call(ip, 'code/verify', someone())));
    expect(guesses.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 401));
    const email = someone();
    for (const path of ['code', 'code/verify'] as const) {
      const refused = await call(ip, path, email);
      expect([refused.status, refused.body.error.code]).toEqual([429, 'too_many_requests']);
      expect(refused.headers['retry-after']).toBe('60');
    }
    expect(await query('select 1 from sign_in_codes where email = $1', [email])).toEqual([]);
    expect((await call(fresh(), 'code', email)).status).toBe(202);
    const counted = await queryOne<{ count: number }>(
      `select sum(count)::int as count from rate_windows where kind = 'sign-in' and key = $1`,
      [networkOf(ip)],
    );
    expect(counted?.count).toBe(20);
  });

  test('of many at once exactly twenty are let through, and other routes are not counted', async () => {
    const ip = fresh();
    const google = await request(service.server).post('/v1/auth/refresh').set('X-Forwarded-For', ip).send({});
    expect(google.status).toBe(401);
    const replies = await Promise.all(Array.from({ length: 40 }, () => call(ip, 'code/verify', someone())));
    expect(replies.filter(({ status }) => status === 401)).toHaveLength(20);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(20);
  });

  test('room comes back when the oldest calls have left the window', async () => {
    const ip = fresh();
    const second = Math.floor(Date.now() / 1000);
    await query(
      `insert into rate_windows (kind, key, second, count) values ('sign-in', $1, $2, 19), ('sign-in', $1, $3, 1)`,
      [networkOf(ip), second - 300, second - 290],
    );
    expect((await call(ip, 'code/verify', someone())).status).toBe(401);
  });
});

describe('the window that processes share', () => {
  const rules = { limit: 400, windowSeconds: 300 };
  const process = (given = rules): RequestLimit => new RequestLimit(() => given);
  const key = (): string => `tests-${randomText(8)}`;
  const take = async (limit: RequestLimit, name: string, times: number): Promise<number> => {
    let taken = 0;
    for (let index = 0; index < times; index += 1) if (await limit.take(name)) taken += 1;
    return taken;
  };

  test('alone a process is exact, in a row and at once', async () => {
    const limit = process();
    const [row, crowd] = [key(), key()];
    expect(await take(limit, row, 450)).toBe(400);
    const answers = await Promise.all(Array.from({ length: 450 }, () => limit.take(crowd)));
    expect(answers.filter(Boolean)).toHaveLength(400);
  });

  test('two processes at once let through the limit, and a twentieth more at most', async () => {
    for (let round = 0; round < 3; round += 1) {
      const name = key();
      const processes = [process(), process()];
      const taken = await Promise.all(processes.map((limit) => take(limit, name, 400)));
      const all = taken.reduce((sum, count) => sum + count, 0);
      expect(all).toBeGreaterThanOrEqual(400);
      expect(all).toBeLessThanOrEqual(420);
    }
  });

  test('a process that comes later knows what the others let through', async () => {
    const name = key();
    const first = process();
    expect(await take(first, name, 400)).toBe(400);
    await first.flush();
    expect(await process().take(name)).toBe(false);
  });

  test('far less than one statement a request', async () => {
    const name = key();
    const limit = process({ limit: 3_000, windowSeconds: 300 });
    const statements = jest.spyOn(db.connectionManager, 'getConnection');
    await take(limit, name, 1_000);
    await limit.flush();
    expect(statements.mock.calls.length).toBeLessThan(60);
    const written = await queryOne<{ count: number }>(
      'select sum(count)::int as count from rate_windows where key = $1',
      [name],
    );
    expect(written?.count).toBe(1_000);
  });

  test('what lies before the window is not counted; what was refused neither', async () => {
    const name = key();
    const second = Math.floor(Date.now() / 1000);
    await query(
      `insert into rate_windows (kind, key, second, instance, count) values
       ('requests', $1, $2, 'other', 390), ('requests', $1, $3, 'other', 400)`,
      [name, second - 290, second - 301],
    );
    const limit = process();
    expect(await take(limit, name, 30)).toBe(10);
    jest.spyOn(Date, 'now').mockReturnValue((second + 11) * 1000);
    expect(await take(limit, name, 400)).toBe(390);
  });
});
