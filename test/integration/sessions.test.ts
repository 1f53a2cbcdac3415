import { SignJWT } from 'jose';
import { MockActivityEnvironment } from '@temporalio/testing';
import { sweepActivities } from '../../src/activities/sweeps.activities';
import { digestOfSecret } from '../../src/api/auth/service';
import { config } from '../../src/api/core/config';
import { query, queryOne } from '../../src/api/core/db';
import { signingKey } from '../../src/api/core/keys';
import type { RemovalPiece } from '../../src/workflows/sweeps.contract';
import { useService } from '../support/app';
import type { Reply } from '../support/client';
import { freshEmail, plantCode, signIn } from '../support/sign-in';

const service = useService();

const refresh = (body: object = {}, headers?: Record<string, string>): Promise<Reply> =>
  service.client().post('/v1/auth/refresh', body, headers);
const refreshBy = (token: string): Promise<Reply> => refresh({ refresh_token: token });
const logOut = (body: object = {}, headers?: Record<string, string>, bearer?: string): Promise<Reply> =>
  service.client(bearer).post('/v1/auth/logout', body, headers);
const works = async (access: string): Promise<number> => (await service.client(access).get('/v1/users/me')).status;
const cookieOf = (token: string): Record<string, string> => ({ Cookie: `theme=dark; svc_refresh=${token}; a=b` });
const letSecondsPass = (token: string, seconds: number): Promise<unknown[]> =>
  query('update refresh_tokens set spent_at = spent_at - make_interval(secs => $2) where hash = $1', [
    digestOfSecret(token),
    seconds,
  ]);
const families = (email: string): Promise<{ id: string; revoked_at: Date | null; expires_at: Date }[]> =>
  query('select f.* from session_families f join users u on u.id = f.user_id where u.email = $1', [email]);

const refused = {
  status: 401,
  body: { error: { code: 'unauthorized', message: 'A valid credential is required.' } },
  headers: { 'www-authenticate': 'Bearer' },
};
const foreign = { status: 403, body: { error: { code: 'access_denied' } } };

