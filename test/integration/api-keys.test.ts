import { flushKeyUse } from '../../src/api/auth/service';
import { clock } from '../../src/api/core/clock';
import { query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';

const service = useService();
const UNKNOWN = 'key_0000000000000000';

const create = (person: Person, body: object): Promise<Reply> =>
  service.client(person.token).post('/v1/api-keys', body);
const idOfKey = async (secret: string): Promise<string> => {
  const row = await queryOne<{ id: string }>(
    `select id from api_keys where key_hash = sha256(convert_to($1, 'UTF8'))`,
    [secret],
  );
  return row?.id ?? '';
};
const denied = { status: 403, body: { error: { code: 'access_denied' } } };
const missing = { status: 404, body: { error: { code: 'not_found', message: 'Not found.' } } };

describe('POST /v1/api-keys', () => {
  test('[api-keys 1] [api-keys 5] gives the secret once, and stores only its digest', async () => {
    const person = await service.signedIn();
    const made = await create(person, { name: 'ci' });
    expect(made.status).toBe(201);
    const { key, ...record } = made.body;
    expect(key).toMatch(/^svc_sk_[0-9A-Za-z]{40}$/);
    expect(record).toMatchObject({
      id: expect.stringMatching(/^key_[0-9A-Za-z]{16}$/),
      name: 'ci',
      key_prefix: key.slice(0, 12),
      project_id: null,
      user_id: person.userId,
      last_used_at: null,
    });
    expect((await service.client(person.token).get(`/v1/api-keys/${record.id}`)).body).toEqual(record);
    const [row] = await query<{ text: string }>(
      `select k::text || encode(k.key_hash, 'escape') as text from api_keys k where id = $1`,
      [record.id],
    );
    expect(row?.text).toContain(key.slice(0, 12));
    expect(row?.text).not.toContain(key);
    expect(row?.text).not.toContain(Buffer.from(key).toString('hex'));
    expect((await service.client(key).get('/v1/users/me')).body.id).toBe(person.userId);
  });

  test('scopes a key to a project of the caller', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const made = await create(person, { name: 'one project', project_id: project.id });
    expect(made).toMatchObject({ status: 201, body: { project_id: project.id } });
    expect((await service.client(made.body.key).get(`/v1/projects/${project.id}`)).status).toBe(200);
  });

  test('[api-keys 2] needs a signed-in person', async () => {
    const person = await service.signedIn();
    const key = await service.apiKey(person);
    expect(await service.client(key).post('/v1/api-keys', { name: 'x' })).toMatchObject(denied);
    expect((await service.client().post('/v1/api-keys', { name: 'x' })).status).toBe(401);
  });

  test('does not know projects of strangers, nor malformed ids', async () => {
    const person = await service.signedIn();
    const strange = await service.project(await service.signedIn());
    for (const projectId of [strange.id, newId('project'), 'x']) {
      expect(await create(person, { name: 'x', project_id: projectId })).toMatchObject(missing);
    }
  });

  test.each([
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a long name', { name: 'x'.repeat(101) }, 'name'],
    ['a project that is a number', { name: 'x', project_id: 1 }, 'project_id'],
    ['an unknown property', { name: 'x', policy_ids: [] }, 'policy_ids'],
  ])('refuses %s', async (_case, body, path) => {
    const answer = await create(await service.signedIn(), body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });
  });

  test('takes duplicate names, one of 100 characters, and a project_id of null', async () => {
    const person = await service.signedIn();
    expect((await create(person, { name: 'x'.repeat(100) })).status).toBe(201);
    expect((await create(person, { name: 'twin', project_id: null })).status).toBe(201);
    expect((await create(person, { name: 'twin' })).status).toBe(201);
  });

  test('[api-keys 7] allows 100 live keys, also when the last places are asked for at once', async () => {
    const person = await service.signedIn();
    await query(
      `insert into api_keys (id, user_id, name, key_hash, key_prefix, created_at, updated_at)
       select 'key_' || left(md5($1 || n), 16), $1, 'many', sha256(convert_to($1 || n, 'UTF8')), 'svc_sk_12345', now(), now()
       from generate_series(1, 98) n`,
      [person.userId],
    );
    const answers = await Promise.all(Array.from({ length: 5 }, () => create(person, { name: 'last' })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 409, 409, 409]);
    const refused = answers.find(({ status }) => status === 409);
    expect(refused?.body.error).toMatchObject({ code: 'api_key_limit_reached', details: { limit: 100 } });
    const made = answers.find(({ status }) => status === 201);
    await service.client(person.token).delete(`/v1/api-keys/${made?.body.id as string}`);
    expect((await create(person, { name: 'freed' })).status).toBe(201);
  });
});

