import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { ConnectionError } from 'sequelize';
import { areas } from '../../src/api/areas';
import { db } from '../../src/api/core/db';
import { engine } from '../../src/api/core/temporal';
import { openApiDocument } from '../../src/api/core/openapi';
import { useService } from '../support/app';
import { workspace, buildAgent, saying } from '../support/builders';
import type { ApiClient } from '../support/client';

const service = useService();
let api: ApiClient;
let at: string;

beforeAll(async () => {
  const owner = await service.signedIn();
  api = service.client(owner.token);
  at = `/v1/projects/${(await service.project(owner)).id}`;
});

/** What the server answers to headers that no client library would send. */
const rawAnswer = (headers: Record<string, string>): Promise<string> =>
  new Promise((resolve, reject) => {
    const { port } = service.server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(text);
    });
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    socket.write(['POST /v1/users/me HTTP/1.1', 'Host: x', ...lines, '', ''].join('\r\n'));
  });

const bigBody = JSON.stringify({ name: 'x'.repeat(1_200_000) });

describe('the envelope of refusals', () => {
  test('[limits 4] an unknown property of a project is named', async () => {
    const reply = await api.post('/v1/projects', { name: 'x', nmae: 'y' });
    expect([reply.status, reply.body.error.code, reply.body.error.details[0].path]).toEqual([
      400,
      'bad_request',
      'nmae',
    ]);
  });

  test('every answer carries a request id; a well-formed one of the caller is kept', async () => {
    const own = await api.get('/v1/users/me', { 'X-Request-Id': 'my-id.1' });
    expect(own.headers['x-request-id']).toBe('my-id.1');
    for (const given of ['', 'has space', 'x'.repeat(129)]) {
      const reply = await api.get('/v1/nonsense', given === '' ? {} : { 'X-Request-Id': given });
      expect(reply.headers['x-request-id']).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
      expect(reply.headers['x-request-id']).not.toBe(given);
    }
  });

  test('refusals of every kind carry one too, also of what is no request at all', async () => {
    const id = { 'x-request-id': expect.stringMatching(/^req-/) as string };
    expect((await api.post(`${at}/agents`, '{"name":')).headers).toMatchObject(id);
    expect((await api.post(`${at}/agents`, bigBody)).headers).toMatchObject(id);
    expect((await service.client().get(`${at}/agents`)).headers).toMatchObject(id);
    const unreadable: Record<string, string>[] = [{ 'X-Long': 'x'.repeat(40_000) }, { 'Content-Length': 'ten' }];
    for (const headers of unreadable) {
      const answer = await rawAnswer(headers);
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toMatch(/\r\nX-Request-Id: req-[A-Za-z0-9]{20}\r\n/);
      expect(answer).toContain('{"error":{"code":"bad_request","message":"The request is malformed."}}');
    }
  });

  test('[limits 8] an unknown path is 404 with and without a credential; a wrong method 405 with Allow', async () => {
    for (const client of [api, service.client()]) {
      const reply = await client.get('/v1/nonsense');
      expect([reply.status, reply.body]).toEqual([404, { error: { code: 'not_found', message: 'Not found.' } }]);
    }
    const wrong = await service.client().delete('/v1/auth/code');
    expect([wrong.status, wrong.body.error.code, wrong.headers.allow]).toEqual([405, 'method_not_allowed', 'POST']);
    const several = await api.patch(`${at}/agents`, {});
    expect([several.status, several.headers.allow]).toEqual([405, 'GET, POST']);
    const verb = `${at}/webhooks/whk_V1StGXR8Z5jdHi6B:recover`;
    const { status, body, headers } = await api.patch(verb, { since: '2026-01-01T00:00:00Z' });
    expect([status, body, headers.allow]).toEqual([
      405,
      { error: { code: 'method_not_allowed', message: 'The path has no such method.' } },
      'POST',
    ]);
    expect((await service.client().get(verb)).status).toBe(405);
  });

  test.each([
    ['no credential', undefined],
    ['another scheme', 'Basic abc'],
    ['nonsense', 'Bearer nonsense'],
    ['an unknown key', `Bearer svc_sk_${'a'.repeat(40)}`],
    ['a truncated key', 'Bearer svc_sk_abc'],
    ['a token of nobody', 'Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1c2VyX3gifQ.'],
  ])('%s is 401 with one message and WWW-Authenticate', async (_name, authorization) => {
    const reply = await service
      .client()
      .get('/v1/users/me', authorization === undefined ? {} : { Authorization: authorization });
    expect([reply.status, reply.body]).toEqual([
      401,
      { error: { code: 'unauthorized', message: 'A valid credential is required.' } },
    ]);
    expect(reply.headers['www-authenticate']).toBe('Bearer');
  });
});