describe('POST /v1/auth/refresh', () => {
  test('gives a new session of the same family, in body and cookie', async () => {
    const { email, access, refresh: first } = await signIn(service);
    const answer = await refreshBy(first);
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body as object).sort()).toEqual(['access_token', 'expires_at', 'refresh_token']);
    const second = answer.body.refresh_token as string;
    expect(second).toMatch(/^svc_rt_[\w-]{43}$/);
    expect(second).not.toBe(first);
    expect(answer.headers['set-cookie']).toBe(
      `svc_refresh=${second}; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=2592000`,
    );
    const life = new Date(answer.body.expires_at as string).getTime() - Date.now();
    expect(life).toBeGreaterThan(880_000);
    expect(life).toBeLessThanOrEqual(900_000);
    expect([await works(access), await works(answer.body.access_token as string)]).toEqual([200, 200]);
    expect(await families(email)).toHaveLength(1);
    expect((await refreshBy(second)).status).toBe(200);
  });

  test('begins the life of the session again', async () => {
    const { email, refresh: first } = await signIn(service);
    await query(`update session_families set expires_at = now() + interval '1 hour' where id = $1`, [
      (await families(email))[0]?.id,
    ]);
    const answer = await refreshBy(first);
    const [family] = await families(email);
    const token = await queryOne<{ expires_at: Date }>('select expires_at from refresh_tokens where hash = $1', [
      digestOfSecret(answer.body.refresh_token as string),
    ]);
    for (const end of [family?.expires_at, token?.expires_at]) {
      const days = ((end?.getTime() ?? 0) - Date.now()) / 86_400_000;
      expect(days).toBeGreaterThan(29.99);
      expect(days).toBeLessThanOrEqual(30);
    }
  });

  test('[auth 4] takes a token spent 2 s ago, and ends the family at one spent 30 s ago', async () => {
    const { email, refresh: first } = await signIn(service);
    const second = await refreshBy(first);
    await letSecondsPass(first, 2);
    const third = await refreshBy(first);
    expect(third.status).toBe(200);
    expect(third.body.refresh_token).not.toBe(second.body.refresh_token);
    expect(await families(email)).toHaveLength(1);

    await letSecondsPass(first, 28);
    expect(await refreshBy(first)).toMatchObject(refused);
    expect((await families(email))[0]?.revoked_at).toBeInstanceOf(Date);
    for (const { body } of [second, third]) {
      expect(await works(body.access_token as string)).toBe(401);
      expect(await refreshBy(body.refresh_token as string)).toMatchObject(refused);
    }
  });

  test('counts the grace from the first spending, to its very end', async () => {
    const { refresh: first } = await signIn(service);
    await refreshBy(first);
    await letSecondsPass(first, 3);
    expect((await refreshBy(first)).status).toBe(200);
    await letSecondsPass(first, 3);
    expect(await refreshBy(first)).toMatchObject(refused);
  });

  test('of one token twenty times at once gives twenty tokens of one family, each good', async () => {
    const { email, refresh: first } = await signIn(service);
    const answers = await Promise.all(Array.from({ length: 20 }, () => refreshBy(first)));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    const tokens = answers.map(({ body }) => body.refresh_token as string);
    expect(new Set(tokens).size).toBe(20);
    expect(await families(email)).toHaveLength(1);
    const next = await Promise.all(tokens.map(refreshBy));
    expect(next.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(await Promise.all(next.map(({ body }) => works(body.access_token as string)))).toEqual(Array(20).fill(200));
  });

  test('a stolen token beside its owner ends both, whoever comes first', async () => {
    const { refresh: first } = await signIn(service);
    const second = (await refreshBy(first)).body.refresh_token as string;
    await letSecondsPass(first, 6);
    const answers = await Promise.all([refreshBy(first), refreshBy(second), refreshBy(second)]);
    expect(answers[0]).toMatchObject(refused);
    for (const { status, body } of answers.slice(1)) {
      if (status === 200) expect(await works(body.access_token as string)).toBe(401);
    }
    expect(await refreshBy(second)).toMatchObject(refused);
  });

  test.each([
    ['unknown', () => Promise.resolve(`svc_rt_${'A'.repeat(43)}`)],
    ['of another form', () => Promise.resolve('nonsense')],
    ['empty', () => Promise.resolve('')],
    ['a session token', async () => (await signIn(service)).access],
    ['an API key', async () => service.apiKey(await service.signedIn())],
    ['expired', () => altered(`update refresh_tokens set expires_at = now() where hash = $1`)],
    [
      'of a session that is over',
      () =>
        altered(`update session_families set expires_at = now()
          where id = (select family_id from refresh_tokens where hash = $1)`),
    ],
    [
      'revoked',
      () =>
        altered(`update session_families set revoked_at = now()
          where id = (select family_id from refresh_tokens where hash = $1)`),
    ],
  ])('refuses a token that is %s', async (_case, token) => {
    expect(await refreshBy(await token())).toMatchObject(refused);
  });

  async function altered(sql: string): Promise<string> {
    const { refresh: token } = await signIn(service);
    await query(sql, [digestOfSecret(token)]);
    return token;
  }

  test('refuses a request without a token', async () => {
    expect(await refresh()).toMatchObject(refused);
    expect(await refresh({}, { Cookie: 'svc_refresh=; other=1' })).toMatchObject(refused);
    const { access } = await signIn(service);
    expect(await service.client(access).post('/v1/auth/refresh', {})).toMatchObject(refused);
  });

  test.each([
    ['no text', { refresh_token: 7 }, 'refresh_token'],
    ['null', { refresh_token: null }, 'refresh_token'],
    ['an unknown property', { token: 'x' }, 'token'],
  ])('refuses %s', async (_case, body, path) => {
    const { refresh: token } = await signIn(service);
    expect(await refresh(body, cookieOf(token))).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path }] } },
    });
    expect((await refreshBy(token)).status).toBe(200);
  });
});

describe('the cookie', () => {
  test('refreshes without a body, and a token of the body wins over it', async () => {
    const one = await signIn(service);
    const other = await signIn(service);
    const byCookie = await service.client().post('/v1/auth/refresh', undefined, cookieOf(one.refresh));
    expect(byCookie.status).toBe(200);
    const byBody = await refresh({ refresh_token: other.refresh }, cookieOf('svc_rt_dead'));
    expect(byBody.status).toBe(200);
    expect(await refresh({ refresh_token: 'dead' }, cookieOf(byCookie.body.refresh_token as string))).toMatchObject(
      refused,
    );
    const me = await service.client(byBody.body.access_token as string).get('/v1/users/me');
    expect(me.body.email).toBe(other.email);
  });

  test.each([
    ['of another host', 'https://evil.test'],
    ['that is null', 'null'],
    ['of another port', 'http://localhost:3001'],
    ['of another scheme', 'https://localhost:3000'],
    ['that begins like ours', 'http://localhost:3000.evil.test'],
    ['in other letters', 'HTTP://LOCALHOST:3000'],
    ['that is empty', ''],
  ])('is refused to a page with an origin %s', async (_case, origin) => {
    const { refresh: token, access } = await signIn(service);
    const headers = { ...cookieOf(token), Origin: origin };
    const [refreshed, loggedOut] = [await refresh({}, headers), await logOut({}, headers)];
    expect(refreshed).toMatchObject(foreign);
    expect(loggedOut).toMatchObject(foreign);
    expect(refreshed.headers['set-cookie']).toBeUndefined();
    expect(loggedOut.headers['set-cookie']).toBeUndefined();
    expect(await works(access)).toBe(200);
    expect((await refreshBy(token)).status).toBe(200);
  });

  test.each([['http://localhost:3000'], ['https://app.people.test']])('is good for a page of %s', async (origin) => {
    config().ALLOWED_ORIGINS = ['https://app.people.test'];
    const { refresh: token } = await signIn(service);
    expect((await refresh({}, { ...cookieOf(token), Origin: origin })).status).toBe(200);
    config().ALLOWED_ORIGINS = [];
  });

  test('does not matter where the body has the token', async () => {
    const { refresh: token } = await signIn(service);
    const answer = await refresh({ refresh_token: token }, { ...cookieOf('x'), Origin: 'https://evil.test' });
    expect(answer.status).toBe(200);
  });
});

