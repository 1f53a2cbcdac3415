import { SignJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose';
import type { CryptoKey, JWTPayload } from 'jose';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { config } from '../../src/api/core/config';
import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { Reply } from '../support/client';
import { freshEmail } from '../support/sign-in';

const service = useService();
const CLIENT = 'client-of-the-tests.apps.googleusercontent.com';
const KEY_ID = 'key-1';

let pair: { publicKey: CryptoKey; privateKey: CryptoKey };
let provider: Server;
let providerUrl = '';
let asked = 0;
let answer: (req: IncomingMessage, res: ServerResponse) => void;
let round = 0;

beforeAll(async () => {
  pair = await generateKeyPair('RS256', { extractable: true });
  provider = createServer((req, res) => {
    asked += 1;
    answer(req, res);
  });
  await new Promise<void>((resolve) => {
    provider.listen(0, '127.0.0.1', resolve);
  });
  const address = provider.address();
  providerUrl = `http://127.0.0.1:${typeof address === 'object' && address !== null ? String(address.port) : ''}`;
});

afterAll(
  () =>
    new Promise((resolve) => {
      provider.closeAllConnections();
      provider.close(resolve);
    }),
);

/** A key set of another address, so that nothing of the test before is remembered. */
beforeEach(async () => {
  round += 1;
  asked = 0;
  config().GOOGLE_CLIENT_ID = CLIENT;
  config().GOOGLE_JWKS_URL = `${providerUrl}/certs/${String(round)}`;
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: KEY_ID, alg: 'RS256', use: 'sig' };
  answer = (_req, res) => {
    res.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [jwk] }));
  };
});

const seconds = (shift = 0): number => Math.floor(Date.now() / 1000) + shift;

const claimsOf = (given: JWTPayload): JWTPayload => ({
  iss: 'https://accounts.google.com',
  aud: CLIENT,
  sub: '110169484474386276334',
  email: freshEmail(),
  email_verified: true,
  iat: seconds(),
  exp: seconds(3_600),
  ...given,
});

interface Signing {
  header?: Record<string, unknown>;
  key?: CryptoKey | Uint8Array;
}

const tokenOf = (given: JWTPayload = {}, { header = {}, key = pair.privateKey }: Signing = {}): Promise<string> =>
  new SignJWT(claimsOf(given)).setProtectedHeader({ alg: 'RS256', kid: KEY_ID, typ: 'JWT', ...header }).sign(key);

const signIn = async (token: string | Promise<string>): Promise<Reply> =>
  service.client().post('/v1/auth/google', { id_token: await token });
const me = async ({ body }: Reply): Promise<Reply['body']> =>
  (await service.client(body.access_token as string).get('/v1/users/me')).body;

const refused = {
  status: 401,
  body: { error: { code: 'unauthorized', message: 'A valid credential is required.' } },
};
const notVerified = { status: 403, body: { error: { code: 'email_not_verified' } } };

