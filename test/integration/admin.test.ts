import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { ApiClient, Reply } from '../support/client';

const service = useService();
const UNKNOWN = 'user_0000000000000000';

let operator: Person;
let admin: ApiClient;

beforeAll(async () => {
  operator = await service.signedIn({ roles: ['admin'] });
  admin = service.client(operator.token);
});

const account = (reply: Reply): unknown[] => [reply.status, reply.body.error?.code, reply.body.error?.details];
const roles = (userId: string, body: object): Promise<Reply> => admin.put(`/v1/admin/users/${userId}/roles`, body);
const grant = (userId: string, body: object): Promise<Reply> => admin.put(`/v1/admin/users/${userId}/plan`, body);

/** Every route of operators, of one person. */
const calls = (client: ApiClient, userId: string): Promise<Reply>[] => [
  client.get('/v1/admin/users'),
  client.put(`/v1/admin/users/${userId}/roles`, { roles: [] }),
  client.put(`/v1/admin/users/${userId}/plan`, { plan: 'pro' }),
  client.get(`/v1/admin/users/${userId}/plan`),
];

describe('who may', () => {
  test('without a credential every route is 401', async () => {
    for (const reply of await Promise.all(calls(service.client(), operator.userId))) {
      expect([reply.status, reply.body.error.code]).toEqual([401, 'unauthorized']);
    }
  });

  test('[admin 1] a person without the role is refused with the role that is missing', async () => {
    const person = await service.signedIn();
    for (const credential of [person.token, await service.apiKey(person)]) {
      for (const reply of await Promise.all(calls(service.client(credential), operator.userId))) {
        expect(account(reply)).toEqual([403, 'access_denied', { required_role: 'admin' }]);
      }
    }
  });

  test("an operator's account-scoped key may; one scoped to a project may not", async () => {
    const project = await service.project(operator);
    const wide = service.client(await service.apiKey(operator));
    expect((await wide.get('/v1/admin/users')).status).toBe(200);
    const narrow = service.client(await service.apiKey(operator, { projectId: project.id }));
    for (const reply of await Promise.all(calls(narrow, operator.userId))) {
      expect([reply.status, reply.body.error.code]).toEqual([403, 'access_denied']);
    }
  });

  test('the role gives no access to projects', async () => {
    const project = await service.project(await service.signedIn());
    expect((await admin.get(`/v1/projects/${project.id}`)).status).toBe(404);
  });
});

