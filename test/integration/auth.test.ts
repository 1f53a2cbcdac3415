import { config } from '../../src/api/core/config';
import { query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { randomText } from '../../src/api/core/random';
import { engine } from '../../src/api/core/temporal';
import { useService } from '../support/app';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';

const service = useService({ worker: true });

const freshEmail = (): string => `${randomText(12).toLowerCase()}@codes.test`;
const ask = (email: string): Promise<Reply> => service.client().post('/v1/auth/code', { email });
const verify = (email: string, code: string): Promise<Reply> =>
  service.client().post('/v1/auth/code/verify', { email, code });

/** Puts what an address has asked for into the past, so that its caps have room again. */
const letSecondsPass = (email: string, seconds: number): Promise<unknown[]> =>
  query(
    // Sorted, so that all are gone before the first one is back: moved one by one they would meet.
    `with gone as (delete from rate_windows where kind = 'sign-in codes' and key = $1 returning *)
     insert into rate_windows (kind, key, second, instance, count)
     select kind, key, second - $2, instance, count from gone order by second`,
    [email, seconds],
  );

/** The code of the `count`th mail to an address. */
const mailedCode = (email: string, count = 1): Promise<string> =>
  eventually(
    () => {
      const mails = service.mails.filter((mail) => mail.to === email);
      expect(mails).toHaveLength(count);
      expect(mails[count - 1]?.code).toMatch(/^\d{6}$/);
      return mails[count - 1]?.code ?? '';
    },
    { timeoutMs: 15_000 },
  );

async function askAndRead(email: string): Promise<string> {
  expect(await ask(email)).toMatchObject({ status: 202, body: { expires_in: 600 } });
  return mailedCode(email);
}

/** A well-formed code that is not that one. */
const otherThan = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

interface CodeRow {
  id: string;
  run_seen_at: Date | null;
  hash: Buffer | null;
  life_seconds: number;
}

const codeRow = (email: string): Promise<CodeRow | null> =>
  queryOne(
    `select id, run_seen_at, hash, extract(epoch from expires_at - created_at)::float8 as life_seconds
     from sign_in_codes where email = $1`,
    [email],
  );

describe('signing in with a mailed code', () => {
  test('makes the account, opens a session and sets the cookie', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);

    const session = await verify(email, code);

    expect(session.status).toBe(200);
    const refreshToken: string = session.body.refresh_token;
    expect(refreshToken).toMatch(/^svc_rt_[\w-]{43}$/);
    const life = new Date(session.body.expires_at).getTime() - Date.now();
    expect(life).toBeGreaterThan(880_000);
    expect(life).toBeLessThanOrEqual(900_000);
    expect([session.headers['set-cookie']].flat()).toEqual([
      `svc_refresh=${refreshToken}; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=2592000`,
    ]);
    const me = await service.client(session.body.access_token).get('/v1/users/me');
    expect(me.status).toBe(200);
    expect(me.body).toMatchObject({ email, name: null, email_verified: true, roles: [] });
    const stored = await query<{ row: string }>('select t::text as row from refresh_tokens t');
    expect(stored.length).toBeGreaterThan(0);
    expect(JSON.stringify(stored)).not.toContain(Buffer.from(refreshToken).toString('hex'));
  });

  test('finds the account again the next time', async () => {
    const email = freshEmail();
    const first = await verify(email, await askAndRead(email));
    await letSecondsPass(email, 61);
    await ask(email);
    const second = await verify(email, await mailedCode(email, 2));
    const ids = await Promise.all(
      [first, second].map(async ({ body }) => {
        const me = await service.client(body.access_token).get('/v1/users/me');
        return me.body.id as string;
      }),
    );
    expect(ids[0]).toMatch(/^user_/);
    expect(ids[0]).toBe(ids[1]);
  });

  test('takes the field `address`, and any spelling of the address', async () => {
    const email = freshEmail();
    const asked = await service.client().post('/v1/auth/code', { address: `  ${email.toUpperCase()} ` });
    expect(asked.status).toBe(202);
    const code = await mailedCode(email);
    const answer = await service.client().post('/v1/auth/code/verify', { address: email.toUpperCase(), code });
    expect(answer.status).toBe(200);
  });

  test('activates memberships that wait for the address', async () => {
    const email = freshEmail();
    const project = await service.project(await service.signedIn());
    await query(
      `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at)
       values ($1, $2, null, $3, 'member', now(), now())`,
      [newId('member'), project.id, email],
    );
    const session = await verify(email, await askAndRead(email));
    const seen = await service.client(session.body.access_token).get(`/v1/projects/${project.id}`);
    expect(seen).toMatchObject({ status: 200, body: { id: project.id, role: 'member' } });
  });

  test('gives an address of ADMIN_EMAILS the platform role admin, once', async () => {
    const email = freshEmail();
    config().ADMIN_EMAILS.push(email);
    await verify(email, await askAndRead(email));
    await letSecondsPass(email, 61);
    await ask(email);
    const session = await verify(email, await mailedCode(email, 2));
    const me = await service.client(session.body.access_token).get('/v1/users/me');
    expect(me.body.roles).toEqual(['admin']);
  });

  test('[auth 3] opens one session when the right code is shown twice at once', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    const answers = await Promise.all([verify(email, code), verify(email, code)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401]);
    const families = await query(
      'select 1 from session_families f join users u on u.id = f.user_id where u.email = $1',
      [email],
    );
    expect(families).toHaveLength(1);
  });
});