describe('POST /v1/auth/logout', () => {
  const cleared = 'svc_refresh=; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=0';

  test.each<[string, (given: { access: string; refresh: string }) => Promise<Reply>]>([
    ['the bearer', ({ access }) => logOut({}, {}, access)],
    ['the token of the body', ({ refresh: token }) => logOut({ refresh_token: token })],
    ['the cookie', ({ refresh: token }) => logOut({}, cookieOf(token))],
    ['a spent token', ({ refresh: token }) => refreshBy(token).then(() => logOut({ refresh_token: token }))],
    ['a bearer whose time is over', async ({ access }) => logOut({}, {}, await ended(access))],
  ])('ends the session of %s, and no other', async (_case, end) => {
    const session = await signIn(service);
    const elsewhere = await signIn(service, session.email);
    const answer = await end(session);
    expect([answer.status, answer.body]).toEqual([204, {}]);
    expect(answer.headers['set-cookie']).toBe(cleared);
    expect(await works(session.access)).toBe(401);
    expect(await refreshBy(session.refresh)).toMatchObject(refused);
    expect(await works(elsewhere.access)).toBe(200);
    expect((await refreshBy(elsewhere.refresh)).status).toBe(200);
  });

  /** The same token, ended an hour ago. */
  async function ended(access: string): Promise<string> {
    const [header, payload] = access.split('.').map((part) => Buffer.from(part, 'base64url').toString());
    const claims = JSON.parse(payload ?? '') as Record<string, unknown>;
    return new SignJWT({ ...claims, exp: Math.floor(Date.now() / 1000) - 3_600 })
      .setProtectedHeader(JSON.parse(header ?? '') as { alg: string })
      .sign(signingKey('session-token'));
  }

  test('ends each session that came with it', async () => {
    const [one, two, three] = [await signIn(service), await signIn(service), await signIn(service)];
    expect((await logOut({ refresh_token: two.refresh }, cookieOf(three.refresh), one.access)).status).toBe(204);
    expect([await works(one.access), await works(two.access), await works(three.access)]).toEqual([401, 401, 401]);
  });

  test('of a page of another origin leaves the cookie out, when something else came', async () => {
    const [one, two] = [await signIn(service), await signIn(service)];
    const headers = { ...cookieOf(two.refresh), Origin: 'https://evil.test' };
    expect((await logOut({}, headers, one.access)).status).toBe(204);
    expect([await works(one.access), await works(two.access)]).toEqual([401, 200]);
  });

  test('[auth 5] with `all` ends every session of the person; keys and other people stay', async () => {
    const first = await signIn(service);
    const second = await signIn(service, first.email);
    const other = await signIn(service);
    const userId = (await service.client(first.access).get('/v1/users/me')).body.id as string;
    const key = await service.apiKey({ token: first.access, userId, email: first.email });
    const answer = await logOut({ all: true }, {}, first.access);
    expect([answer.status, answer.headers['set-cookie']]).toEqual([204, cleared]);
    expect([await works(first.access), await works(second.access)]).toEqual([401, 401]);
    expect(await refreshBy(second.refresh)).toMatchObject(refused);
    expect([await works(key), await works(other.access)]).toEqual([200, 200]);
  });

  test.each(['body', 'cookie'])('with `all` takes the token of the %s too', async (place) => {
    const first = await signIn(service);
    const second = await signIn(service, first.email);
    const body = place === 'body' ? { all: true, refresh_token: first.refresh } : { all: true };
    expect((await logOut(body, place === 'cookie' ? cookieOf(first.refresh) : {})).status).toBe(204);
    expect(await works(second.access)).toBe(401);
  });

  test('of a session that is over ends no other one, though it asks for all', async () => {
    const first = await signIn(service);
    const second = await signIn(service, first.email);
    await logOut({}, {}, first.access);
    expect((await logOut({ all: true, refresh_token: first.refresh }, {}, first.access)).status).toBe(204);
    expect(await works(second.access)).toBe(200);
  });

  test('by an API key, or by what is no credential, ends nothing and clears the cookie', async () => {
    const { access, email } = await signIn(service);
    const userId = (await service.client(access).get('/v1/users/me')).body.id as string;
    const key = await service.apiKey({ token: access, userId, email });
    for (const bearer of [key, 'nonsense', `${access}x`]) {
      const answer = await logOut({ all: true }, {}, bearer);
      expect([answer.status, answer.headers['set-cookie']]).toEqual([204, cleared]);
    }
    expect([await works(access), await works(key)]).toEqual([200, 200]);
  });

  test('twice, and four times at once, is the same as once', async () => {
    const first = await signIn(service);
    const second = await signIn(service, first.email);
    const answers = await Promise.all(
      [first, second, first, second].map(({ access }) => logOut({ all: true }, {}, access)),
    );
    expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204]);
    expect((await logOut({}, {}, first.access)).status).toBe(204);
  });

  test('beside refreshes leaves no session alive', async () => {
    const { access, refresh: token } = await signIn(service);
    const [, ...refreshed] = await Promise.all([
      logOut({}, {}, access),
      ...Array.from({ length: 6 }, () => refreshBy(token)),
    ]);
    for (const { status, body } of refreshed)
      if (status === 200) expect(await works(body.access_token as string)).toBe(401);
    expect(await works(access)).toBe(401);
  });

  test('without bearer, token and cookie is 401', async () => {
    expect(await logOut({ all: true })).toMatchObject(refused);
    expect(await logOut({}, { Authorization: 'Basic YTpi' })).toMatchObject(refused);
  });

  test.each([
    ['all is no boolean', { all: 'yes' }, 'all'],
    ['the token is no text', { refresh_token: 1 }, 'refresh_token'],
    ['a property is unknown', { everywhere: true }, 'everywhere'],
  ])('is 400 where %s', async (_case, body, path) => {
    const { access } = await signIn(service);
    expect(await logOut(body, {}, access)).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path }] } },
    });
    expect(await works(access)).toBe(200);
  });

  test.each(['/v1/auth/refresh', '/v1/auth/logout', '/v1/auth/google'])('%s takes at most 64 KiB', async (path) => {
    const answer = await service.client().post(path, { refresh_token: 'x'.repeat(65_536) });
    expect(answer).toMatchObject({ status: 413, body: { error: { code: 'payload_too_large' } } });
  });
});

