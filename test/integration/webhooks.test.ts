import { queryOne } from '../../src/api/core/db';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { deliveryRow, recordOnly } from '../support/webhooks';

const service = useService();
const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;
const URL = 'https://example.com/hook';

let owner: Person;
let client: ApiClient;
let projectId: string;
let webhooks: string;

beforeAll(async () => {
  owner = await service.signedIn();
  client = service.client(owner.token);
});

beforeEach(async () => {
  projectId = (await service.project(owner)).id;
  webhooks = `/v1/projects/${projectId}/webhooks`;
});

const create = (given: object = {}): Promise<Reply> => client.post(webhooks, { url: URL, events: ['*'], ...given });

const created = async (given: object = {}): Promise<Record<string, string>> => {
  const answer = await create(given);
  expect(answer.status).toBe(201);
  return answer.body as Record<string, string>;
};

describe('create', () => {
  test('answers the webhook with its secret, and only there', async () => {
    const answer = await create({ events: ['generation.*', 'project.paused'], description: 'mine' });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^whk_[0-9A-Za-z]{16}$/) as string,
      project_id: projectId,
      url: URL,
      events: ['generation.*', 'project.paused'],
      description: 'mine',
      active: true,
      secret: expect.stringMatching(SECRET) as string,
      created_at: expect.any(String) as string,
      updated_at: answer.body.created_at as string,
    });
    const { secret, ...rest } = answer.body as Record<string, unknown>;
    expect(secret).toBeDefined();
    expect((await client.get(`${webhooks}/${String(rest.id)}`)).body).toEqual(rest);
    expect((await client.get(webhooks)).body).toEqual({ data: [rest], next_cursor: null });
  });

  test('stores the secret encrypted', async () => {
    const { id, secret } = await created();
    const row = await queryOne<{ secret_data: Buffer }>('select secret_data from webhooks where id = $1', [id]);
    expect(row?.secret_data.includes(secret ?? '')).toBe(false);
    expect(row?.secret_data.length).toBeGreaterThan(28);
  });

  test('fills in defaults, and takes null for the description', async () => {
    expect(await created({ description: null })).toMatchObject({ description: null, active: true });
    expect(await created({ active: false })).toMatchObject({ description: null, active: false });
  });

  test('drops duplicates of the events and keeps the order', async () => {
    expect((await created({ events: ['project.*', '*', 'project.*'] })).events).toEqual(['project.*', '*']);
  });

  test.each([
    ['generation'],
    ['generation.'],
    ['generation.started'],
    ['foo.*'],
    ['gen*'],
    ['*.completed'],
    ['orchestration_run.succeeded'],
  ])('[webhooks 6] refuses the event %s and names the entry', async (entry) => {
    const answer = await create({ events: ['*', entry] });
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'events.1' }] });
  });

  test.each([
    ['no events', { url: URL }, 'events'],
    ['an empty list', { url: URL, events: [] }, 'events'],
    ['51 entries', { url: URL, events: Array(51).fill('*') }, 'events'],
    ['events that are no list', { url: URL, events: '*' }, 'events'],
    ['no url', { events: ['*'] }, 'url'],
    ['a description of 501 characters', { url: URL, events: ['*'], description: 'a'.repeat(501) }, 'description'],
    ['a description that cannot be stored', { url: URL, events: ['*'], description: 'a\u0000b' }, 'description'],
    ['active that is no boolean', { url: URL, events: ['*'], active: 'yes' }, 'active'],
    ['an unknown property', { url: URL, events: ['*'], secret: 'whsec_mine' }, 'secret'],
  ])('refuses %s', async (_what, body, path) => {
    const answer = await client.post(webhooks, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path }] });
  });

  test('takes 50 entries and a description of 500 characters', async () => {
    expect((await created({ events: Array(50).fill('*'), description: 'a'.repeat(500) })).events).toEqual(['*']);
  });

  test('[webhooks 5] stops at 20, inactive ones included', async () => {
    for (let count = 0; count < 20; count += 1) await created({ active: count >= 5 });
    const answer = await create();
    expect(answer.status).toBe(409);
    expect(answer.body.error).toMatchObject({ code: 'webhook_limit_reached', details: { limit: 20 } });
    const [first] = (await client.get(webhooks)).body.data as { id: string }[];
    expect((await client.delete(`${webhooks}/${first?.id ?? ''}`)).status).toBe(204);
    await created();
  });

  test('stops at 20 when all come at once', async () => {
    const answers = await Promise.all(Array.from({ length: 26 }, () => create()));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(20);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(6);
  });
});

