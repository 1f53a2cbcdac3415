import { SignJWT } from 'jose';
import { config } from '../../src/api/core/config';
import { db, query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { signingKey } from '../../src/api/core/keys';
import { signSessionToken } from '../../src/api/auth/tokens';
import { useService } from '../support/app';
import type { Reply } from '../support/client';
import { freshEmail, plantCode } from '../support/sign-in';

const service = useService();
const me = (credential?: string): Promise<Reply> => service.client(credential).get('/v1/users/me');

interface TokenParts {
  header: Record<string, unknown> & { alg: string };
  payload: Record<string, unknown>;
}

const read = (part: string | undefined): Record<string, unknown> =>
  JSON.parse(Buffer.from(part ?? '', 'base64url').toString()) as Record<string, unknown>;

/** A session token of ours, with some of it changed and signed anew. */
async function changedToken(token: string, change: (parts: TokenParts) => void, key = signingKey('session-token')) {
  const [header, payload] = token.split('.');
  const parts = { header: read(header), payload: read(payload) } as TokenParts;
  change(parts);
  return new SignJWT(parts.payload).setProtectedHeader(parts.header).sign(key);
}

const seconds = (): number => Math.floor(Date.now() / 1000);

describe('GET /v1/users/me', () => {
  test('answers the account of a session, an account-scoped key and a project-scoped key', async () => {
    const person = await service.signedIn({ roles: ['admin'] });
    const project = await service.project(person);
    const credentials = [
      person.token,
      await service.apiKey(person),
      await service.apiKey(person, { projectId: project.id }),
    ];
    for (const credential of credentials) {
      const answer = await me(credential);
      expect(answer.status).toBe(200);
      expect(answer.body).toEqual({
        id: person.userId,
        email: person.email,
        name: null,
        email_verified: true,
        roles: ['admin'],
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      });
    }
  });

  test('takes no query', async () => {
    const { token } = await service.signedIn();
    const answer = await service.client(token).get('/v1/users/me?verbose=true');
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path: 'query.verbose' }] } },
    });
  });
});

describe('a credential that is none', () => {
  const refused = {
    status: 401,
    body: { error: { code: 'unauthorized', message: 'A valid credential is required.' } },
    headers: { 'www-authenticate': 'Bearer' },
  };

  test.each([
    ['missing', undefined],
    ['no token', 'nonsense'],
    ['three empty parts', '..'],
    ['an unknown key', `svc_sk_${'A'.repeat(40)}`],
    ['a truncated key', 'svc_sk_AAAA'],
  ])('%s', async (_case, credential) => {
    expect(await me(credential)).toMatchObject(refused);
  });

  test('another scheme', async () => {
    const answer = await service.client().get('/v1/users/me', { Authorization: 'Basic YTpi' });
    expect(answer).toMatchObject(refused);
  });

  test.each<[string, (parts: TokenParts) => void]>([
    ['of the OAuth type', ({ header }) => (header.typ = 'at+jwt')],
    ['of the type in other letters', ({ header }) => (header.typ = 'jwt')],
    ['of the long name of the type', ({ header }) => (header.typ = 'application/jwt')],
    ['without a type', ({ header }) => delete header.typ],
    ['without a key id', ({ header }) => delete header.kid],
    ['with another key id', ({ header }) => (header.kid = '00000000')],
    ['with another algorithm', ({ header }) => (header.alg = 'HS512')],
    ['for another audience', ({ payload }) => (payload.aud = 'svc:other')],
    ['for more than one audience', ({ payload }) => (payload.aud = ['svc:session', 'svc:other'])],
    ['of another issuer', ({ payload }) => (payload.iss = 'http://elsewhere.test')],
    ['without an end', ({ payload }) => delete payload.exp],
    ['ended 31 s ago', ({ payload }) => (payload.exp = seconds() - 31)],
    ['issued in a minute', ({ payload }) => (payload.iat = seconds() + 60)],
    ['without an id', ({ payload }) => delete payload.jti],
    ['of another person', ({ payload }) => (payload.sub = newId('user'))],
    ['of no session', ({ payload }) => (payload.sid = newId('sessionFamily'))],
  ])('a token %s', async (_case, change) => {
    const { token } = await service.signedIn();
    // HS512 wants a longer key; it is not this key that the token is refused for.
    const key = Buffer.concat([signingKey('session-token'), signingKey('session-token')]);
    const changed = await changedToken(token, change, _case === 'with another algorithm' ? key : undefined);
    expect(await me(changed)).toMatchObject(refused);
  });

  test('a token that is not signed, or by another key', async () => {
    const { token } = await service.signedIn();
    const [, payload] = token.split('.');
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'JWT' })).toString('base64url');
    expect(await me(`${none}.${payload ?? ''}.`)).toMatchObject(refused);
    expect(await me(await changedToken(token, () => undefined, signingKey('cursor')))).toMatchObject(refused);
  });

  test.each([
    ['revoked', 'update session_families set revoked_at = now() where user_id = $1'],
    ['past its end', 'update session_families set expires_at = now() where user_id = $1'],
    ['gone', 'delete from session_families where user_id = $1'],
  ])('a token whose session is %s', async (_case, change) => {
    const { token, userId } = await service.signedIn();
    expect((await me(token)).status).toBe(200);
    await query(change, [userId]);
    expect(await me(token)).toMatchObject(refused);
  });
});

