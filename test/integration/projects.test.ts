import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { useService } from '../support/app';
import type { Reply } from '../support/client';

const service = useService();
const denied = { status: 403, body: { error: { code: 'access_denied' } } };
const post = (credential: string | undefined, body: object, headers?: Record<string, string>): Promise<Reply> =>
  service.client(credential).post('/v1/projects', body, headers);
const idsOf = ({ body }: Reply): string[] => body.data.map(({ id }: { id: string }) => id);

const defaults = {
  status: 'active',
  paused_at: null,
  pause_reason: null,
  guardrail_ids: [],
  default_model_route_id: null,
  max_concurrent_runs: null,
  max_chain_generations: null,
  max_orchestration_run_depth: null,
  audit_reads_enabled: false,
  managed_conversion: true,
  require_priced_model: false,
  trace_content_mode: 'full',
  trace_content_retention_days: null,
};

describe('POST /v1/projects', () => {
  test('[projects 1] makes a project with one member, its owner', async () => {
    const person = await service.signedIn();
    const key = await service.apiKey(person);
    const made = await post(key, { name: 'getting started' });
    expect(made.status).toBe(201);
    const { id, created_at: createdAt, updated_at: updatedAt, ...rest } = made.body;
    expect(id).toMatch(/^proj_[0-9A-Za-z]{16}$/);
    expect(updatedAt).toBe(createdAt);
    expect(rest).toEqual({ ...defaults, name: 'getting started', role: 'owner', owner_user_id: person.userId });
    const members = await query(
      'select user_id, email, role, invited_by_user_id from project_members where project_id = $1',
      [id],
    );
    expect(members).toEqual([{ user_id: person.userId, email: person.email, role: 'owner', invited_by_user_id: null }]);
    expect((await service.client(person.token).get(`/v1/projects/${id as string}`)).body).toEqual(made.body);
  });

  test('stores and returns its settings', async () => {
    const { token } = await service.signedIn();
    const settings = {
      max_concurrent_runs: 5,
      max_chain_generations: 20,
      max_orchestration_run_depth: 3,
      audit_reads_enabled: true,
      managed_conversion: false,
      require_priced_model: true,
      trace_content_mode: 'full',
      trace_content_retention_days: 7,
    };
    const made = await post(token, { name: 'set', ...settings });
    expect(made).toMatchObject({ status: 201, body: settings });
    const read = await service.client(token).get(`/v1/projects/${made.body.id as string}`);
    expect(read).toMatchObject({ status: 200, body: settings });
  });

  test.each([
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a long name', { name: 'x'.repeat(256) }, 'name'],
    ['an unknown property', { name: 'x', nmae: 'y' }, 'nmae'],
    ['guardrails, which cannot exist yet', { name: 'x', guardrail_ids: [] }, 'guardrail_ids'],
    ['a default route, which cannot exist yet', { name: 'x', default_model_route_id: null }, 'default_model_route_id'],
    ['a status', { name: 'x', status: 'archived' }, 'status'],
    ['no runs at all', { name: 'x', max_concurrent_runs: 0 }, 'max_concurrent_runs'],
    ['half a run', { name: 'x', max_concurrent_runs: 1.5 }, 'max_concurrent_runs'],
    ['more than a column holds', { name: 'x', max_chain_generations: 2_147_483_648 }, 'max_chain_generations'],
    ['a depth beyond the deployment', { name: 'x', max_orchestration_run_depth: 11 }, 'max_orchestration_run_depth'],
    ['a flag that is a text', { name: 'x', audit_reads_enabled: 'true' }, 'audit_reads_enabled'],
    ['no days', { name: 'x', trace_content_retention_days: 0 }, 'trace_content_retention_days'],
    ['a mode that does not exist', { name: 'x', trace_content_mode: 'some' }, 'trace_content_mode'],
    ['a price rule that is a text', { name: 'x', require_priced_model: 'yes' }, 'require_priced_model'],
    ['an empty idempotency key', { name: 'x', idempotency_key: '' }, 'idempotency_key'],
    ['a long idempotency key', { name: 'x', idempotency_key: 'k'.repeat(256) }, 'idempotency_key'],
  ])('refuses %s', async (_case, body, path) => {
    const { token } = await service.signedIn();
    const answer = await post(token, body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'bad_request', details: [{ path }] } } });
    expect((await service.client(token).get('/v1/projects')).body.data).toEqual([]);
  });

  test('[projects 1] is closed to project-scoped keys', async () => {
    const person = await service.signedIn();
    const project = await service.project(person);
    const key = await service.apiKey(person, { projectId: project.id });
    expect(await post(key, { name: 'x' })).toMatchObject(denied);
    expect((await post(undefined, { name: 'x' })).status).toBe(401);
  });
});