describe('GET /v1/admin/users', () => {
  test('[admin 2] finds the one account of an address, in any case', async () => {
    const person = await service.signedIn({ email: 'ana@acme.test' });
    const { status, body } = await admin.get('/v1/admin/users?email=ANA@ACME.TEST');
    expect(status).toBe(200);
    expect(body).toEqual({
      data: [
        {
          id: person.userId,
          email: 'ana@acme.test',
          name: null,
          email_verified: true,
          roles: [],
          created_at: expect.stringMatching(/Z$/) as unknown,
          plan: 'free',
          next_plan: null,
          balance_usd: 0,
          retention_days: null,
        },
      ],
      next_cursor: null,
    });
  });

  test('[admin 2] knows no wildcards, and answers an unknown address by an empty page', async () => {
    for (const email of ['%25acme.test', 'ana', '*']) {
      const { status, body } = await admin.get(`/v1/admin/users?email=${email}`);
      expect([status, body.error.code, body.error.details[0].path]).toEqual([400, 'bad_request', 'query.email']);
    }
    for (const email of ['no@such.test', '%25@acme.test', '*@acme.test', '___@acme.test']) {
      expect((await admin.get(`/v1/admin/users?email=${email}`)).body).toEqual({ data: [], next_cursor: null });
    }
  });

  test('pages newest first without a gap or a repeat', async () => {
    const made = [await service.signedIn(), await service.signedIn(), await service.signedIn()];
    const found: string[] = [];
    let cursor: string | null = '';
    for (let page = 0; page < 2_000 && cursor !== null; page += 1) {
      const reply: Reply = await admin.get(`/v1/admin/users?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      expect(reply.status).toBe(200);
      found.push(...(reply.body.data as { id: string }[]).map(({ id }) => id));
      cursor = reply.body.next_cursor as string | null;
    }
    expect(cursor).toBeNull();
    expect(new Set(found).size).toBe(found.length);
    expect(found.slice(0, 3)).toEqual(made.map(({ userId }) => userId).reverse());
    const other = await admin.get('/v1/admin/users?limit=1');
    const reused = await admin.get(`/v1/admin/users?email=a@b.test&cursor=${String(other.body.next_cursor)}`);
    expect([reused.status, reused.body.error.details[0].path]).toEqual([400, 'query.cursor']);
  });
});

describe('PUT /v1/admin/users/{user_id}/roles', () => {
  test('[admin 3] replaces all roles, drops doubles, and counts from the next request on', async () => {
    const person = await service.signedIn();
    const theirs = service.client(person.token);
    const made = await roles(person.userId, { roles: ['admin', 'admin'] });
    expect([made.status, made.body.roles, made.body.id]).toEqual([200, ['admin'], person.userId]);
    expect(Object.keys(made.body as object)).toEqual(['id', 'email', 'name', 'email_verified', 'roles', 'created_at']);
    expect((await theirs.get('/v1/admin/users?limit=1')).status).toBe(200);
    expect((await roles(person.userId, { roles: [] })).body.roles).toEqual([]);
    expect((await theirs.get('/v1/admin/users?limit=1')).status).toBe(403);
  });

  test('[admin 3] an operator does not take the role from themselves', async () => {
    const refused = await roles(operator.userId, { roles: [] });
    expect([refused.status, refused.body.error.code, refused.body.error.details[0].path]).toEqual([
      400,
      'bad_request',
      'roles',
    ]);
    expect((await roles(operator.userId, { roles: ['admin'] })).status).toBe(200);
  });

  test.each([
    ['a role outside the catalog', { roles: ['root'] }, 'roles.0'],
    ['no list', { roles: 'admin' }, 'roles'],
    ['nothing', {}, 'roles'],
    ['an unknown property', { roles: [], plan: 'pro' }, 'plan'],
  ])('refuses %s', async (_case, body, path) => {
    const person = await service.signedIn();
    const refused = await roles(person.userId, body);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'bad_request']);
    expect(refused.body.error.details[0].path).toBe(path);
  });

  test('an unknown account is 404', async () => {
    for (const id of [UNKNOWN, 'user_x', newId('project')]) {
      expect(account(await roles(id, { roles: [] }))).toEqual([404, 'not_found', undefined]);
    }
  });
});

describe('PUT /v1/admin/users/{user_id}/plan', () => {
  test('[admin 7] grants a higher rung at once, and the same again with another line', async () => {
    const person = await service.signedIn();
    const made = await grant(person.userId, { plan: 'pro', reason: 'trial' });
    expect([made.status, made.body.plan, made.body.next_plan, made.body.id]).toEqual([200, 'pro', null, person.userId]);
    expect((await grant(person.userId, { plan: 'pro' })).status).toBe(200);
    const { body } = await admin.get(`/v1/admin/users/${person.userId}/plan`);
    expect(body).toEqual({
      plan: 'pro',
      next_plan: null,
      data: [
        {
          id: expect.stringMatching(/^pln_[0-9A-Za-z]{16}$/) as unknown,
          user_id: person.userId,
          plan: 'pro',
          retention_days: null,
          reason: null,
          granted_by_user_id: operator.userId,
          effective_at: expect.any(String) as unknown,
          created_at: expect.any(String) as unknown,
        },
        expect.objectContaining({ plan: 'pro', reason: 'trial' }) as unknown,
      ],
      next_cursor: null,
    });
  });

  test('a lower rung waits; a later lower one takes its place; the same or a higher one calls it off', async () => {
    const person = await service.signedIn();
    const path = `/v1/admin/users/${person.userId}/plan`;
    await grant(person.userId, { plan: 'business' });
    expect((await grant(person.userId, { plan: 'pro', reason: 'less' })).body).toMatchObject({
      plan: 'business',
      next_plan: 'pro',
    });
    expect((await grant(person.userId, { plan: 'free' })).body).toMatchObject({ plan: 'business', next_plan: 'free' });
    expect((await admin.get(path)).body).toMatchObject({ plan: 'business', next_plan: 'free', data: [{}] });
    expect((await grant(person.userId, { plan: 'business' })).body).toMatchObject({
      plan: 'business',
      next_plan: null,
    });
    await grant(person.userId, { plan: 'free' });
    const raised = await grant(person.userId, { plan: 'enterprise', reason: null, retention_days: 400 });
    expect(raised.body).toMatchObject({ plan: 'enterprise', next_plan: null, retention_days: 400 });
    const lines = (await admin.get(path)).body.data as { plan: string }[];
    expect(lines.map(({ plan }) => plan)).toEqual(['enterprise', 'business', 'business']);
  });

  test('another length of the enterprise contract counts at once, from a day to ten years', async () => {
    const person = await service.signedIn();
    const reason = 'x'.repeat(500);
    for (const days of [1, 3_650]) {
      const granted = await grant(person.userId, { plan: 'enterprise', retention_days: days, reason });
      expect([granted.status, granted.body.retention_days]).toEqual([200, days]);
    }
    const { body } = await admin.get(`/v1/admin/users/${person.userId}/plan`);
    expect(body.data).toMatchObject([
      { retention_days: 3_650, reason },
      { retention_days: 1, reason },
    ]);
  });

  test.each([
    ['enterprise without its retention', { plan: 'enterprise', reason: 'deal' }, 'retention_days'],
    ['a retention with another rung', { plan: 'pro', reason: 'x', retention_days: 30 }, 'retention_days'],
    ['a retention of no day', { plan: 'enterprise', retention_days: 0 }, 'retention_days'],
    ['a retention over ten years', { plan: 'enterprise', retention_days: 3_651 }, 'retention_days'],
    ['half a day', { plan: 'enterprise', retention_days: 1.5 }, 'retention_days'],
    ['a rung that is none', { plan: 'gold' }, 'plan'],
    ['an empty reason', { plan: 'pro', reason: '' }, 'reason'],
    ['a long reason', { plan: 'pro', reason: 'x'.repeat(501) }, 'reason'],
    ['no plan', {}, 'plan'],
    ['an unknown property', { plan: 'pro', note: 'x' }, 'note'],
  ])('[admin 4] refuses %s and changes nothing', async (_case, body, path) => {
    const person = await service.signedIn();
    const refused = await grant(person.userId, body);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'bad_request']);
    expect(refused.body.error.details[0].path).toBe(path);
    expect((await admin.get(`/v1/admin/users/${person.userId}/plan`)).body).toEqual({
      plan: 'free',
      next_plan: null,
      data: [],
      next_cursor: null,
    });
  });

  test('an unknown account is 404, to read and to grant', async () => {
    expect((await grant(UNKNOWN, { plan: 'pro' })).status).toBe(404);
    expect((await admin.get(`/v1/admin/users/${UNKNOWN}/plan`)).status).toBe(404);
  });

  test('grants at the same time all leave their line, in the order in which they counted', async () => {
    const person = await service.signedIn();
    const replies = await Promise.all(Array.from({ length: 12 }, () => grant(person.userId, { plan: 'pro' })));
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 200));
    const first = await admin.get(`/v1/admin/users/${person.userId}/plan?limit=5`);
    const second = await admin.get(
      `/v1/admin/users/${person.userId}/plan?limit=10&cursor=${String(first.body.next_cursor)}`,
    );
    const lines = [...first.body.data, ...second.body.data] as { id: string; created_at: string }[];
    expect([lines.length, second.body.next_cursor]).toEqual([12, null]);
    const moments = lines.map(({ created_at: moment }) => moment);
    expect(new Set(moments).size).toBe(12);
    expect([...moments].sort().reverse()).toEqual(moments);
  });

  test('a line of the history is never changed or removed', async () => {
    const person = await service.signedIn();
    await grant(person.userId, { plan: 'pro' });
    for (const sql of [
      `update plan_lines set plan = 'free' where user_id = $1`,
      'delete from plan_lines where user_id = $1',
    ]) {
      await expect(query(sql, [person.userId])).rejects.toThrow('never rewritten');
    }
  });
});