describe('a session token', () => {
  test('is good for 30 s past its end, since clocks differ', async () => {
    const { token } = await service.signedIn();
    const late = await changedToken(token, ({ payload }) => (payload.exp = seconds() - 25));
    expect((await me(late)).status).toBe(200);
  });

  test('carries exactly the claims it needs', async () => {
    const { token, userId } = await service.signedIn();
    const [header, payload] = token.split('.');
    expect(read(header)).toEqual({ alg: 'HS256', typ: 'JWT', kid: expect.stringMatching(/^[0-9a-f]{8}$/) });
    const claims = read(payload);
    expect(Object.keys(claims).sort()).toEqual(['aud', 'exp', 'iat', 'iss', 'jti', 'sid', 'sub']);
    expect(claims).toMatchObject({ iss: 'http://localhost:3000', aud: 'svc:session', sub: userId });
    expect(Number(claims.exp) - Number(claims.iat)).toBe(900);
  });

  test('outlives a rotation of the secret that signed it', async () => {
    const { userId } = await service.signedIn();
    const family = await queryOne<{ id: string }>('select id from session_families where user_id = $1', [userId]);
    const settings = config();
    const former = settings.JWT_SECRET;
    const { token } = await signSessionToken({ userId, familyId: family?.id ?? '' });
    try {
      settings.JWT_SECRET = 'another secret of the tests, also long enough';
      expect((await me(token)).status).toBe(401);
      settings.JWT_SECRETS_PREVIOUS.push(former);
      expect((await me(token)).status).toBe(200);
    } finally {
      settings.JWT_SECRET = former;
      settings.JWT_SECRETS_PREVIOUS.pop();
    }
  });

  test('is signed by the new secret after a rotation; codes and cursors from before are good too', async () => {
    const person = await service.signedIn();
    await service.apiKey(person);
    await service.apiKey(person);
    const email = freshEmail();
    const code = await plantCode(email);
    const page = await service.client(person.token).get('/v1/api-keys?limit=1');
    const settings = config();
    const former = settings.JWT_SECRET;
    let made: Reply;
    try {
      settings.JWT_SECRET = 'another secret of the tests, also long enough';
      settings.JWT_SECRETS_PREVIOUS.push(former);
      made = await service.client().post('/v1/auth/code/verify', { email, code });
      const next = `/v1/api-keys?limit=1&cursor=${encodeURIComponent(page.body.next_cursor as string)}`;
      expect((await service.client(person.token).get(next)).status).toBe(200);
      expect([made.status, (await me(made.body.access_token as string)).status]).toEqual([200, 200]);
    } finally {
      settings.JWT_SECRET = former;
      settings.JWT_SECRETS_PREVIOUS.pop();
    }
    expect((await me(made.body.access_token as string)).status).toBe(401);
  });
});

test('a credential of any kind is looked up, with membership and roles, in one statement of indexed look-ups', async () => {
  const person = await service.signedIn();
  const project = await service.project(person);
  const credentials = [
    person.token,
    await service.apiKey(person),
    await service.apiKey(person, { projectId: project.id }),
  ];
  for (const credential of credentials) {
    const client = service.client(credential);
    await client.get(`/v1/projects/${project.id}`);
    const connections = jest.spyOn(db.connectionManager, 'getConnection');
    expect((await client.get(`/v1/projects/${project.id}`)).status).toBe(200);
    // The other two are the record, and the counts of this process's requests that may be written meanwhile.
    expect(connections.mock.calls.length).toBeLessThanOrEqual(3);
    expect(connections.mock.calls.length).toBeGreaterThanOrEqual(2);
    connections.mockRestore();
  }
});
