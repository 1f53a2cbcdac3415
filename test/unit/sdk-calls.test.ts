import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ApiError, ConnectionError, WaitTimeoutError, createClient, errorStatus, unwrap } from '@agent-platform/sdk';
import type { ClientOptions } from '@agent-platform/sdk';
import { catalog } from '../../src/api/core/errors';

type Answer = Response | Error;
const target = { projectId: 'proj_1', agentId: 'agent_1' };
const ask = { messages: [{ role: 'user' as const, content: 'hi' }] };

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
const refusal = (status: number, code: string, headers: Record<string, string> = {}): Response =>
  json(status, { error: { code, message: `refused: ${code}` } }, { 'x-request-id': 'req-1', ...headers });
const lost = (): Error => new TypeError('fetch failed');
const cut = (): Response =>
  new Response(
    new ReadableStream({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode('{"id":'));
        controller.error(new Error('reset'));
      },
    }),
    { headers: { 'content-type': 'application/json' } },
  );

/** A client whose service gives these answers, one after the other; the last one for good. */
function scripted(answers: Answer[], more: Partial<ClientOptions> = {}) {
  const requests: Request[] = [];
  const client = createClient({
    baseUrl: 'http://api.test/',
    apiKey: 'svc_sk_1',
    retry: { baseMs: 1, maxMs: 4 },
    fetch: async (request) => {
      requests.push(request);
      const answer = answers[Math.min(requests.length, answers.length) - 1]!;
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer.clone());
    },
    ...more,
  });
  return { client, requests };
}

const project = { id: 'proj_1', name: 'one' };
const getProject = { params: { path: { project_id: 'proj_1' } } };

test('reads are repeated after lost connections, bodies cut short, a 503 and what a proxy says', async () => {
  const proxy = new Response('<html>', { status: 502, headers: { 'content-type': 'text/html' } });
  for (const trouble of [lost(), cut(), refusal(503, 'service_unavailable', { 'retry-after': '0' }), proxy]) {
    const { client, requests } = scripted([trouble, json(200, project)]);
    const { data } = await client.GET('/v1/projects/{project_id}', getProject);
    expect(data).toEqual(project);
    expect(requests.map(({ url }) => url)).toEqual(Array(2).fill('http://api.test/v1/projects/proj_1'));
    expect(requests[0]?.headers.get('authorization')).toBe('Bearer svc_sk_1');
  }
});

test('the number of repeats is bounded, and the last trouble is told', async () => {
  const down = scripted([lost()]);
  await expect(down.client.GET('/v1/projects/{project_id}', getProject)).rejects.toThrow(ConnectionError);
  expect(down.requests).toHaveLength(4);
  const full = scripted([refusal(503, 'service_unavailable', { 'retry-after': '0' })]);
  await expect(unwrap(full.client.GET('/v1/projects/{project_id}', getProject))).rejects.toMatchObject({ status: 503 });
  expect(full.requests).toHaveLength(4);
  const never = scripted([lost()], { retry: { retries: 0 } });
  await expect(never.client.GET('/v1/projects/{project_id}', getProject)).rejects.toThrow(
    'GET /v1/projects/proj_1: no whole answer came',
  );
  expect(never.requests).toHaveLength(1);
});

test('a write without a key is sent once, unless it was refused for too many calls', async () => {
  for (const trouble of [lost(), refusal(503, 'service_unavailable', { 'retry-after': '0' })]) {
    const { client, requests } = scripted([trouble, json(201, project)]);
    await client.POST('/v1/projects', { body: { name: 'one' } }).catch(() => undefined);
    expect(requests).toHaveLength(1);
  }
  const limited = scripted([refusal(429, 'too_many_requests', { 'retry-after': '0' }), json(201, project)]);
  expect(await unwrap(limited.client.POST('/v1/projects', { body: { name: 'one' } }))).toEqual(project);
  const patient = scripted([refusal(429, 'too_many_requests', { 'retry-after': '61' }), json(201, project)]);
  await expect(unwrap(patient.client.POST('/v1/projects', { body: { name: 'one' } }))).rejects.toMatchObject({
    code: 'too_many_requests',
    retryAfter: 61,
  });
  const final = scripted([refusal(502, 'AI_PROVIDER_ERROR'), json(200, project)]);
  await expect(unwrap(final.client.GET('/v1/projects/{project_id}', getProject))).rejects.toThrow('AI_PROVIDER_ERROR');
});

test('an error has all that the answer says', async () => {
  const body = { error: { code: 'bad_request', message: 'Bad.', details: [{ path: 'name', message: 'is empty' }] } };
  const { client } = scripted([json(400, body, { 'x-request-id': 'req-7' })]);
  const error: unknown = await unwrap(client.POST('/v1/projects', { body: { name: '' } })).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ ...body.error, status: 400, requestId: 'req-7', retryAfter: null });
  expect(error).toMatchObject({ call: 'POST /v1/projects', generationId: null, name: 'ApiError' });
  const odd = scripted([new Response('busy', { status: 418 })]);
  await expect(unwrap(odd.client.GET('/health'))).rejects.toMatchObject({ code: 'unexpected_answer', status: 418 });
});