describe('a bearer that is none', () => {
  const head = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

  test('a refresh token, and the cookie alone, open no other route', async () => {
    const { refresh: token } = await signIn(service);
    expect(await works(token)).toBe(401);
    expect((await service.client().get('/v1/users/me', cookieOf(token))).status).toBe(401);
  });

  test('a session token under a header that asks for less, with the right signature, with none and with an empty one', async () => {
    const { access } = await signIn(service);
    const [header = '', payload = '', signature = ''] = access.split('.');
    const given = JSON.parse(Buffer.from(header, 'base64url').toString()) as object;
    for (const alg of ['none', 'None', 'nOnE', '', 'hs256', 'HS256 ', 'RS256', 'ES256', null, undefined]) {
      for (const proof of [signature, '', 'AA']) {
        expect(await works(`${head({ ...given, alg })}.${payload}.${proof}`)).toBe(401);
      }
      expect(await works(`${head({ ...given, alg })}.${payload}`)).toBe(401);
    }
  });

  test('a session token with claims of another, or a part too many', async () => {
    const [one, other] = [await signIn(service), await signIn(service)];
    const [header = '', payload = '', signature = ''] = one.access.split('.');
    const stolen = other.access.split('.')[1] ?? '';
    for (const token of [
      `${header}.${stolen}.${signature}`,
      `${one.access}.`,
      `${one.access}.${signature}`,
      `${header}.${payload}.${signature.slice(0, -1)}`,
      `${head({ alg: 'HS256', typ: 'JWT', b64: false, crit: ['b64'] })}.${payload}.${signature}`,
    ])
      expect(await works(token)).toBe(401);
    expect(await works(one.access)).toBe(200);
  });
});