describe('asking for a code', () => {
  test('[auth 1] answers known, unknown and suppressed addresses alike', async () => {
    const known = (await service.signedIn()).email;
    const suppressed = freshEmail();
    await query(`insert into suppressed_addresses values ($1, 'manual', now())`, [suppressed]);
    const answers = [await ask(known), await ask(freshEmail()), await ask(suppressed)].map(
      ({ status, body, headers: { 'x-request-id': _id, date: _date, ...headers } }) => ({ status, body, headers }),
    );
    expect(answers[0]).toMatchObject({ status: 202, body: { expires_in: 600 } });
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);

    expect((await ask(suppressed)).status).toBe(429);
    await eventually(async () => {
      expect((await codeRow(suppressed))?.run_seen_at).toBeInstanceOf(Date);
    });
    expect((await codeRow(suppressed))?.hash).toBeNull();
    expect(service.mails.filter((mail) => mail.to === suppressed)).toEqual([]);
    await mailedCode(known);
  });

  test('[auth 3] supersedes the former code', async () => {
    const email = freshEmail();
    const first = await askAndRead(email);
    await letSecondsPass(email, 61);
    expect((await ask(email)).status).toBe(202);
    const second = await mailedCode(email, 2);
    if (first !== second) expect((await verify(email, first)).status).toBe(401);
    expect((await verify(email, second)).status).toBe(200);
  });

  test('is capped at one a minute, and a refused request leaves the live code alone', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    const refused = await ask(email);
    expect(refused).toMatchObject({ status: 429, body: { error: { code: 'too_many_requests' } } });
    const waitSeconds = Number(refused.headers['retry-after']);
    expect(waitSeconds).toBeGreaterThan(30);
    expect(waitSeconds).toBeLessThanOrEqual(60);
    expect((await verify(email, code)).status).toBe(200);
  });

  test('is capped at ten a day, refused requests not counted', async () => {
    const email = freshEmail();
    for (let count = 0; count < 10; count += 1) {
      expect((await ask(email)).status).toBe(202);
      const second = await ask(email);
      expect(second.status).toBe(429);
      // Of two caps that hold the longer wait counts.
      if (count === 9) expect(Number(second.headers['retry-after'])).toBeGreaterThan(86_400 - 1_200);
      await letSecondsPass(email, 120);
    }
    const refused = await ask(email);
    expect(refused).toMatchObject({ status: 429, body: { error: { code: 'too_many_requests' } } });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(86_400 - 1_300);
    await letSecondsPass(email, 86_400 - 1_190);
    expect((await ask(email)).status).toBe(202);
  });

  test('twice at once finds room once', async () => {
    const email = freshEmail();
    const answers = await Promise.all([ask(email), ask(email), ask(email)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([202, 429, 429]);
  });

  test('[engine 3] leaves neither code nor address in the engine, and the code in no row', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    const row = await codeRow(email);
    expect(row?.life_seconds).toBe(600);
    const run = engine().workflow.getHandle(`mail/${row?.id ?? ''}`);
    await run.result();
    const described = await run.describe();
    expect(described.type).toBe('mail');
    expect(JSON.stringify([described.memo, described.typedSearchAttributes])).not.toContain(email);
    const history = JSON.stringify(await run.fetchHistory());
    const payloads = [...history.matchAll(/"data":"([^"]*)"/g)].map(([, data]) => Buffer.from(data ?? '', 'base64'));
    expect(payloads.length).toBeGreaterThan(0);
    for (const payload of payloads) {
      expect(payload.toString()).not.toContain(code);
      expect(payload.toString()).not.toContain(email);
    }
    expect(row?.hash?.toString()).not.toContain(code);
  });

  test('has its mail tried five times from 2 s on, within two minutes', async () => {
    const email = freshEmail();
    await askAndRead(email);
    const run = engine().workflow.getHandle(`mail/${(await codeRow(email))?.id ?? ''}`);
    const { events } = await run.fetchHistory();
    const tries = events?.flatMap(({ activityTaskScheduledEventAttributes: sent }) =>
      sent?.retryPolicy == null
        ? []
        : {
            attempts: sent.retryPolicy.maximumAttempts,
            coefficient: sent.retryPolicy.backoffCoefficient,
            firstSeconds: Number(sent.retryPolicy.initialInterval?.seconds),
            withinSeconds: Number(sent.scheduleToCloseTimeout?.seconds),
          },
    );
    expect(tries).toEqual([{ attempts: 5, coefficient: 2, firstSeconds: 2, withinSeconds: 120 }]);
  });
});