describe('bodies', () => {
  test('[limits 7] 1.1 MiB is 413 with the limit, and 401 without a credential', async () => {
    const reply = await api.post(`${at}/agents`, bigBody);
    expect([reply.status, reply.body.error.code, reply.body.error.details]).toEqual([
      413,
      'payload_too_large',
      { limit_bytes: 1_048_576 },
    ]);
    expect((await service.client().post(`${at}/agents`, bigBody)).status).toBe(401);
  });

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const)('the limit holds for the inflated size of a body compressed by %s', async (encoding, compress) => {
    const bomb = await fetch(`${service.baseUrl}${at}/agents`, {
      method: 'POST',
      headers: { Authorization: 'Bearer x', 'Content-Type': 'application/json', 'Content-Encoding': encoding },
      body: compress(bigBody),
    });
    expect(bomb.status).toBe(401);
    const owner = await service.signedIn();
    const project = await service.project(owner);
    const send = (body: string): Promise<Response> =>
      fetch(`${service.baseUrl}/v1/projects/${project.id}/secrets`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${owner.token}`,
          'Content-Type': 'application/json',
          'Content-Encoding': encoding,
        },
        body: compress(body),
      });
    expect((await send(bigBody)).status).toBe(413);
    expect((await send(JSON.stringify({ name: 'n', value: 'v' }))).status).toBe(201);
  });

  test('another content type is 415; a body that is no JSON is 400', async () => {
    const form = await api.post(`${at}/agents`, 'a=b', { 'Content-Type': 'application/x-www-form-urlencoded' });
    expect([form.status, form.body.error.code]).toEqual([415, 'unsupported_media_type']);
    const broken = await api.post(`${at}/agents`, '{"name":');
    expect([broken.status, broken.body.error.code]).toEqual([400, 'bad_request']);
    const list = await api.post(`${at}/agents`, '[1]');
    expect([list.status, list.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  test('what the database could not give back is refused: NUL, half a surrogate, endless nesting, endless numbers', async () => {
    for (const body of [
      '{"name":"a\\u0000b"}',
      '{"name":"\\ud800"}',
      '{"na\\u0000me":"x"}',
      '{"name":1e999}',
      `{"name":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
    ]) {
      const reply = await api.post('/v1/projects', body);
      expect([reply.status, reply.body.error.code]).toEqual([400, 'bad_request']);
    }
  });

  test('a route without a body refuses one instead of ignoring it', async () => {
    const reply = await api.post(`${at}/generations/gen_0000000000000000/cancel`, { reason: 'x' });
    expect([reply.status, reply.body.error.details[0].path]).toEqual([400, 'reason']);
  });
});