describe('reading keys', () => {
  test('lists own keys, newest first, in pages', async () => {
    const person = await service.signedIn();
    await service.apiKey(await service.signedIn());
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) ids.unshift((await create(person, { name })).body.id as string);
    const key = await service.apiKey(person);
    ids.unshift(await idOfKey(key));

    const first = await service.client(key).get('/v1/api-keys?limit=3');
    expect(first.status).toBe(200);
    expect(first.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 3));
    expect(first.body.data[0]).not.toHaveProperty('key');
    const cursor = encodeURIComponent(first.body.next_cursor as string);
    const second = await service.client(person.token).get(`/v1/api-keys?limit=3&cursor=${cursor}`);
    expect(second.body).toMatchObject({ data: [{ id: ids[3] }], next_cursor: null });
  });

  test('filters by project, and binds the cursor to the filter and the user', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    for (const name of ['a', 'b']) await create(person, { name, project_id: project.id });
    await create(person, { name: 'all' });
    const page = await service.client(person.token).get(`/v1/api-keys?project_id=${project.id}&limit=1`);
    expect(page.body.data).toMatchObject([{ name: 'b', project_id: project.id }]);
    const cursor = encodeURIComponent(page.body.next_cursor as string);
    const refused = { status: 400, body: { error: { code: 'bad_request', details: [{ path: 'query.cursor' }] } } };
    expect(await service.client(person.token).get(`/v1/api-keys?cursor=${cursor}`)).toMatchObject(refused);
    const stranger = await service.signedIn();
    const theirs = await service.client(stranger.token).get(`/v1/api-keys?project_id=${project.id}&cursor=${cursor}`);
    expect(theirs).toMatchObject(refused);
  });

  test('refuses a bad query', async () => {
    const { token } = await service.signedIn();
    for (const [query_, path] of [
      ['limit=abc', 'query.limit'],
      ['name=x', 'query.name'],
      ['cursor=xyz', 'query.cursor'],
    ]) {
      const answer = await service.client(token).get(`/v1/api-keys?${query_ ?? ''}`);
      expect(answer).toMatchObject({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });
    }
  });

  test('is closed to project-scoped keys, and to nobody in particular', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const key = await service.apiKey(person, { projectId: project.id });
    expect(await service.client(key).get('/v1/api-keys')).toMatchObject(denied);
    expect(await service.client(key).get(`/v1/api-keys/${await idOfKey(key)}`)).toMatchObject(denied);
    expect((await service.client().get('/v1/api-keys')).status).toBe(401);
    expect((await service.client().get(`/v1/api-keys/${UNKNOWN}`)).status).toBe(401);
  });

  test("does not know another user's key, an unknown one, or a malformed id", async () => {
    const person = await service.signedIn();
    const strange = await idOfKey(await service.apiKey(await service.signedIn()));
    for (const id of [strange, UNKNOWN, 'key_1']) {
      expect(await service.client(person.token).get(`/v1/api-keys/${id}`)).toMatchObject(missing);
    }
  });
});

describe('PATCH /v1/api-keys/{api_key_id}', () => {
  test('renames', async () => {
    const person = await service.signedIn();
    const key = await service.apiKey(person);
    const id = await idOfKey(key);
    const renamed = await service.client(key).patch(`/v1/api-keys/${id}`, { name: 'new name' });
    expect(renamed).toMatchObject({ status: 200, body: { id, name: 'new name' } });
    expect(renamed.body.updated_at > renamed.body.created_at).toBe(true);
    expect((await service.client(key).get('/v1/users/me')).status).toBe(200);
  });

  test('refuses other fields, other callers and other keys', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const id = await idOfKey(await service.apiKey(person));
    const path = `/v1/api-keys/${id}`;
    const bad = await service.client(person.token).patch(path, { name: 'x', project_id: project.id });
    expect(bad).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path: 'project_id' }] } },
    });
    expect((await service.client(person.token).patch(path, {})).status).toBe(400);
    const scoped = await service.apiKey(person, { projectId: project.id });
    expect(await service.client(scoped).patch(path, { name: 'x' })).toMatchObject(denied);
    expect((await service.client().patch(path, { name: 'x' })).status).toBe(401);
    const stranger = await service.signedIn();
    expect(await service.client(stranger.token).patch(path, { name: 'x' })).toMatchObject(missing);
  });
});