describe('guessing a code', () => {
  const wrongBody = { error: { code: 'invalid_code', message: 'The code is wrong or has expired.' } };

  test('[auth 2] may fail four times', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    for (let guess = 0; guess < 4; guess += 1) {
      expect(await verify(email, otherThan(code))).toMatchObject({ status: 401, body: wrongBody });
    }
    expect((await verify(email, code)).status).toBe(200);
  });

  test('[auth 2] destroys the code at the fifth wrong one', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    for (let guess = 0; guess < 4; guess += 1) await verify(email, otherThan(code));
    const fifth = await verify(email, otherThan(code));
    expect(fifth).toMatchObject({ status: 429, body: { error: { code: 'too_many_attempts' } } });
    expect(fifth.headers['retry-after']).toBeUndefined();
    expect(await verify(email, code)).toMatchObject({ status: 401, body: wrongBody });
  });

  test('is counted one by one when guesses come at once', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    const answers = await Promise.all(Array.from({ length: 8 }, () => verify(email, otherThan(code))));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([401, 401, 401, 401, 401, 401, 401, 429]);
    expect(await codeRow(email)).toBeNull();
  });

  test('answers an expired code, and an address that never asked, like a wrong code', async () => {
    const email = freshEmail();
    const code = await askAndRead(email);
    await query(`update sign_in_codes set expires_at = now() - interval '1 millisecond' where email = $1`, [email]);
    const expired = await verify(email, code);
    const never = await verify(freshEmail(), '123456');
    expect(expired).toMatchObject({ status: 401, body: wrongBody });
    expect(never.status).toBe(401);
    expect(never.body).toEqual(expired.body);
  });
});

describe('bad input', () => {
  test.each([
    ['nothing', {}, 'email'],
    ['both names', { email: 'a@x.test', address: 'a@x.test' }, 'email'],
    ['no address', { email: 'ana' }, 'email'],
    ['two addresses', { address: 'a@x.test, b@x.test' }, 'address'],
    ['no text', { email: 7 }, 'email'],
    ['an unknown property', { email: 'a@x.test', nmae: 1 }, 'nmae'],
  ])('code: %s', async (_case, body, path) => {
    const answer = await service.client().post('/v1/auth/code', body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });
  });

  test.each([
    ['no code', { email: 'a@x.test' }, 'code'],
    ['five digits', { email: 'a@x.test', code: '12345' }, 'code'],
    ['a number', { email: 'a@x.test', code: 123456 }, 'code'],
    ['no address', { code: '123456' }, 'email'],
    ['an unknown property', { email: 'a@x.test', code: '123456', remember: true }, 'remember'],
  ])('verify: %s', async (_case, body, path) => {
    const answer = await service.client().post('/v1/auth/code/verify', body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });
  });

  test.each(['/v1/auth/code', '/v1/auth/code/verify'])('%s takes bodies of at most 64 KiB', async (path) => {
    const answer = await service.client().post(path, { email: `a@${'x'.repeat(65_536)}` });
    expect(answer).toMatchObject({
      status: 413,
      body: { error: { code: 'payload_too_large', details: { limit_bytes: 65_536 } } },
    });
  });

  test('another method is 405', async () => {
    const answer = await service.client().delete('/v1/auth/code');
    expect(answer).toMatchObject({ status: 405, body: { error: { code: 'method_not_allowed' } } });
    expect(answer.headers.allow).toBe('POST');
  });
});