describe('pages', () => {
  test('[limits 5] limits are clamped, what is no integer is refused', async () => {
    const many = await api.get(`${at}/agents?limit=1000&offset=-5`);
    expect([many.status, many.body.limit, many.body.offset]).toEqual([200, 100, 0]);
    expect((await api.get(`${at}/agents?limit=0`)).body.limit).toBe(1);
    const huge = await api.get(`${at}/agents?limit=${'9'.repeat(400)}&offset=${'9'.repeat(400)}`);
    expect(huge).toMatchObject({ status: 200, body: { data: [], limit: 100, offset: Number.MAX_SAFE_INTEGER } });
    for (const query of ['limit=abc', 'limit=1.5', 'offset=x', 'limit=1&limit=2']) {
      const reply = await api.get(`${at}/agents?${query}`);
      expect([reply.status, reply.body.error.code]).toEqual([400, 'bad_request']);
    }
  });

  test('[limits 6] a cursor goes with its route, project and filters, and cannot be made up', async () => {
    for (let index = 0; index < 3; index += 1) await api.post('/v1/projects', { name: `p${String(index)}` });
    const first = await api.get('/v1/projects?limit=1&status=active');
    const cursor = first.body.next_cursor as string;
    const second = await api.get(`/v1/projects?limit=1&status=active&cursor=${cursor}`);
    expect(second.status).toBe(200);
    expect(second.body.data[0].id).not.toBe(first.body.data[0].id);
    const forged = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`;
    for (const query of [
      `status=archived&cursor=${cursor}`,
      `cursor=${cursor}`,
      `status=active&cursor=${forged}`,
      'cursor=nonsense',
      'cursor=',
    ]) {
      const reply = await api.get(`/v1/projects?${query}`);
      expect([reply.status, reply.body.error.code, reply.body.error.details[0].path]).toEqual([
        400,
        'bad_request',
        'query.cursor',
      ]);
    }
    const other = await api.get(`${at}/webhooks?cursor=${cursor}`);
    expect(other.body.error.details[0].path).toBe('query.cursor');
  });

  test('pages of a cursor list hold every row once, also when rows are added meanwhile', async () => {
    const owner = await service.signedIn();
    const own = service.client(owner.token);
    for (let index = 0; index < 5; index += 1) await service.project(owner);
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: { body: { data: { id: string }[]; next_cursor: string | null } } = await own.get(
        `/v1/projects?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`,
      );
      seen.push(...page.body.data.map(({ id }) => id));
      cursor = page.body.next_cursor;
      if (seen.length === 2) await service.project(owner);
    }
    expect(seen).toHaveLength(5);
    expect(new Set(seen).size).toBe(5);
  });
});

describe('operations', () => {
  test('health answers without a credential, and 503 when the database is unreachable', async () => {
    expect(await service.client().get('/health')).toMatchObject({ status: 200, body: { status: 'ok' } });
    const broken = jest
      .spyOn(db.connectionManager, 'getConnection')
      .mockRejectedValue(new ConnectionError(new Error('down')));
    const reply = await service.client().get('/health');
    broken.mockRestore();
    expect([reply.status, reply.body.error.code, reply.headers['retry-after']]).toEqual([
      503,
      'service_unavailable',
      '5',
    ]);
  });

  test('the contract document lists every route once', async () => {
    const { body } = await service.client().get('/openapi.json');
    const listed = Object.entries(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap(
      ([, methods]) => Object.values(methods),
    );
    expect(new Set(listed.map(({ operationId }) => operationId)).size).toBe(
      areas.filter(({ unlisted }) => unlisted !== true).length,
    );
    expect(body).toEqual(JSON.parse(JSON.stringify(openApiDocument(areas, 'http://localhost:3000'))));
  });

  test('an error that nobody foresaw is 500 with a fixed message and the request id', async () => {
    const broken = jest
      .spyOn(db.connectionManager, 'getConnection')
      .mockRejectedValue(new TypeError('a text that must not leak'));
    const reply = await service.client().get('/health', { 'X-Request-Id': 'find-me' });
    broken.mockRestore();
    expect([reply.status, reply.body]).toEqual([
      500,
      {
        error: {
          code: 'internal_error',
          message: 'Something went wrong on our side.',
          details: { request_id: 'find-me' },
        },
      },
    ]);
  });

  test('without an engine a committed run is accepted all the same', async () => {
    const owner = await service.signedIn();
    const project = await service.project(owner);
    const space = await workspace(service.client(owner.token), project.id, 'http://127.0.0.1:9/v1');
    const agent = await buildAgent(space);
    const down = jest.spyOn(engine().workflow, 'start').mockRejectedValue(new Error('unreachable'));
    const reply = await space.api.post(`${space.at}/agents/${agent.id}/generate`, saying('x'));
    down.mockRestore();
    expect(reply.status).toBe(202);
    expect((await space.api.get(`${space.at}/generations/${String(reply.body.id)}`)).body.status).toBe('in_progress');
  });
});