describe('POST /v1/api-keys/{api_key_id}:rotate', () => {
  test('[api-keys 4] replaces the secret at once and keeps the rest', async () => {
    const person = await service.signedIn();
    const made = await create(person, { name: 'turned' });
    const rotated = await service.client(person.token).post(`/v1/api-keys/${made.body.id as string}:rotate`);
    expect(rotated.status).toBe(200);
    expect(rotated.body).toMatchObject({ id: made.body.id, name: 'turned', project_id: null });
    expect(rotated.body.created_at).toBe(made.body.created_at);
    expect(rotated.body.updated_at > made.body.updated_at).toBe(true);
    expect(rotated.body.key).toMatch(/^svc_sk_[0-9A-Za-z]{40}$/);
    expect(rotated.body.key).not.toBe(made.body.key);
    expect(rotated.body.key_prefix).toBe(rotated.body.key.slice(0, 12));
    expect((await service.client(made.body.key).get('/v1/users/me')).status).toBe(401);
    expect((await service.client(rotated.body.key).get('/v1/users/me')).status).toBe(200);
  });

  test('at once several times, or with a revocation, leaves one secret that works, or none', async () => {
    const person = await service.signedIn();
    const made = await create(person, { name: 'turned' });
    const path = `/v1/api-keys/${made.body.id as string}`;
    const client = service.client(person.token);
    const working = async (answers: Reply[]): Promise<number> => {
      const secrets = answers.flatMap(({ status, body }) => (status === 200 ? [body.key as string] : []));
      const uses = await Promise.all(secrets.map((secret) => service.client(secret).get('/v1/users/me')));
      return uses.filter(({ status }) => status === 200).length;
    };
    const turned = await Promise.all([1, 2, 3].map(() => client.post(`${path}:rotate`)));
    expect(turned.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await working(turned)).toBe(1);
    const [gone, late, again] = await Promise.all([
      client.delete(path),
      client.post(`${path}:rotate`),
      client.delete(path),
    ]);
    expect([gone.status, again.status].sort()).toEqual([204, 404]);
    expect([200, 404]).toContain(late.status);
    expect(await working([late])).toBe(0);
  });

  test('needs a signed-in person and an own key', async () => {
    const person = await service.signedIn();
    const key = await service.apiKey(person);
    const id = await idOfKey(key);
    expect(await service.client(key).post(`/v1/api-keys/${id}:rotate`)).toMatchObject(denied);
    expect((await service.client().post(`/v1/api-keys/${id}:rotate`)).status).toBe(401);
    const stranger = await service.signedIn();
    expect(await service.client(stranger.token).post(`/v1/api-keys/${id}:rotate`)).toMatchObject(missing);
    expect((await service.client(person.token).post(`/v1/api-keys/${id}:rotate`, { name: 'x' })).status).toBe(400);
    expect((await service.client(key).get('/v1/users/me')).status).toBe(200);
  });
});

describe('DELETE /v1/api-keys/{api_key_id}', () => {
  test('[api-keys 6] revokes by a session, by an account-scoped key, and by the key itself', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const account = await service.apiKey(person);
    const first = await service.apiKey(person);
    const second = await service.apiKey(person);
    const scoped = await service.apiKey(person, { projectId: project.id });
    for (const [credential, key] of [
      [person.token, first],
      [account, second],
      [scoped, scoped],
      [account, account],
    ] as const) {
      const path = `/v1/api-keys/${await idOfKey(key)}`;
      expect(await service.client(credential).delete(path)).toMatchObject({ status: 204 });
      expect((await service.client(key).get('/v1/users/me')).status).toBe(401);
      expect(await service.client(person.token).get(path)).toMatchObject(missing);
    }
  });

  test('lets a project-scoped key revoke no other key', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const scoped = await service.apiKey(person, { projectId: project.id });
    const other = await service.apiKey(person, { projectId: project.id });
    expect(await service.client(scoped).delete(`/v1/api-keys/${await idOfKey(other)}`)).toMatchObject(denied);
    expect((await service.client(other).get('/v1/users/me')).status).toBe(200);
  });

  test("does not know another user's key", async () => {
    const person = await service.signedIn();
    const strange = await service.apiKey(await service.signedIn());
    expect(await service.client(person.token).delete(`/v1/api-keys/${await idOfKey(strange)}`)).toMatchObject(missing);
    expect(await service.client(person.token).delete(`/v1/api-keys/${UNKNOWN}`)).toMatchObject(missing);
    expect((await service.client().delete(`/v1/api-keys/${UNKNOWN}`)).status).toBe(401);
    expect((await service.client(strange).get('/v1/users/me')).status).toBe(200);
  });
});