describe('list', () => {
  test('goes by pages, newest first', async () => {
    const ids: (string | undefined)[] = [];
    for (let count = 0; count < 5; count += 1) ids.unshift((await created()).id);
    const first = await client.get(`${webhooks}?limit=2`);
    const second = await client.get(`${webhooks}?limit=2&cursor=${String(first.body.next_cursor)}`);
    const third = await client.get(`${webhooks}?limit=2&cursor=${String(second.body.next_cursor)}`);
    const pages = [first, second, third].flatMap(({ body }) => body.data as { id: string; created_at: string }[]);
    expect(new Set(pages.map(({ id }) => id))).toEqual(new Set(ids));
    expect(pages.map((row) => row.created_at)).toEqual(
      pages
        .map((row) => row.created_at)
        .sort()
        .reverse(),
    );
    expect(third.body.next_cursor).toBeNull();
  });

  test.each([
    ['cursor=nonsense', 'query.cursor'],
    ['limit=abc', 'query.limit'],
    ['offset=1', 'query.offset'],
  ])('refuses %s', async (query, path) => {
    const answer = await client.get(`${webhooks}?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path }] });
  });
});

describe('change', () => {
  test('changes what is given and leaves the rest', async () => {
    const { secret, ...before } = await created({ description: 'mine' });
    expect(secret).toMatch(SECRET);
    const path = `${webhooks}/${String(before.id)}`;
    const answer = await client.patch(path, { active: false, events: ['message.*', 'message.*'] });
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      ...before,
      active: false,
      events: ['message.*'],
      updated_at: answer.body.updated_at as string,
    });
    expect(Date.parse(answer.body.updated_at as string)).toBeGreaterThanOrEqual(Date.parse(before.updated_at ?? ''));
    expect((await client.patch(path, { description: null, url: 'https://example.com/other' })).body).toMatchObject({
      description: null,
      url: 'https://example.com/other',
      active: false,
    });
  });

  test('takes an empty body and changes nothing', async () => {
    const { id, updated_at } = await created();
    const answer = await client.patch(`${webhooks}/${String(id)}`, {});
    expect(answer.status).toBe(200);
    expect(answer.body.updated_at).toBe(updated_at);
  });

  test.each([
    [{ events: ['generation'] }, 'events.0'],
    [{ events: [] }, 'events'],
    [{ active: null }, 'active'],
    [{ project_id: 'proj_V1StGXR8Z5jdHi6B' }, 'project_id'],
  ])('refuses %j', async (body, path) => {
    const { id } = await created();
    const answer = await client.patch(`${webhooks}/${String(id)}`, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path }] });
  });

  test('rotating makes another secret each time', async () => {
    const { id, secret } = await created();
    const first = await client.post(`${webhooks}/${String(id)}:rotate-secret`);
    const second = await client.post(`${webhooks}/${String(id)}:rotate-secret`, {});
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(first.body).toMatchObject({ id, secret: expect.stringMatching(SECRET) as string });
    expect(new Set([secret, first.body.secret, second.body.secret]).size).toBe(3);
  });

  test('deleting takes the deliveries along', async () => {
    const { id } = await created();
    const [deliveryId = ''] = await recordOnly(projectId);
    expect((await deliveryRow(deliveryId)).status).toBe('pending');
    const answer = await client.delete(`${webhooks}/${String(id)}`);
    expect([answer.status, answer.body]).toEqual([204, {}]);
    await expect(deliveryRow(deliveryId)).rejects.toThrow('no delivery');
    expect((await client.get(`${webhooks}/${String(id)}`)).status).toBe(404);
    expect((await client.delete(`${webhooks}/${String(id)}`)).status).toBe(404);
  });
});

describe('who may', () => {
  const requests = (
    base: string,
    id: string,
  ): [method: 'get' | 'post' | 'patch' | 'delete', path: string, body?: object][] => [
    ['post', base, { url: URL, events: ['*'] }],
    ['get', base],
    ['get', `${base}/${id}`],
    ['patch', `${base}/${id}`, { active: false }],
    ['post', `${base}/${id}:rotate-secret`],
    ['post', `${base}/${id}:recover`, { since: new Date().toISOString() }],
    ['delete', `${base}/${id}`],
  ];
  const call = (as: ApiClient, [method, path, body]: ReturnType<typeof requests>[number]): Promise<Reply> =>
    method === 'get' || method === 'delete' ? as[method](path) : as[method](path, body);

  test.each([0, 1, 2, 3, 4, 5, 6])('request %i needs a credential, membership and scope', async (index) => {
    const { id = '' } = await created();
    const request = requests(webhooks, id)[index];
    if (request === undefined) throw new Error('no such request');
    const other = await service.signedIn();
    const elsewhere = await service.project(owner);
    const foreignKey = await service.apiKey(owner, { projectId: elsewhere.id });
    expect((await call(service.client(), request)).body.error.code).toBe('unauthorized');
    expect((await call(service.client(other.token), request)).body.error.code).toBe('not_found');
    expect((await call(service.client(foreignKey), request)).body.error.code).toBe('access_denied');
    const key = await service.apiKey(owner, { projectId });
    expect((await call(service.client(key), request)).status).toBeLessThan(300);
  });

  test.each([2, 3, 4, 5, 6])('request %i finds nothing in another project, nor by a malformed id', async (index) => {
    const { id = '' } = await created();
    const elsewhere = `/v1/projects/${(await service.project(owner)).id}/webhooks`;
    for (const request of [requests(elsewhere, id)[index], requests(webhooks, 'whk_1')[index]]) {
      if (request === undefined) throw new Error('no such request');
      const answer = await call(client, request);
      expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found']);
    }
    expect((await client.get(`${webhooks}/${id}`)).body).toMatchObject({ id, active: true });
  });

  test('a plain member may', async () => {
    const member = await service.signedIn();
    await service.member(projectId, member, 'member');
    expect((await service.client(member.token).post(webhooks, { url: URL, events: ['*'] })).status).toBe(201);
  });

  test('a path that exists names its methods', async () => {
    const { id } = await created();
    const answer = await client.put(`${webhooks}/${String(id)}`, {});
    expect(answer.status).toBe(405);
    expect(answer.headers.allow?.split(', ').sort()).toEqual(['DELETE', 'GET', 'PATCH']);
  });
});