describe('one code', () => {
  const verify = (email: string, code: string): Promise<Reply> =>
    service.client().post('/v1/auth/code/verify', { email, code });
  const otherThan = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

  test('[auth 3] shown rightly twenty times at once opens one session', async () => {
    const email = freshEmail();
    const code = await plantCode(email);
    const answers = await Promise.all(Array.from({ length: 20 }, () => verify(email, code)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    const others = answers.filter(({ status }) => status !== 200);
    for (const answer of others)
      expect(answer).toMatchObject({ status: 401, body: { error: { code: 'invalid_code' } } });
    expect(await families(email)).toHaveLength(1);
  });

  test('shown rightly and wrongly at once opens one session, or none after the fifth wrong one', async () => {
    const email = freshEmail();
    const code = await plantCode(email);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_each, at) => verify(email, at % 2 === 0 ? otherThan(code) : code)),
    );
    const right = answers.filter(({ status }) => status === 200).length;
    const exhausted = answers.filter(({ status }) => status === 429).length;
    expect(right + exhausted).toBe(1);
    expect(await families(email)).toHaveLength(right);
    expect(await verify(email, code)).toMatchObject({ status: 401, body: { error: { code: 'invalid_code' } } });
  });
});

describe('PATCH /v1/users/me', () => {
  const patch = (credential: string | undefined, body: object): Promise<Reply> =>
    service.client(credential).patch('/v1/users/me', body);

  test('changes the name by session and by account-wide key, and takes it away', async () => {
    const person = await service.signedIn();
    const named = await patch(person.token, { name: 'Ana' });
    expect(named).toMatchObject({ status: 200, body: { id: person.userId, email: person.email, name: 'Ana' } });
    expect(Object.keys(named.body as object).sort()).toEqual(
      ['created_at', 'email', 'email_verified', 'id', 'name', 'roles'].sort(),
    );
    const longest = 'n'.repeat(200);
    expect((await patch(await service.apiKey(person), { name: longest })).body.name).toBe(longest);
    expect((await patch(person.token, {})).body.name).toBe(longest);
    expect((await patch(person.token, { name: null })).body.name).toBeNull();
    expect((await service.client(person.token).get('/v1/users/me')).body.name).toBeNull();
  });

  test('is 401 without a credential, and 403 for the key of a project', async () => {
    const person = await service.signedIn();
    const key = await service.apiKey(person, { projectId: (await service.project(person)).id });
    expect(await patch(undefined, { name: 'x' })).toMatchObject(refused);
    expect(await patch(key, { name: 'x' })).toMatchObject(foreign);
    expect((await service.client(person.token).get('/v1/users/me')).body.name).toBeNull();
  });

  test.each([
    ['an empty name', { name: '' }, 'name'],
    ['201 characters', { name: 'n'.repeat(201) }, 'name'],
    ['no text', { name: 7 }, 'name'],
    ['the address', { email: 'other@x.test' }, 'email'],
    ['roles', { roles: ['admin'] }, 'roles'],
  ])('refuses %s', async (_case, body, path) => {
    const { token } = await service.signedIn();
    expect(await patch(token, body)).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path }] } },
    });
  });
});

describe('sweep/auth', () => {
  const activities = sweepActivities({ kinds: [] });
  const sweep = (table: string): Promise<RemovalPiece> =>
    new MockActivityEnvironment().run((input: { table: string; after: string }) => activities.removeRows(input), {
      table,
      after: '',
    });
  const stored = async (token: string): Promise<boolean> =>
    (await queryOne('select 1 from refresh_tokens where hash = $1', [digestOfSecret(token)])) !== null;

  test('removes tokens past their end, and keeps spent ones till then: they still end their family', async () => {
    const { refresh: first } = await signIn(service);
    const second = (await refreshBy(first)).body.refresh_token as string;
    const third = (await refreshBy(second)).body.refresh_token as string;
    await letSecondsPass(second, 86_400);
    await query(`update refresh_tokens set expires_at = now() - interval '1 second' where hash = $1`, [
      digestOfSecret(first),
    ]);
    expect((await sweep('refresh_tokens')).removed).toBeGreaterThan(0);
    expect([await stored(first), await stored(second), await stored(third)]).toEqual([false, true, true]);
    expect(await refreshBy(second)).toMatchObject(refused);
    expect(await refreshBy(third)).toMatchObject(refused);
  });

  test('removes ended sessions with their tokens', async () => {
    const { access, refresh: token } = await signIn(service);
    const other = await signIn(service);
    await logOut({}, {}, access);
    await sweep('session_families');
    expect([await stored(token), await stored(other.refresh)]).toEqual([false, true]);
  });
});