describe('what a key reaches', () => {
  test('[api-keys 3] a project-scoped key: its project only', async () => {
    const person = await service.signedIn();
    const [own, other] = [await service.project(person), await service.project(person)];
    const strange = await service.project(await service.signedIn());
    const key = service.client(await service.apiKey(person, { projectId: own.id }));
    expect((await key.get(`/v1/projects/${own.id}`)).status).toBe(200);
    expect(await key.get(`/v1/projects/${other.id}`)).toMatchObject(denied);
    expect(await key.get(`/v1/projects/${strange.id}`)).toMatchObject(missing);
    expect(await key.get(`/v1/projects/${newId('project')}`)).toMatchObject(missing);
  });

  test("a key of a project goes with it, and the user's other keys stay", async () => {
    const person = await service.signedIn();
    const [gone, kept] = [await service.project(person), await service.project(person)];
    const keys = await Promise.all([gone, kept].map(({ id }) => service.apiKey(person, { projectId: id })));
    const [lost = '', left = ''] = keys;
    const id = await idOfKey(lost);
    expect((await service.client(lost).get('/v1/projects')).body.data).toMatchObject([{ id: gone.id }]);
    await query('delete from projects where id = $1', [gone.id]);
    expect((await service.client(lost).get(`/v1/projects/${gone.id}`)).status).toBe(401);
    expect(await service.client(person.token).get(`/v1/api-keys/${id}`)).toMatchObject(missing);
    expect((await service.client(left).get(`/v1/projects/${kept.id}`)).status).toBe(200);
  });

  test('an account-scoped key: every project of its user, now and later', async () => {
    const person = await service.signedIn();
    const key = service.client(await service.apiKey(person));
    const strange = await service.project(await service.signedIn());
    const later = await service.project(person);
    expect((await key.get(`/v1/projects/${later.id}`)).status).toBe(200);
    expect(await key.get(`/v1/projects/${strange.id}`)).toMatchObject(missing);
    await service.member(strange.id, person, 'member');
    expect(await key.get(`/v1/projects/${strange.id}`)).toMatchObject({ status: 200, body: { role: 'member' } });
    await query('delete from project_members where project_id = $1 and user_id = $2', [strange.id, person.userId]);
    expect(await key.get(`/v1/projects/${strange.id}`)).toMatchObject(missing);
  });
});

describe('last_used_at', () => {
  test('is written after the answer, at most once a minute', async () => {
    const person = await service.signedIn();
    const made = await create(person, { name: 'used' });
    const path = `/v1/api-keys/${made.body.id as string}`;
    const lastUse = async (): Promise<string | null> =>
      (await service.client(person.token).get(path)).body.last_used_at as string | null;
    await service.client(made.body.key).get('/v1/users/me');
    const first = await eventually(async () => {
      const at = await lastUse();
      expect(at).not.toBeNull();
      return at;
    });
    await service.client(made.body.key).get('/v1/users/me');
    const other = await create(person, { name: 'other' });
    await service.client(other.body.key).get('/v1/users/me');
    // The other key's use is written with the next flush, which would have carried a second use of the first one.
    await eventually(async () => {
      const row = await service.client(person.token).get(`/v1/api-keys/${other.body.id as string}`);
      expect(row.body.last_used_at).not.toBeNull();
    });
    expect(await lastUse()).toBe(first);
  });

  test('is written again by a use a minute later, and by none before', async () => {
    const person = await service.signedIn();
    const made = await create(person, { name: 'used' });
    const startedMs = Date.now();
    const useAfter = async (ms: number): Promise<number> => {
      jest.spyOn(clock, 'ms').mockReturnValue(startedMs + ms);
      jest.spyOn(clock, 'now').mockReturnValue(new Date(startedMs + ms));
      try {
        await service.client(made.body.key).get('/v1/users/me');
        await flushKeyUse();
      } finally {
        jest.restoreAllMocks();
      }
      const { body } = await service.client(person.token).get(`/v1/api-keys/${made.body.id as string}`);
      return new Date(body.last_used_at as string).getTime() - startedMs;
    };
    expect([await useAfter(0), await useAfter(59_999), await useAfter(60_000)]).toEqual([0, 0, 60_000]);
  });
});