describe('idempotency of POST /v1/projects', () => {
  test('[projects 2] gives the first project again for the same key and body', async () => {
    const { token } = await service.signedIn();
    const first = await post(token, { name: 'once', idempotency_key: 'k1', max_concurrent_runs: 2 });
    const again = await post(token, { max_concurrent_runs: 2, idempotency_key: 'k1', name: 'once' });
    expect([first.status, again.status]).toEqual([201, 200]);
    expect(again.body).toEqual(first.body);
  });

  test('[projects 2] refuses the key with another body', async () => {
    const { token } = await service.signedIn();
    await post(token, { name: 'once', idempotency_key: 'k1' });
    for (const body of [{ name: 'twice' }, { name: 'once', max_concurrent_runs: 1 }]) {
      expect(await post(token, { ...body, idempotency_key: 'k1' })).toMatchObject({
        status: 409,
        body: { error: { code: 'idempotency_key_reused' } },
      });
    }
    expect(idsOf(await service.client(token).get('/v1/projects'))).toHaveLength(1);
  });

  test('belongs to the user', async () => {
    const [ana, ben] = [await service.signedIn(), await service.signedIn()];
    const answers = [
      await post(ana.token, { name: 'a', idempotency_key: 'same' }),
      await post(ben.token, { name: 'b', idempotency_key: 'same' }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
  });

  test('takes the header too, and a key in the body wins over it', async () => {
    const { token } = await service.signedIn();
    const first = await post(token, { name: 'once' }, { 'Idempotency-Key': 'k1' });
    const inBody = await post(token, { name: 'once', idempotency_key: 'k1' }, { 'Idempotency-Key': 'k2' });
    expect([first.status, inBody.status]).toEqual([201, 200]);
    expect(inBody.body.id).toBe(first.body.id);
    expect((await post(token, { name: 'once' }, { 'Idempotency-Key': 'k2' })).status).toBe(201);
    const long = await post(token, { name: 'once' }, { 'Idempotency-Key': 'k'.repeat(256) });
    expect(long).toMatchObject({ status: 400, body: { error: { details: [{ path: 'Idempotency-Key' }] } } });
  });

  test('makes one project of requests that come at once', async () => {
    const { token } = await service.signedIn();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => post(token, { name: 'once', idempotency_key: 'k1' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 201]);
    expect(new Set(answers.map(({ body }) => body.id as string)).size).toBe(1);
  });

  test('ends after 24 hours', async () => {
    const person = await service.signedIn();
    const first = await post(person.token, { name: 'old', idempotency_key: 'k1' });
    await query(`update project_idempotency_keys set created_at = now() - interval '24 hours' where user_id = $1`, [
      person.userId,
    ]);
    const next = await post(person.token, { name: 'new', idempotency_key: 'k1' });
    expect(next.status).toBe(201);
    expect(next.body.id).not.toBe(first.body.id);
    expect((await post(person.token, { name: 'new', idempotency_key: 'k1' })).body.id).toBe(next.body.id);
  });
});

describe('GET /v1/projects', () => {
  test("lists the caller's projects with the caller's role, newest first, in pages", async () => {
    const [person, host] = [await service.signedIn(), await service.signedIn()];
    const ids: string[] = [];
    for (const name of ['a', 'b']) ids.unshift((await post(person.token, { name })).body.id as string);
    const hosted = (await post(host.token, { name: 'hosted' })).body.id as string;
    await service.member(hosted, person, 'admin');
    await post(host.token, { name: 'not shared' });

    const first = await service.client(await service.apiKey(person)).get('/v1/projects?limit=2');
    expect(first.body.data).toMatchObject([
      { id: hosted, role: 'admin', owner_user_id: host.userId },
      { id: ids[0], role: 'owner' },
    ]);
    const cursor = encodeURIComponent(first.body.next_cursor as string);
    const second = await service.client(person.token).get(`/v1/projects?limit=2&cursor=${cursor}`);
    expect(second.body).toMatchObject({ data: [{ id: ids[1], role: 'owner' }], next_cursor: null });
    const misused = await service.client(person.token).get(`/v1/projects?status=active&cursor=${cursor}`);
    expect(misused).toMatchObject({ status: 400, body: { error: { details: [{ path: 'query.cursor' }] } } });
  });

  test('filters by status', async () => {
    const person = await service.signedIn();
    const [active, archived] = [await service.project(person), await service.project(person)];
    await query(`update projects set status = 'archived' where id = $1`, [archived.id]);
    const { get } = service.client(person.token);
    expect(idsOf(await get('/v1/projects?status=active'))).toEqual([active.id]);
    expect(idsOf(await get('/v1/projects?status=archived'))).toEqual([archived.id]);
    expect(idsOf(await get('/v1/projects'))).toHaveLength(2);
    expect(await get('/v1/projects?status=paused')).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path: 'query.status' }] } },
    });
  });

  test('shows a project-scoped key its own project only', async () => {
    const person = await service.signedIn();
    const [own] = [await service.project(person), await service.project(person)];
    const key = await service.apiKey(person, { projectId: own.id });
    const page = await service.client(key).get('/v1/projects');
    expect(idsOf(page)).toEqual([own.id]);
    expect(page.body.next_cursor).toBeNull();
    await query('delete from project_members where project_id = $1', [own.id]);
    expect((await service.client(key).get('/v1/projects')).body).toEqual({ data: [], next_cursor: null });
  });

  test('needs a credential', async () => {
    expect((await service.client().get('/v1/projects')).status).toBe(401);
  });
});