describe('POST /v1/auth/google', () => {
  test('makes the account and opens a session, in body and cookie', async () => {
    const email = freshEmail();
    const session = await signIn(tokenOf({ email: ` ${email.toUpperCase()}`, name: 'Ana Example' }));
    expect(session.status).toBe(200);
    expect(Object.keys(session.body as object).sort()).toEqual(['access_token', 'expires_at', 'refresh_token']);
    expect(session.headers['set-cookie']).toBe(
      `svc_refresh=${String(session.body.refresh_token)}; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=2592000`,
    );
    expect(await me(session)).toMatchObject({ email, name: 'Ana Example', email_verified: true, roles: [] });
    const next = await service
      .client()
      .post('/v1/auth/refresh', { refresh_token: session.body.refresh_token as string });
    expect(next.status).toBe(200);
  });

  test('finds the account by its address; the name fills an empty one only', async () => {
    const person: Person = await service.signedIn();
    const first = await me(await signIn(tokenOf({ email: person.email, name: 'First' })));
    expect(first).toMatchObject({ id: person.userId, name: 'First' });
    expect(await me(await signIn(tokenOf({ email: person.email, name: 'Second' })))).toMatchObject({ name: 'First' });
    await service.client(person.token).patch('/v1/users/me', { name: null });
    expect(await me(await signIn(tokenOf({ email: person.email })))).toMatchObject({ name: null });
    expect(await me(await signIn(tokenOf({ email: person.email, name: 'Third' })))).toMatchObject({ name: 'Third' });
  });

  test.each<[string, unknown, string | null]>([
    ['that is no text', { given: 'Ana' }, null],
    ['that is blank', '  \t ', null],
    ['of 300 characters', 'n'.repeat(300), 'n'.repeat(200)],
    ['with control characters', 'Ana\u0000\r\nBcc: x', 'Ana Bcc: x'],
    ['cut within a character', `${'n'.repeat(199)}😀`, 'n'.repeat(199)],
  ])('takes a name %s as far as it goes', async (_case, name, expected) => {
    expect((await me(await signIn(tokenOf({ name })))).name).toBe(expected);
  });

  test('activates waiting memberships, and gives first operators their role', async () => {
    const email = freshEmail();
    const project = await service.project(await service.signedIn());
    await query(
      `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at)
       values ($1, $2, null, $3, 'admin', now(), now())`,
      [newId('member'), project.id, email],
    );
    config().ADMIN_EMAILS.push(email);
    const session = await signIn(tokenOf({ email }));
    expect(await me(session)).toMatchObject({ roles: ['admin'] });
    const seen = await service.client(session.body.access_token as string).get(`/v1/projects/${project.id}`);
    expect(seen).toMatchObject({ status: 200, body: { role: 'admin' } });
  });

  test('of one new address five times at once makes one account', async () => {
    const email = freshEmail();
    const token = await tokenOf({ email });
    const answers = await Promise.all(Array.from({ length: 5 }, () => signIn(token)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    const people = await Promise.all(answers.map(me));
    expect(new Set(people.map(({ id }) => id as string)).size).toBe(1);
  });

  test.each<[string, JWTPayload]>([
    ['with the short name of the issuer', { iss: 'accounts.google.com' }],
    ['ended 55 s ago', { exp: seconds(-55) }],
  ])('takes a token %s', async (_case, given) => {
    expect((await signIn(tokenOf(given))).status).toBe(200);
  });

  test('asks for the keys once, and again for a key that is new when some time has passed', async () => {
    await Promise.all([signIn(tokenOf()), signIn(tokenOf())]);
    await signIn(tokenOf());
    expect(asked).toBe(1);
    expect(await signIn(tokenOf({}, { header: { kid: 'key-2' } }))).toMatchObject(refused);
    expect(asked).toBe(1);
    const now = Date.now();
    const later = jest.spyOn(Date, 'now').mockImplementation(() => now + 45_000);
    try {
      expect(await signIn(tokenOf({}, { header: { kid: 'key-2' } }))).toMatchObject(refused);
    } finally {
      later.mockRestore();
    }
    expect(asked).toBe(2);
  });
});

describe('an id token that is none of ours', () => {
  test.each<[string, JWTPayload]>([
    ['for another client', { aud: 'another.apps.googleusercontent.com' }],
    ['for more than one client', { aud: [CLIENT, 'another.apps.googleusercontent.com'] }],
    ['without an audience', { aud: undefined }],
    ['of another issuer', { iss: 'https://accounts.google.com.evil.test' }],
    ['without an issuer', { iss: undefined }],
    ['ended 65 s ago', { exp: seconds(-65) }],
    ['without an end', { exp: undefined }],
    ['good from the next hour on', { nbf: seconds(3_600) }],
    ['of nobody', { sub: undefined }],
  ])('%s', async (_case, given) => {
    expect(await signIn(tokenOf(given))).toMatchObject(refused);
  });

  test('tampered with, or signed by another key of the same name', async () => {
    const [header = '', payload = '', signature = ''] = (await tokenOf({ email: 'owner@sign-in.test' })).split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as JWTPayload;
    const forged = Buffer.from(JSON.stringify({ ...claims, email: 'admin@sign-in.test' })).toString('base64url');
    expect(await signIn(`${header}.${forged}.${signature}`)).toMatchObject(refused);
    expect(await signIn(`${header}.${payload}.${signature.split('').reverse().join('')}`)).toMatchObject(refused);
    const stranger = await generateKeyPair('RS256');
    expect(await signIn(tokenOf({}, { key: stranger.privateKey }))).toMatchObject(refused);
  });

  test('not signed, signed with the public key as a secret, or by another algorithm; no key is even asked for', async () => {
    const [, payload = ''] = (await tokenOf()).split('.');
    const head = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const alg of ['none', 'None', 'NONE']) {
      expect(await signIn(`${head({ alg, typ: 'JWT', kid: KEY_ID })}.${payload}.`)).toMatchObject(refused);
    }
    const pem = new TextEncoder().encode(await exportSPKI(pair.publicKey));
    expect(await signIn(tokenOf({}, { header: { alg: 'HS256' }, key: pem }))).toMatchObject(refused);
    const pss = await generateKeyPair('PS256');
    expect(await signIn(tokenOf({}, { header: { alg: 'PS256' }, key: pss.privateKey }))).toMatchObject(refused);
    expect(asked).toBe(0);
  });

  test('that brings its own key, or says where one is', async () => {
    const stranger = await generateKeyPair('RS256', { extractable: true });
    const header = {
      jwk: await exportJWK(stranger.publicKey),
      jku: `${providerUrl}/of-the-caller`,
      x5u: `${providerUrl}/of-the-caller`,
    };
    expect(await signIn(tokenOf({}, { header, key: stranger.privateKey }))).toMatchObject(refused);
    expect(asked).toBe(1);
  });

  test.each(['nonsense', '..', 'a.b.c', 'svc_sk_AAAA', '{}'])('%s', async (text) => {
    expect(await signIn(text)).toMatchObject(refused);
  });

  test('a session token of ours', async () => {
    expect(await signIn((await service.signedIn()).token)).toMatchObject(refused);
  });
});

describe('an address that is not proven', () => {
  test.each<[string, JWTPayload]>([
    ['false', { email_verified: false }],
    ['the text "true"', { email_verified: 'true' }],
    ['1', { email_verified: 1 }],
    ['missing', { email_verified: undefined }],
    ['of no address', { email: undefined }],
    ['of what is no address', { email: 'ana' }],
    ['of two addresses', { email: 'a@x.test,b@x.test' }],
    ['of an address with a Kelvin sign', { email: '\u212Aim@x.test' }],
  ])('%s is 403, and makes no account', async (_case, given) => {
    const before = await query('select 1 from users');
    expect(await signIn(tokenOf(given))).toMatchObject(notVerified);
    expect(await query('select 1 from users')).toHaveLength(before.length);
  });

  test('is not looked at in a token that is refused', async () => {
    expect(await signIn(tokenOf({ aud: 'another', email_verified: false }))).toMatchObject(refused);
  });
});

describe('without what it needs', () => {
  test('[auth 6] no client id is 503, whatever the token', async () => {
    config().GOOGLE_CLIENT_ID = undefined;
    for (const token of [await tokenOf(), 'nonsense']) {
      expect(await signIn(token)).toMatchObject({
        status: 503,
        body: { error: { code: 'google_sign_in_not_configured' } },
      });
    }
    expect(asked).toBe(0);
  });

  test.each<[string, (req: IncomingMessage, res: ServerResponse) => void]>([
    ['is down', (req) => req.socket.destroy()],
    ['answers 500', (_req, res) => res.writeHead(500).end()],
    ['answers no JSON', (_req, res) => res.end('<html>')],
    ['answers no key set', (_req, res) => res.end('[]')],
    ['redirects', (_req, res) => res.writeHead(302, { location: '/elsewhere' }).end()],
    ['answers without end', (_req, res) => res.write('x'.repeat(200_000))],
  ])('a key server that %s makes it 503, and works again when the server does', async (_case, broken) => {
    const working = answer;
    answer = broken;
    const down = await signIn(tokenOf());
    expect(down).toMatchObject({ status: 503, body: { error: { code: 'service_unavailable' } } });
    expect(down.headers['retry-after']).toBe('5');
    answer = working;
    expect((await signIn(tokenOf())).status).toBe(200);
  });

  test('a key server at an address that is not public is not asked', async () => {
    config().GOOGLE_JWKS_URL = `http://169.254.169.254/certs/${String(round)}`;
    expect(await signIn(tokenOf())).toMatchObject({ status: 503, body: { error: { code: 'service_unavailable' } } });
  });

  test.each([
    ['no token', {}, 'id_token'],
    ['an empty one', { id_token: '' }, 'id_token'],
    ['no text', { id_token: 7 }, 'id_token'],
    ['an unknown property', { id_token: 'x', nonce: 'y' }, 'nonce'],
  ])('%s is 400', async (_case, body, path) => {
    expect(await service.client().post('/v1/auth/google', body)).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path }] } },
    });
  });
});
