import { MockActivityEnvironment } from '@temporalio/testing';
import { SMTPServer } from 'smtp-server';
import { mailActivities } from '../../src/activities/mail.activities';
import { sweepActivities } from '../../src/activities/sweeps.activities';
import { RecipientRefused, smtpMailer } from '../../src/api/auth/mailer';
import { config } from '../../src/api/core/config';
import { inTransaction, query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { randomText } from '../../src/api/core/random';
import { takeFromWindows } from '../../src/api/core/sliding-windows';
import { closeEngine, engine } from '../../src/api/core/temporal';
import { invitationSweep, startInvitation } from '../../src/api/members/invitations';
import { activateWaitingMemberships, lockAddress } from '../../src/api/projects/service';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { describeGuard } from '../support/guarded-routes';

const service = useService({ worker: true });

const UNKNOWN = 'pmem_0000000000000000';
const freshEmail = (): string => `${randomText(12).toLowerCase()}@members.test`;
const missing = { status: 404, body: { error: { code: 'not_found', message: 'Not found.' } } };
const denied = { status: 403, body: { error: { code: 'access_denied' } } };
const needs = (role: 'admin' | 'owner') => ({
  status: 403,
  body: {
    error: {
      code: 'access_denied',
      message: `This needs the role ${role} in the project.`,
      details: { required_role: role },
    },
  },
});
const alreadyMember = { status: 409, body: { error: { code: 'already_member' } } };
const refused = (path: string) => ({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });

interface Team {
  projectId: string;
  /** The list's path. */
  at: string;
  owner: Person;
  admin: Person;
  member: Person;
  stranger: Person;
  idOf: (person: Person) => Promise<string>;
}

/** A project with one person of each role. */
async function team(): Promise<Team> {
  const [owner, admin, member, stranger] = await Promise.all([
    service.signedIn(),
    service.signedIn(),
    service.signedIn(),
    service.signedIn(),
  ]);
  const { id: projectId } = await service.project(owner);
  await service.member(projectId, admin, 'admin');
  await service.member(projectId, member, 'member');
  const idOf = async ({ userId }: Person): Promise<string> => {
    const row = await queryOne<{ id: string }>(
      'select id from project_members where project_id = $1 and user_id = $2',
      [projectId, userId],
    );
    return row?.id ?? '';
  };
  return { projectId, at: `/v1/projects/${projectId}/members`, owner, admin, member, stranger, idOf };
}

const add = (person: Person, { at }: Team, body: object): Promise<Reply> => service.client(person.token).post(at, body);

const mailsTo = (email: string): { subject: string; text: string }[] => service.mails.filter(({ to }) => to === email);

const mailTo = (email: string): Promise<{ subject: string; text: string }> =>
  eventually(
    () => {
      const [mail] = mailsTo(email);
      expect(mail).toBeDefined();
      return mail ?? { subject: '', text: '' };
    },
    { timeoutMs: 15_000 },
  );

async function signInByCode(email: string): Promise<string> {
  expect((await service.client().post('/v1/auth/code', { email })).status).toBe(202);
  const code = await eventually(
    () => {
      const sent = service.mails.find((mail) => mail.to === email && mail.code !== null)?.code;
      expect(sent).toBeDefined();
      return sent ?? '';
    },
    { timeoutMs: 15_000 },
  );
  const session = await service.client().post('/v1/auth/code/verify', { email, code });
  expect(session.status).toBe(200);
  return session.body.access_token as string;
}

describeGuard(service, [
  ['get', '/members'],
  ['post', '/members', { email: 'x@y.test' }],
  ['get', `/members/${UNKNOWN}`],
  ['patch', `/members/${UNKNOWN}`, { role: 'admin' }],
  ['delete', `/members/${UNKNOWN}`],
]);

describe('adding', () => {
  test('[members 1] waits for an unknown address, tells it by mail, and lets it in at its first sign-in', async () => {
    const given = await team();
    const email = freshEmail();
    const typed = `  ${email.slice(0, 1).toUpperCase()}${email.slice(1)} `;
    const added = await add(given.owner, given, { email: typed, role: 'member' });
    expect(added).toMatchObject({ status: 201 });
    expect(added.body).toEqual({
      id: expect.stringMatching(/^pmem_[0-9A-Za-z]{16}$/),
      project_id: given.projectId,
      user_id: null,
      email,
      name: null,
      status: 'pending',
      role: 'member',
      invited_by_user_id: given.owner.userId,
      created_at: expect.any(String),
      updated_at: added.body.created_at,
    });
    const mail = await mailTo(email);
    expect(mail).toMatchObject({ code: null, subject: 'You were added to the project "a project of the tests"' });
    expect(mail.text).toContain(`${given.owner.email} added this address`);
    expect(mail.text).toContain(config().PUBLIC_BASE_URL);

    const client = service.client(await signInByCode(email));
    const me = await client.get('/v1/users/me');
    const seen = await client.get(`${given.at}/${added.body.id as string}`);
    expect(seen).toMatchObject({ status: 200, body: { id: added.body.id, status: 'active', user_id: me.body.id } });
  });

  test('an address that has an account is in at once, under its name', async () => {
    const given = await team();
    await query('update users set name = $2 where id = $1', [given.stranger.userId, 'Stan']);
    const before = await service.client(given.stranger.token).get(given.at);
    expect(before).toMatchObject(missing);
    const added = await add(given.admin, given, { email: given.stranger.email.toUpperCase() });
    expect(added).toMatchObject({
      status: 201,
      body: { status: 'active', role: 'member', name: 'Stan', user_id: given.stranger.userId },
    });
    expect((await service.client(given.stranger.token).get(given.at)).status).toBe(200);
  });

  test('[members 2] an admin adds members, the owner admins too, a member nobody', async () => {
    const given = await team();
    const email = freshEmail();
    expect(await add(given.admin, given, { email, role: 'admin' })).toMatchObject(needs('owner'));
    expect(await add(given.member, given, { email })).toMatchObject(needs('admin'));
    expect(await add(given.admin, given, { email, role: 'member' })).toMatchObject({ status: 201 });
    const other = await add(given.owner, given, { email: freshEmail(), role: 'admin' });
    expect(other).toMatchObject({ status: 201, body: { role: 'admin', status: 'pending' } });
  });

  test('[members 6] takes a credential that reaches the whole account', async () => {
    const given = await team();
    const scoped = service.client(await service.apiKey(given.owner, { projectId: given.projectId }));
    const account = service.client(await service.apiKey(given.owner));
    const path = `${given.at}/${await given.idOf(given.member)}`;
    expect(await scoped.post(given.at, { email: freshEmail() })).toMatchObject(denied);
    expect((await scoped.post(given.at, { email: freshEmail() })).body.error).not.toHaveProperty('details');
    expect(await scoped.patch(path, { role: 'admin' })).toMatchObject(denied);
    expect(await scoped.get(given.at)).toMatchObject({ status: 200 });
    expect(await scoped.get(path)).toMatchObject({ status: 200 });
    expect(await account.patch(path, { role: 'admin' })).toMatchObject({ status: 200, body: { role: 'admin' } });
    expect(await account.post(given.at, { email: freshEmail() })).toMatchObject({ status: 201 });
    expect(await scoped.delete(path)).toMatchObject({ status: 204 });
  });

  test("refuses who is in already: oneself, the owner, another's address in other letters, a waiting one", async () => {
    const given = await team();
    const email = freshEmail();
    expect((await add(given.owner, given, { email })).status).toBe(201);
    for (const taken of [given.admin.email, given.owner.email, ` ${given.member.email.toUpperCase()}`, email]) {
      expect(await add(given.admin, given, { email: taken })).toMatchObject(alreadyMember);
    }
    expect(await add(given.owner, given, { email: given.owner.email })).toMatchObject(alreadyMember);
  });

  test.each([
    ['a malformed address', { email: 'nobody' }, 'email'],
    ['two addresses', { email: 'a@x.test, b@x.test' }, 'email'],
    ['a long address', { email: `${'a'.repeat(250)}@x.test` }, 'email'],
    ['no address', {}, 'email'],
    ['the role owner', { email: 'a@x.test', role: 'owner' }, 'role'],
    ['an unknown role', { email: 'a@x.test', role: 'guest' }, 'role'],
    ['an unknown property', { email: 'a@x.test', name: 'A' }, 'name'],
  ])('refuses %s', async (_case, body, path) => {
    const given = await team();
    expect(await add(given.owner, given, body)).toMatchObject(refused(path));
  });

  test('two at once of one address: one is added, one refused', async () => {
    const given = await team();
    const email = freshEmail();
    const answers = await Promise.all([
      add(given.owner, given, { email }),
      add(given.admin, given, { email: email.toUpperCase() }),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
    expect(answers.find(({ status }) => status === 409)).toMatchObject(alreadyMember);
    expect(await query('select 1 from project_members where email = $1', [email])).toHaveLength(1);
  });

  test('an address that signs in for the first time while it is added is in, whichever came first', async () => {
    const given = await team();
    const email = freshEmail();
    await service.client().post('/v1/auth/code', { email });
    const code = await eventually(
      () => {
        const sent = service.mails.find((mail) => mail.to === email)?.code ?? '';
        expect(sent).toMatch(/^\d{6}$/);
        return sent;
      },
      { timeoutMs: 15_000 },
    );
    const [added, session] = await Promise.all([
      add(given.owner, given, { email }),
      service.client().post('/v1/auth/code/verify', { email, code }),
    ]);
    expect([added.status, session.status]).toEqual([201, 200]);
    const client = service.client(session.body.access_token as string);
    expect(await client.get(`${given.at}/${added.body.id as string}`)).toMatchObject({
      status: 200,
      body: { status: 'active' },
    });
  });

  test('the sign-in that opens the account waits for an add that is not committed yet', async () => {
    const given = await team();
    const email = freshEmail();
    const account = newId('user');
    await query(
      'insert into users (id, email, email_verified, created_at, updated_at) values ($1, $2, true, now(), now())',
      [account, freshEmail()],
    );
    let activated: Promise<void> | undefined;
    await inTransaction(async (tx) => {
      await lockAddress(email, tx);
      activated = inTransaction((other) => activateWaitingMemberships({ userId: account, email }, other));
      await query('select pg_sleep(0.1)', [], tx);
      await query(
        `insert into project_members (id, project_id, email, role, created_at, updated_at)
         values ($1, $2, $3, 'member', now(), now())`,
        [newId('member'), given.projectId, email],
        tx,
      );
    });
    await activated;
    expect(await queryOne('select user_id from project_members where email = $1', [email])).toEqual({
      user_id: account,
    });
  });
});

describe('the cap of invitations', () => {
  const counted = async (userId: string): Promise<number> => {
    const row = await queryOne<{ count: number }>(
      `select coalesce(sum(count), 0)::integer as count from rate_windows where kind = 'invitations' and key = $1`,
      [userId],
    );
    return row?.count ?? -1;
  };
  const fill = (userId: string, count: number, secondsAgo: number) =>
    query(`insert into rate_windows (kind, key, second, count) values ('invitations', $1, $2, $3)`, [
      userId,
      Math.floor(Date.now() / 1000) - secondsAgo,
      count,
    ]);

  test('[members 7] counts fifty rows of a person in 24 hours, over all projects, and nothing refused', async () => {
    const given = await team();
    const { id: other } = await service.project(given.owner);
    await fill(given.owner.userId, 49, 86_000);
    expect(await add(given.owner, given, { email: given.admin.email })).toMatchObject(alreadyMember);
    expect(await add(given.owner, given, { email: 'nobody' })).toMatchObject(refused('email'));
    expect(await counted(given.owner.userId)).toBe(49);
    const emails = [freshEmail(), freshEmail(), freshEmail()];
    const answers = await Promise.all(
      emails.map((email, index) =>
        service.client(given.owner.token).post(index === 1 ? `/v1/projects/${other}/members` : given.at, { email }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 429, 429]);
    expect(await counted(given.owner.userId)).toBe(50);
    const over = answers.find(({ status }) => status === 429);
    expect(over?.body.error.code).toBe('rate_limited');
    expect(Number(over?.headers['retry-after'])).toBeGreaterThan(390);
    expect(Number(over?.headers['retry-after'])).toBeLessThanOrEqual(400);
    expect(await query('select 1 from project_members where email = any($1)', [emails])).toHaveLength(1);
    // An address that is in already is told so also when the cap is reached; another person has a cap of their own.
    expect(await add(given.owner, given, { email: given.admin.email })).toMatchObject(alreadyMember);
    expect((await add(given.admin, given, { email: freshEmail() })).status).toBe(201);
  });

  test('slides: what is older than 24 hours counts no more, and the setting is the limit', async () => {
    const given = await team();
    await fill(given.owner.userId, 50, 86_400);
    expect((await add(given.owner, given, { email: freshEmail() })).status).toBe(201);
    const settings = config();
    settings.INVITES_PER_DAY = 2;
    try {
      expect((await add(given.owner, given, { email: freshEmail() })).status).toBe(201);
      expect(await add(given.owner, given, { email: freshEmail() })).toMatchObject({ status: 429 });
    } finally {
      settings.INVITES_PER_DAY = 50;
    }
  });

  test('a place taken in a transaction that rolls back is free', async () => {
    const window = { kind: 'tests', key: newId('user'), windows: [{ windowSeconds: 60, limit: 1 }] };
    const take = () => inTransaction((tx) => takeFromWindows(window, tx));
    await expect(
      inTransaction(async (tx) => {
        expect(await takeFromWindows(window, tx)).toBeNull();
        throw new Error('by a test');
      }),
    ).rejects.toThrow('by a test');
    const taken = await Promise.all([take(), take(), take()]);
    expect(taken.filter((seconds) => seconds === null)).toHaveLength(1);
    for (const seconds of taken.filter((value) => value !== null)) {
      expect(seconds).toBeGreaterThanOrEqual(58);
      expect(seconds).toBeLessThanOrEqual(60);
    }
  });
});

describe('reading', () => {
  test('lists everybody, oldest first, in pages that rows added later do not shift', async () => {
    const given = await team();
    const age = `case role when 'owner' then 3 when 'admin' then 2 else 1 end`;
    await query(
      `update project_members set created_at = created_at - make_interval(secs => ${age}) where project_id = $1`,
      [given.projectId],
    );
    const client = service.client(given.member.token);
    const first = await client.get(`${given.at}?limit=2`);
    expect(first.status).toBe(200);
    expect(first.body.data[0]).toEqual({
      id: await given.idOf(given.owner),
      project_id: given.projectId,
      user_id: given.owner.userId,
      email: given.owner.email,
      name: null,
      status: 'active',
      role: 'owner',
      invited_by_user_id: null,
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    expect(first.body.data[1]).toMatchObject({ role: 'admin', user_id: given.admin.userId });
    const late = await add(given.owner, given, { email: freshEmail() });
    const cursor = encodeURIComponent(first.body.next_cursor as string);
    const second = await client.get(`${given.at}?limit=2&cursor=${cursor}`);
    expect(second.body).toMatchObject({
      data: [{ user_id: given.member.userId }, { id: late.body.id }],
      next_cursor: null,
    });
    const elsewhere = (await service.project(given.member)).id;
    expect(await client.get(`/v1/projects/${elsewhere}/members?cursor=${cursor}`)).toMatchObject(
      refused('query.cursor'),
    );
    expect(await client.get(`${given.at}?role=admin`)).toMatchObject(refused('query.role'));
    expect(await client.get(`${given.at}?limit=abc`)).toMatchObject(refused('query.limit'));
  });

  test('rows that were added in one millisecond keep one order over pages', async () => {
    const owner = await service.signedIn();
    const { id } = await service.project(owner);
    await query(
      `insert into project_members (id, project_id, email, role, created_at, updated_at)
       select 'pmem_' || left(md5($1 || n), 16), $1, n || '@many.test', 'member', now(), now() from generate_series(1, 7) n`,
      [id],
    );
    const ids: string[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const from: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const page: Reply = await service.client(owner.token).get(`/v1/projects/${id}/members?limit=3${from}`);
      ids.push(...(page.body.data as { id: string }[]).map((row) => row.id));
      cursor = page.body.next_cursor as string | null;
    }
    expect(new Set(ids).size).toBe(8);
    expect(ids.slice(1)).toEqual(ids.slice(1).sort());
  });

  test('knows no member of another project, no unknown one and no malformed id', async () => {
    const [given, other] = await Promise.all([team(), team()]);
    const client = service.client(given.owner.token);
    for (const id of [await other.idOf(other.member), UNKNOWN, 'pmem_1', 'user_0000000000000000']) {
      expect(await client.get(`${given.at}/${id}`)).toMatchObject(missing);
      expect(await client.patch(`${given.at}/${id}`, { role: 'admin' })).toMatchObject(missing);
      expect(await client.delete(`${given.at}/${id}`)).toMatchObject(missing);
    }
  });

  test('an account that never signed in reads pending', async () => {
    const given = await team();
    await query('update users set email_verified = false where id = $1', [given.member.userId]);
    const seen = await service.client(given.owner.token).get(`${given.at}/${await given.idOf(given.member)}`);
    expect(seen.body).toMatchObject({ status: 'pending', user_id: given.member.userId });
  });
});

describe('changing a role', () => {
  test('is for the owner, and counts from the next request on', async () => {
    const given = await team();
    const path = `${given.at}/${await given.idOf(given.member)}`;
    const invite = () => add(given.member, given, { email: freshEmail() });
    for (const person of [given.admin, given.member]) {
      expect(await service.client(person.token).patch(path, { role: 'admin' })).toMatchObject(needs('owner'));
      expect(await service.client(person.token).patch(`${given.at}/${UNKNOWN}`, { role: 'admin' })).toMatchObject(
        needs('owner'),
      );
    }
    expect(await invite()).toMatchObject(needs('admin'));
    const changed = await service.client(given.owner.token).patch(path, { role: 'admin' });
    expect(changed).toMatchObject({ status: 200, body: { role: 'admin', user_id: given.member.userId } });
    expect(new Date(changed.body.updated_at as string) > new Date(changed.body.created_at as string)).toBe(true);
    expect((await invite()).status).toBe(201);
    expect((await service.client(given.owner.token).patch(path, { role: 'member' })).body.role).toBe('member');
    expect(await invite()).toMatchObject(needs('admin'));
  });

  test('of a waiting address is what it has when it signs in', async () => {
    const given = await team();
    const added = await add(given.owner, given, { email: freshEmail() });
    const path = `${given.at}/${added.body.id as string}`;
    const changed = await service.client(given.owner.token).patch(path, { role: 'admin' });
    expect(changed).toMatchObject({ status: 200, body: { role: 'admin', status: 'pending' } });
  });

  test.each([
    ['the role owner', { role: 'owner' }, 'role'],
    ['no role', {}, 'role'],
    ['an unknown property', { role: 'admin', email: 'a@x.test' }, 'email'],
  ])('refuses %s', async (_case, body, path) => {
    const given = await team();
    const answer = await service.client(given.owner.token).patch(`${given.at}/${await given.idOf(given.member)}`, body);
    expect(answer).toMatchObject(refused(path));
  });

  test('and a removal at once of one admin: whichever comes first, one admin removes no other', async () => {
    const given = await team();
    const path = `${given.at}/${await given.idOf(given.member)}`;
    const [changed, removed] = await Promise.all([
      service.client(given.owner.token).patch(path, { role: 'admin' }),
      service.client(given.admin.token).delete(path),
    ]);
    const pairs = [
      [200, 403],
      [404, 204],
    ];
    expect(pairs).toContainEqual([changed.status, removed.status]);
  });

  test('an admin that loses its role while it removes somebody: the removal counts before or not at all', async () => {
    const given = await team();
    const second = await service.signedIn();
    await service.member(given.projectId, second, 'member');
    const [a, b] = [await given.idOf(given.admin), await given.idOf(second)];
    const owner = service.client(given.owner.token);
    // The admin's removal of the other, and the end of its own right to do so.
    const [removed, changed] = await Promise.all([
      service.client(given.admin.token).delete(`${given.at}/${b}`),
      owner.patch(`${given.at}/${a}`, { role: 'member' }),
    ]);
    expect(changed.status).toBe(200);
    expect([204, 403]).toContain(removed.status);
    expect((await owner.get(`${given.at}/${b}`)).status).toBe(removed.status === 204 ? 404 : 200);
  });
});

test('many changes at once end well: nothing hangs, nothing is unforeseen, and there is one owner', async () => {
  const given = await team();
  const emails = Array.from({ length: 6 }, freshEmail);
  const people = await Promise.all([service.signedIn(), service.signedIn(), service.signedIn()]);
  for (const person of people) await service.member(given.projectId, person, 'admin');
  const ids = await Promise.all([...people, given.admin, given.member].map(given.idOf));
  const owner = service.client(given.owner.token);
  const answers = await Promise.all([
    ...emails.flatMap((email) => [add(given.owner, given, { email }), add(people[0], given, { email })]),
    ...ids.flatMap((id) => [
      owner.patch(`${given.at}/${id}`, { role: 'member' }),
      owner.delete(`${given.at}/${id}`),
      ...people.map(({ token }) => service.client(token).delete(`${given.at}/${id}`)),
    ]),
    ...people.map(({ token }) => service.client(token).get(given.at)),
  ]);
  for (const { status } of answers) expect([200, 201, 204, 403, 404, 409]).toContain(status);
  for (const id of ids) expect((await owner.get(`${given.at}/${id}`)).status).toBe(404);
  const rows = await query<{ email: string; role: string }>(
    'select email, role from project_members where project_id = $1 order by email',
    [given.projectId],
  );
  expect(rows.filter(({ role }) => role === 'owner')).toHaveLength(1);
  expect(rows.map(({ email }) => email).sort()).toEqual([...emails, given.owner.email].sort());
});

describe('removing', () => {
  test('[members 3] a member leaves, and finds the project no more', async () => {
    const given = await team();
    const client = service.client(given.member.token);
    const path = `${given.at}/${await given.idOf(given.member)}`;
    expect(await client.delete(path)).toMatchObject({ status: 204 });
    expect(await client.get(`/v1/projects/${given.projectId}`)).toMatchObject(missing);
    expect(await client.delete(path)).toMatchObject(missing);
    expect(await service.client(given.owner.token).delete(path)).toMatchObject(missing);
    const admin = service.client(given.admin.token);
    expect(await admin.delete(`${given.at}/${await given.idOf(given.admin)}`)).toMatchObject({ status: 204 });
  });

  test("[members 4] the owner's row stays as it is, whoever asks", async () => {
    const given = await team();
    const path = `${given.at}/${await given.idOf(given.owner)}`;
    const key = await service.apiKey(given.owner);
    for (const credential of [given.owner.token, given.admin.token, given.member.token, key]) {
      const client = service.client(credential);
      expect(await client.patch(path, { role: 'admin' })).toMatchObject(refused('member_id'));
      expect(await client.patch(path, { role: 'owner' })).toMatchObject(refused('role'));
      expect(await client.delete(path)).toMatchObject(refused('member_id'));
    }
    expect(await service.client(given.stranger.token).delete(path)).toMatchObject(missing);
    expect((await service.client(given.member.token).get(path)).body).toMatchObject({ role: 'owner' });
  });

  test('an admin removes members, the owner admins too, a member nobody else', async () => {
    const given = await team();
    const second = await service.signedIn();
    await service.member(given.projectId, second, 'admin');
    const [member, admin, other] = await Promise.all([given.member, given.admin, second].map(given.idOf));
    const as = (person: Person, id = '') => service.client(person.token).delete(`${given.at}/${id}`);
    expect(await as(given.member, admin)).toMatchObject(needs('owner'));
    expect(await as(second, admin)).toMatchObject(needs('owner'));
    const pending = await add(given.owner, given, { email: freshEmail() });
    expect(await as(given.member, pending.body.id as string)).toMatchObject(needs('admin'));
    expect(await as(given.member, UNKNOWN)).toMatchObject(missing);
    expect(await as(given.admin, member)).toMatchObject({ status: 204 });
    expect(await as(given.owner, other)).toMatchObject({ status: 204 });
  });

  test('cuts session and keys at the next request; the keys live and work again with the membership', async () => {
    const given = await team();
    const session = service.client(given.member.token);
    const scopedSecret = await service.apiKey(given.member, { projectId: given.projectId });
    const scoped = service.client(scopedSecret);
    const account = service.client(await service.apiKey(given.member));
    const project = `/v1/projects/${given.projectId}`;
    for (const client of [session, scoped, account]) expect((await client.get(project)).status).toBe(200);
    const owner = service.client(given.owner.token);
    expect((await owner.delete(`${given.at}/${await given.idOf(given.member)}`)).status).toBe(204);
    for (const client of [session, scoped, account]) expect(await client.get(project)).toMatchObject(missing);
    expect((await scoped.get('/v1/projects')).body.data).toEqual([]);
    const keys = await session.get(`/v1/api-keys?project_id=${given.projectId}`);
    expect(keys.body.data).toHaveLength(1);
    expect(await session.post('/v1/api-keys', { name: 'x', project_id: given.projectId })).toMatchObject(missing);
    expect((await add(given.owner, given, { email: given.member.email })).status).toBe(201);
    for (const client of [session, scoped, account]) expect((await client.get(project)).status).toBe(200);
  });

  test('a waiting row is withdrawn: its address finds nothing, and may be added again', async () => {
    const given = await team();
    const email = freshEmail();
    const added = await add(given.admin, given, { email });
    const path = `${given.at}/${added.body.id as string}`;
    expect((await service.client(given.admin.token).delete(path)).status).toBe(204);
    const again = await add(given.admin, given, { email });
    expect(again).toMatchObject({ status: 201, body: { status: 'pending' } });
    expect(again.body.id).not.toBe(added.body.id);
    expect((await service.client(given.admin.token).delete(`${given.at}/${again.body.id as string}`)).status).toBe(204);
    const client = service.client(await signInByCode(email));
    expect(await client.get(given.at)).toMatchObject(missing);
  });

  test('of a project that is being deleted nobody is added or removed', async () => {
    const given = await team();
    await query('update projects set deleted_at = now() where id = $1', [given.projectId]);
    expect(await add(given.owner, given, { email: freshEmail() })).toMatchObject(missing);
    const session = service.client(given.owner.token);
    expect(await session.post('/v1/api-keys', { name: 'x', project_id: given.projectId })).toMatchObject(missing);
  });
});

test('[members 5] a stranger gets the same bytes for a project as for one that is not there', async () => {
  const given = await team();
  const read = async (id: string) =>
    (
      await fetch(`${service.baseUrl}/v1/projects/${id}/members`, {
        headers: { Authorization: `Bearer ${given.stranger.token}` },
      })
    ).text();
  expect(await read(given.projectId)).toBe(await read('proj_0000000000000000'));
});

test('the platform role gives no access to the members of a project', async () => {
  const given = await team();
  const operator = await service.signedIn({ roles: ['admin'] });
  expect(await service.client(operator.token).get(given.at)).toMatchObject(missing);
});

describe('the mail', () => {
  const rowOf = (id: string) =>
    queryOne<{ run_seen_at: Date | null }>('select run_seen_at from project_members where id = $1', [id]);

  /** A row of whose mail nothing was begun. */
  async function waiting(email = freshEmail()): Promise<{ memberId: string; email: string; given: Team }> {
    const given = await team();
    const memberId = newId('member');
    await query(
      `insert into project_members (id, project_id, email, role, invited_by_user_id, created_at, updated_at)
       values ($1, $2, $3, 'member', $4, now() - interval '1 minute', now())`,
      [memberId, given.projectId, email, given.owner.userId],
    );
    return { memberId, email, given };
  }

  /** How often each activity of a run is tried. */
  async function retriesOf(workflowId: string): Promise<object[]> {
    const { events } = await engine().workflow.getHandle(workflowId).fetchHistory();
    return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
      if (scheduled?.retryPolicy == null) return [];
      const { maximumAttempts, backoffCoefficient, initialInterval, maximumInterval } = scheduled.retryPolicy;
      return {
        activity: scheduled.activityType?.name,
        attempts: maximumAttempts,
        coefficient: backoffCoefficient,
        firstSeconds: Number(initialInterval?.seconds),
        mostSeconds: Number(maximumInterval?.seconds),
      };
    });
  }

  test('leaves by the run mail/pmem_…, whose history holds ids only', async () => {
    const given = await team();
    await query(`update projects set name = 'a canary of names' where id = $1`, [given.projectId]);
    const email = freshEmail();
    const added = await add(given.owner, given, { email });
    await mailTo(email);
    const handle = engine().workflow.getHandle(`mail/${added.body.id as string}`);
    await handle.result();
    const { status, memo, typedSearchAttributes, type } = await handle.describe();
    expect([type, status.name]).toEqual(['mail', 'COMPLETED']);
    expect(memo).toMatchObject({ principalId: given.owner.userId, trigger: 'api' });
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).toMatchObject({
      ProjectId: given.projectId,
      ResourceType: 'project_member',
      ResourceId: added.body.id,
    });
    const [tries] = await retriesOf(handle.workflowId);
    expect(tries).toEqual({
      activity: 'sendInvitation',
      attempts: 8,
      coefficient: 2,
      firstSeconds: 5,
      mostSeconds: 600,
    });
    const history = Buffer.from(JSON.stringify(await handle.fetchHistory())).toString();
    const texts = history + Buffer.from(history.match(/[A-Za-z0-9+/=]{8,}/g)?.join('') ?? '', 'base64').toString();
    for (const canary of [email, email.split('@')[0] ?? '', 'canary of names', given.owner.email]) {
      expect(texts).not.toContain(canary);
    }
    expect((await rowOf(added.body.id as string))?.run_seen_at).toBeInstanceOf(Date);
  });

  test('whose start was lost is sent by the sweep, once', async () => {
    const { memberId, email } = await waiting();
    const sweeps = sweepActivities({ kinds: [invitationSweep] });
    const due = await invitationSweep.unsettled(null, 1_000);
    expect(due.map(({ id }) => id)).toContain(memberId);
    await new MockActivityEnvironment().run<[], object, () => Promise<object>>(() =>
      sweeps.startUnseen({ kind: 'invitations' }),
    );
    await mailTo(email);
    await new MockActivityEnvironment().run<[], object, () => Promise<object>>(() =>
      sweeps.startUnseen({ kind: 'invitations' }),
    );
    await new MockActivityEnvironment().run<[], object, () => Promise<object>>(() =>
      sweeps.compareRuns({ kind: 'invitations' }),
    );
    expect((await invitationSweep.unsettled(null, 1_000)).map(({ id }) => id)).not.toContain(memberId);
    expect(mailsTo(email)).toHaveLength(1);
  });

  test('is not sent for a row that was removed, nor for a project that is going; the run ends well', async () => {
    const { memberId, email, given } = await waiting();
    await query('update projects set deleted_at = now() where id = $1', [given.projectId]);
    const activities = mailActivities({ mailer: { send: () => Promise.reject(new Error('sent')) } });
    await expect(activities.sendInvitation({ memberId })).rejects.toMatchObject({ type: 'ROW_GONE' });
    await query('delete from project_members where id = $1', [memberId]);
    await startInvitation({ memberId, projectId: given.projectId }, { requestId: 'r', principalId: 'p' });
    await engine().workflow.getHandle(`mail/${memberId}`).result();
    expect(mailsTo(email)).toEqual([]);
  });

  test('is not sent to a suppressed address, which is in all the same', async () => {
    const given = await team();
    const email = freshEmail();
    await query(`insert into suppressed_addresses values ($1, 'manual', now())`, [email]);
    const added = await add(given.owner, given, { email });
    expect(added).toMatchObject({ status: 201, body: { status: 'pending' } });
    await engine()
      .workflow.getHandle(`mail/${added.body.id as string}`)
      .result();
    expect(mailsTo(email)).toEqual([]);
  });

  test('that is refused for good is the last to its address; another failure is tried again', async () => {
    const { memberId, email } = await waiting();
    const failing = (error: Error) => mailActivities({ mailer: { send: () => Promise.reject(error) } });
    await expect(failing(new Error('later')).sendInvitation({ memberId })).rejects.toThrow('later');
    expect(await query('select 1 from suppressed_addresses where email = $1', [email])).toEqual([]);
    await failing(new RecipientRefused()).sendInvitation({ memberId });
    expect(await queryOne('select reason from suppressed_addresses where email = $1', [email])).toEqual({
      reason: 'bounce',
    });
    await failing(new Error('sent')).sendInvitation({ memberId });
  });

  test('goes over SMTP with a project name that would be a header', async () => {
    const { memberId, given } = await waiting();
    await query('update projects set name = $2 where id = $1', [given.projectId, 'x\r\nBcc: victim@x.test']);
    const received: { to: string[]; text: string }[] = [];
    const smtp = new SMTPServer({
      authOptional: true,
      disabledCommands: ['AUTH', 'STARTTLS'],
      logger: false,
      onData(stream, session, done) {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          const to = session.envelope.rcptTo.map(({ address }) => address);
          received.push({ to, text: Buffer.concat(chunks).toString() });
          done();
        });
      },
    });
    await new Promise<void>((resolve) => {
      smtp.listen(0, '127.0.0.1', resolve);
    });
    const address = smtp.server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    try {
      const mailer = smtpMailer(`smtp://127.0.0.1:${String(port)}`, 'Agents <no-reply@svc.test>');
      await mailActivities({ mailer }).sendInvitation({ memberId });
    } finally {
      await new Promise<void>((resolve) => {
        smtp.close(resolve);
      });
    }
    expect(received).toHaveLength(1);
    expect(received[0]?.to).toHaveLength(1);
    expect(received[0]?.text).not.toMatch(/^Bcc:/m);
  });

  test('does not hold the grant: it is there while the engine cannot be reached', async () => {
    const given = await team();
    const settings = config();
    const address = settings.TEMPORAL_ADDRESS;
    await closeEngine();
    settings.TEMPORAL_ADDRESS = '127.0.0.1:1';
    try {
      const added = await add(given.owner, given, { email: freshEmail() });
      expect(added).toMatchObject({ status: 201, body: { status: 'pending' } });
      expect(await rowOf(added.body.id as string)).toEqual({ run_seen_at: null });
    } finally {
      settings.TEMPORAL_ADDRESS = address;
      await closeEngine();
    }
  });
});