describe('GET /v1/projects/{project_id}', () => {
  test('tells each member its own role, and since when the project is paused', async () => {
    const [owner, member] = [await service.signedIn(), await service.signedIn()];
    const project = await service.project(owner);
    await service.member(project.id, member, 'member');
    const pausedAt = new Date('2026-03-01T10:00:00.123Z');
    await query('update projects set paused_at = $2, pause_reason = $3 where id = $1', [project.id, pausedAt, 'why']);
    const facts = { paused_at: pausedAt.toISOString(), pause_reason: 'why', status: 'active' };
    for (const [person, role] of [
      [owner, 'owner'],
      [member, 'member'],
    ] as const) {
      const answer = await service.client(person.token).get(`/v1/projects/${project.id}`);
      expect(answer).toMatchObject({ status: 200, body: { ...facts, id: project.id, role } });
    }
  });

  test('[members 5] answers strangers exactly as if there were no such project', async () => {
    const project = await service.project(await service.signedIn());
    const { get } = service.client((await service.signedIn()).token);
    const answers = [
      await get(`/v1/projects/${project.id}`),
      await get('/v1/projects/proj_0000000000000000'),
      await get(`/v1/projects/${newId('agent')}`),
    ];
    for (const { status, body } of answers) {
      expect({ status, body }).toEqual({ status: 404, body: { error: { code: 'not_found', message: 'Not found.' } } });
    }
    expect((await service.client().get(`/v1/projects/${project.id}`)).status).toBe(401);
  });
});