test('tokens that are renewed are asked for before every try', async () => {
  let number = 0;
  const { client, requests } = scripted([lost(), json(200, project)], {
    apiKey: undefined,
    getToken: () => `token-${(number += 1)}`,
  });
  await client.GET('/v1/projects/{project_id}', getProject);
  expect(requests.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer token-1', 'Bearer token-2']);
  expect(() => createClient({ baseUrl: 'http://api.test', apiKey: 'a', accessToken: 'b' })).toThrow(TypeError);
});

test('a run is asked for under one key, waits on where it was let go, and answers the result', async () => {
  const ids = { id: 'gen_1', generation_id: 'gen_1', trace_id: 'trace_1' };
  const done = { ...ids, status: 'completed', ai_provider_id: null, output: { content: 'hello' } };
  const { client, requests } = scripted([
    lost(),
    json(202, { status: 'accepted', ...ids }),
    json(200, { id: 'gen_1', status: 'in_progress' }),
    json(200, { id: 'gen_1', status: 'completed' }),
    json(202, done),
  ]);
  expect(await client.generations.run(target, ask)).toEqual(done);
  expect(requests.map(({ method, url }) => `${method} ${url.replace(/^.*agent_1|^.*proj_1/, '')}`)).toEqual([
    'POST /generate?wait=true',
    'POST /generate?wait=true',
    'GET /generations/gen_1',
    'GET /generations/gen_1',
    'POST /generate?wait=false',
  ]);
  const keys = requests.filter(({ method }) => method === 'POST').map(({ headers }) => headers.get('idempotency-key'));
  expect(new Set(keys).size).toBe(1);
  expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
});

test('a failure that is read from the record is the error of one who waited', async () => {
  const ids = { id: 'gen_1', generation_id: 'gen_1', trace_id: 'trace_1' };
  const error = { code: 'AI_PROVIDER_ERROR', message: 'Provider returned 404' };
  const { client } = scripted([json(202, { ...ids, status: 'failed', error })]);
  await expect(client.generations.run(target, ask)).rejects.toMatchObject({
    ...error,
    status: 502,
    generationId: 'gen_1',
  });
});

test('the time of the caller and its signal end the waiting', async () => {
  const ids = { id: 'gen_1', generation_id: 'gen_1', trace_id: 'trace_1' };
  const answers = [json(202, { status: 'accepted', ...ids }), json(200, { id: 'gen_1', status: 'in_progress' })];
  const error: unknown = await scripted(answers)
    .client.generations.run(target, ask, { timeoutMs: 30, idempotencyKey: 'mine' })
    .catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WaitTimeoutError);
  expect(error).toMatchObject({ generationId: 'gen_1', idempotencyKey: 'mine' });
  const why = new Error('enough');
  const abort = new AbortController();
  const running = scripted(answers).client.generations.run(target, ask, { signal: abort.signal });
  setTimeout(() => abort.abort(why), 10);
  await expect(running).rejects.toBe(why);
});

describe('lists', () => {
  const pages = (all: Record<string, unknown>[]) => {
    const left = all.map((page) => json(200, page));
    return scripted(left, { retry: { retries: 0 } });
  };
  const collect = async <Item>(list: AsyncIterable<Item>): Promise<Item[]> => {
    const found: Item[] = [];
    for await (const item of list) found.push(item);
    return found;
  };
  const search = (requests: Request[]): string[] => requests.map(({ url }) => new URL(url).search);

  test('that page by offset are read to their end, and rows that shift come once', async () => {
    const { client, requests } = pages([
      { data: [{ id: 'a' }, { id: 'b' }], total: 5, limit: 2, offset: 0 },
      { data: [{ id: 'b' }, { id: 'c' }], total: 5, limit: 2, offset: 2 },
      { data: [{ id: 'd' }], total: 5, limit: 2, offset: 4 },
    ]);
    const path = { project_id: 'proj_1' };
    const found = await collect(client.items('/v1/projects/{project_id}/agents', { path, pageSize: 2 }));
    expect(found.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
    expect(search(requests)).toEqual(['?limit=2', '?limit=2&offset=2', '?limit=2&offset=4']);
  });

  test('that page by cursor are read to their end', async () => {
    const { client, requests } = pages([
      { data: [{ id: 'a' }], next_cursor: 'after a' },
      { data: [{ id: 'b' }], next_cursor: null },
    ]);
    expect((await collect(client.items('/v1/api-keys'))).map(({ id }) => id)).toEqual(['a', 'b']);
    expect(search(requests)).toEqual(['', '?cursor=after%20a']);
  });

  test('that answer a refusal throw it, and an empty one ends', async () => {
    await expect(collect(scripted([refusal(401, 'unauthorized')]).client.items('/v1/api-keys'))).rejects.toThrow(
      ApiError,
    );
    expect(await collect(pages([{ data: [], total: 3 }]).client.items('/v1/api-keys'))).toEqual([]);
  });
});

describe('the generated types', () => {
  const read = (name: string): string => readFileSync(resolve(__dirname, '../..', name), 'utf8');
  const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16);

  test('are those of the contract as it is committed, and nobody edited them', () => {
    const [head = '', ...rest] = read('packages/sdk/src/schema.ts').split('\n');
    const [, contract, text] = /contract (\w+), text (\w+)/.exec(head) ?? [];
    const fresh = contract === digest(read('docs/openapi.json')) && text === digest(rest.join('\n'));
    expect(fresh ? 'fresh' : 'stale: run `npm run sdk:types` and commit packages/sdk/src/schema.ts').toBe('fresh');
  });

  test('give each code the status that the service gives it', () => {
    expect(Object.entries(errorStatus).filter(([code, status]) => catalog[code as 'not_found'] !== status)).toEqual([]);
  });
});
