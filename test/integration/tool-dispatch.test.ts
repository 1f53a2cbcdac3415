import { query } from '../../src/api/core/db';
import { encrypt } from '../../src/api/core/encryption';
import { createOutbound } from '../../src/api/core/http';
import { createEgressPolicy, parseAllowList } from '../../src/api/core/egress';
import { outbound } from '../../src/api/core/outbound';
import { dispatchHttp } from '../../src/api/tools/dispatch';
import type { HttpCall, HttpToolSnapshot } from '../../src/api/tools/dispatch';
import type { CallOutcome, ToolCallError } from '../../src/api/tools/outcome';
import { toolSurface, validateArguments } from '../../src/api/tools/resolve';
import type { ToolSnapshot } from '../../src/api/tools/resolve';
import { useService } from '../support/app';
import type { ApiClient } from '../support/client';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';

const service = useService();
let receiver: Receiver;
let api: ApiClient;
let projectId: string;
let at: string;

beforeEach(async () => {
  receiver = await startReceiver();
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  at = `/v1/projects/${projectId}`;
  api = service.client(owner.token);
});

afterEach(() => receiver.close());

const made = async (execute: object, given: object = {}): Promise<HttpToolSnapshot> => {
  const answer = await api.post(`${at}/tools`, { name: 'target', parameters: { type: 'object' }, execute, ...given });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  const { tools } = await toolSurface(projectId, [{ tool_id: answer.body.id }]);
  return tools[0] as HttpToolSnapshot;
};

const secret = async (value: string): Promise<string> =>
  (await api.post(`${at}/secrets`, { name: 's', value })).body.id as string;

const dispatch = (
  tool: ToolSnapshot,
  args: Record<string, unknown> = {},
  given: Partial<HttpCall> = {},
): Promise<CallOutcome> =>
  dispatchHttp({
    // Through JSON, as the turn that is stored between the two.
    tool: JSON.parse(JSON.stringify(tool)) as HttpCall['tool'],
    projectId,
    args,
    toolContext: {},
    idempotencyKey: 'gen_1:call_1',
    signal: new AbortController().signal,
    outbound: outbound(),
    ...given,
  });

const errorOf = (outcome: CallOutcome): ToolCallError & { retryable: boolean } => {
  if (outcome.kind !== 'error') throw new Error(`it succeeded: ${JSON.stringify(outcome)}`);
  return { ...outcome.error, retryable: outcome.retryable };
};

test('[tools 1] a GET takes its arguments into path and query, and sends no body', async () => {
  const tool = await made({ url: `${receiver.url}/orders/{order_id}`, method: 'GET' });
  const outcome = await dispatch(tool, { order_id: 'a b', page: 2, deep: { x: [1] }, on: true });
  expect(outcome).toEqual({ kind: 'result', value: { ok: true } });
  expect(receiver.requests[0]).toMatchObject({
    method: 'GET',
    path: '/orders/a%20b?page=2&deep=%7B%22x%22%3A%5B1%5D%7D&on=true',
    body: '',
  });
  expect(receiver.requests[0]!.headers).toMatchObject({ 'idempotency-key': 'gen_1:call_1' });
  expect(receiver.requests[0]!.headers['content-type']).toBeUndefined();
});

test.each(['POST', 'PUT', 'PATCH'])('%s sends the arguments that the URL did not take as JSON', async (method) => {
  const tool = await made({ url: `${receiver.url}/orders/{order_id}?dry={dry}`, method });
  await dispatch(tool, { order_id: 'o1', dry: true, reason: 'broken', n: 1 });
  expect(receiver.requests[0]).toMatchObject({
    method,
    path: '/orders/o1?dry=true',
    body: '{"reason":"broken","n":1}',
  });
  expect(receiver.requests[0]!.headers['content-type']).toBe('application/json');
});

test.each(['DELETE', 'HEAD'])('%s sends them as query, after the one the URL has', async (method) => {
  const tool = await made({ url: `${receiver.url}/orders?v=1`, method });
  await dispatch(tool, { id: 'a&b' });
  expect(receiver.requests[0]).toMatchObject({ method, path: '/orders?v=1&id=a%26b', body: '' });
});

test('configured headers go out, ours stay ours', async () => {
  const headers = {
    'Content-Type': 'application/vnd.x+json',
    'Idempotency-Key': 'mine',
    'X-A': 'a',
    'User-Agent': 'me/1',
  };
  await dispatch(await made({ url: receiver.url, headers }));
  expect(receiver.requests[0]!.headers).toMatchObject({
    'content-type': 'application/vnd.x+json',
    'idempotency-key': 'gen_1:call_1',
    'x-a': 'a',
    'user-agent': 'me/1',
  });
});

test.each([
  [{ body: '{"a":[1]}' }, { a: [1] }],
  [{ body: 'plain' }, 'plain'],
  [{ body: '' }, null],
  [{ status: 204, body: '' }, null],
  [{ status: 201, body: '7' }, 7],
])('the answer %j is the result %j', async (answer, value) => {
  receiver.respond(answer);
  expect(await dispatch(await made({ url: receiver.url }))).toEqual({ kind: 'result', value });
});

test('[tools 2] an answer that is not 2xx is an error with its status and the first 4,096 characters', async () => {
  receiver.respond({ status: 404, body: 'x'.repeat(5000) });
  const tool = await made({ url: `${receiver.url}/a/{id}`, method: 'GET' });
  expect(errorOf(await dispatch(tool, { id: 'private' }))).toEqual({
    name: 'target',
    code: 'TOOL_HTTP_ERROR',
    message: 'The target answered 404',
    status: 404,
    method: 'GET',
    url: `${receiver.url}/a/{id}`,
    body: 'x'.repeat(4096),
    retryable: false,
  });
});

test('an answer over 5 MB is an error, one just below it a result', async () => {
  const tool = await made({ url: receiver.url });
  receiver.respond({ body: 'x'.repeat(5_000_001) });
  expect(errorOf(await dispatch(tool))).toMatchObject({ code: 'TOOL_HTTP_ERROR', status: 200 });
  receiver.respond({ body: 'x'.repeat(5_000_000) });
  expect(await dispatch(tool)).toEqual({ kind: 'result', value: 'x'.repeat(5_000_000) });
});

test('no answer in time is a timeout, and not to be repeated', async () => {
  receiver.respond({ delayMs: 10_000 });
  const error = errorOf(await dispatch(await made({ url: receiver.url, method: 'GET', timeout_seconds: 1 })));
  expect(error).toMatchObject({ code: 'TOOL_TIMEOUT', message: 'No answer within 1 seconds', retryable: false });
});

test.each([
  ['GET', true],
  ['HEAD', true],
  ['POST', false],
  ['DELETE', false],
])('a failed connection of %s may be repeated: %s', async (method, retryable) => {
  const tool = await made({ url: receiver.url, method });
  receiver.respond({ disconnect: true });
  expect(errorOf(await dispatch(tool))).toMatchObject({ code: 'TOOL_HTTP_ERROR', retryable });
});

test('a call that its caller ends throws and is no outcome', async () => {
  receiver.respond({ hold: 'never' });
  const tool = await made({ url: receiver.url });
  const controller = new AbortController();
  const outcome = dispatch(tool, {}, { signal: controller.signal });
  await receiver.waitFor(1).catch(() => undefined);
  controller.abort();
  await expect(outcome).rejects.toMatchObject({ kind: 'aborted' });
});

test('[tools 3] addresses inside are refused, in every spelling and behind redirects', async () => {
  const guarded = createOutbound({
    policy: createEgressPolicy({ allowedHosts: parseAllowList('127.0.0.1'), deniedCidrs: [] }),
  });
  try {
    for (const host of ['169.254.169.254', '2852039166', '0xA9FEA9FE', '[::ffff:169.254.169.254]']) {
      const error = errorOf(await dispatch(await made({ url: `http://${host}/latest` }), {}, { outbound: guarded }));
      expect(error).toMatchObject({ code: 'TOOL_EGRESS_BLOCKED', url: `http://${host}/latest`, retryable: false });
      expect(error.address).toMatch(/169\.254\.169\.254|a9fe:a9fe/);
    }
    receiver.respond({ status: 302, headers: { Location: 'http://169.254.169.254/latest' }, body: '' });
    const error = errorOf(await dispatch(await made({ url: receiver.url }), {}, { outbound: guarded }));
    expect(error).toMatchObject({ code: 'TOOL_EGRESS_BLOCKED', address: '169.254.169.254' });
  } finally {
    await guarded.close();
  }
});

test('a redirect inside what is allowed is followed', async () => {
  receiver.respond({ status: 302, headers: { Location: '/there' }, body: '' }, '/here');
  expect(await dispatch(await made({ url: `${receiver.url}/here`, method: 'GET' }))).toEqual({
    kind: 'result',
    value: { ok: true },
  });
  expect(receiver.requests.map(({ path }) => path)).toEqual(['/here', '/there']);
});

describe('arguments of the URL', () => {
  test.each([
    [{}, 'the argument id is missing'],
    [{ id: '..' }, 'the argument id makes a path segment of dots'],
    [{ id: '%2e%2e' }, 'the argument id makes a path segment of dots'],
  ])('%j fails the call before any request', async (args, message) => {
    const tool = await made({ url: `${receiver.url}/a/{id}`, method: 'GET' });
    expect(errorOf(await dispatch(tool, args))).toMatchObject({ code: 'VALIDATION_FAILED', message, retryable: false });
    expect(receiver.requests).toHaveLength(0);
  });
});

describe('secrets', () => {
  const KEY = 'sk/live+1 "x"';

  test('go out as they are now and never come back', async () => {
    const id = await secret('before');
    const tool = await made({
      url: `${receiver.url}/{{secret:${id}}}?k={{secret:${id}}}`,
      headers: { Authorization: `Bearer {{secret:${id}}}` },
    });
    await api.patch(`${at}/secrets/${id}`, { value: KEY });
    receiver.respond((request) => ({
      body: { path: request.path, header: request.headers.authorization, [KEY]: JSON.stringify({ KEY }) },
    }));
    const outcome = await dispatch(tool);
    expect(receiver.requests[0]!.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(receiver.requests[0]!.path).toBe('/sk/live%2B1%20%22x%22?k=sk%2Flive%2B1%20%22x%22');
    expect(outcome).toEqual({
      kind: 'result',
      value: { path: '/[secret]?k=[secret]', header: 'Bearer [secret]', '[secret]': '{"KEY":"[secret]"}' },
    });
  });

  test('[tools 4] a target that echoes them in an error shows [secret]', async () => {
    const id = await secret(KEY);
    const tool = await made({ url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } });
    receiver.respond({ status: 400, body: `bad key ${KEY}, ${encodeURIComponent(KEY)}, ${JSON.stringify(KEY)}` });
    const error = errorOf(await dispatch(tool));
    expect(error.body).toBe('bad key [secret], [secret], "[secret]"');
    expect(JSON.stringify(error)).not.toContain('live');
  });

  test('a secret that the cut of an error body would halve is gone whole', async () => {
    const id = await secret('A'.repeat(100));
    const tool = await made({ url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } });
    receiver.respond({ status: 500, body: `${'.'.repeat(4050)}${'A'.repeat(100)}` });
    expect(errorOf(await dispatch(tool)).body).toBe(`${'.'.repeat(4050)}[secret]`);
  });

  test('a credential written out in a header goes out and does not come back, with or without its scheme', async () => {
    const tool = await made({ url: receiver.url, headers: { Authorization: 'Bearer literal-1' } });
    receiver.respond((request) => ({ status: 403, body: `${String(request.headers.authorization)} / literal-1` }));
    expect(errorOf(await dispatch(tool)).body).toBe('[secret] / [secret]');
    expect(receiver.requests[0]!.headers.authorization).toBe('Bearer literal-1');
  });

  test('a credential stored by an earlier build, under the name of its header alone, still goes out', async () => {
    const tool = await made({ url: receiver.url, headers: { Authorization: 'Bearer new' } });
    const place = { table: 'tools', column: 'literals', rowId: tool.id };
    const { keyId, data } = encrypt(JSON.stringify({ Authorization: 'Bearer old' }), place);
    await query('update tools set literals_key_id = $2, literals_data = $3 where id = $1', [tool.id, keyId, data]);
    await dispatch(tool);
    expect(receiver.requests[0]!.headers.authorization).toBe('Bearer old');
  });

  test('a secret deleted since fails the call before any request', async () => {
    const id = await secret('x');
    const tool = await made({ url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } });
    await api.delete(`${at}/secrets/${id}?force=true`);
    expect(errorOf(await dispatch(tool))).toMatchObject({
      code: 'SECRET_NOT_FOUND',
      message: `The secret ${id} is not there`,
      retryable: false,
    });
    expect(receiver.requests).toHaveLength(0);
  });

  test('a credential of a header removed since fails the call before any request', async () => {
    const tool = await made({ url: receiver.url, headers: { Authorization: 'Bearer literal-1' } });
    await api.patch(`${at}/tools/${tool.id}`, { execute: { url: receiver.url } });
    expect(errorOf(await dispatch(tool))).toMatchObject({ code: 'SECRET_NOT_FOUND' });
    await api.delete(`${at}/tools/${tool.id}`);
    expect(errorOf(await dispatch(tool))).toMatchObject({ code: 'SECRET_NOT_FOUND' });
    expect(receiver.requests).toHaveLength(0);
  });

  test('a value that no header may hold fails the call without being shown', async () => {
    const id = await secret('line-1\nline-2');
    const tool = await made({ url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } });
    const error = errorOf(await dispatch(tool));
    expect(error.code).toBe('VALIDATION_FAILED');
    expect(JSON.stringify(error)).not.toContain('line-');
  });
});

describe('the surface of a turn', () => {
  const client = async (name: string): Promise<string> =>
    (await api.post(`${at}/tools`, { name, type: 'client', parameters: { type: 'object' } })).body.id as string;

  const surface = (project: string, ...ids: string[]) =>
    toolSurface(
      project,
      ids.map((tool_id) => ({ tool_id })),
    );

  test('holds the tools in the order of their bindings, without any credential', async () => {
    const first = await client('first');
    const called = await made({ url: receiver.url, method: 'GET', timeout_seconds: 9, headers: { Cookie: 'canary' } });
    const { tools, unavailable } = await surface(projectId, called.id, first);
    expect(unavailable).toEqual([]);
    expect(tools.map(({ id, method, timeoutMs }) => ({ id, method, timeoutMs }))).toEqual([
      { id: called.id, method: 'GET', timeoutMs: 9000 },
      { id: first, method: null, timeoutMs: null },
    ]);
    expect(JSON.stringify(tools)).not.toContain('canary');
  });

  test('goes without deleted tools, tools whose secret is gone, and second ones of a name', async () => {
    const id = await secret('x');
    const called = await made({ url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } });
    const [first, second] = [await client('same'), await client('same')];
    await api.delete(`${at}/secrets/${id}?force=true`);
    const { tools, unavailable } = await surface(projectId, 'tool_0000000000000000', called.id, first, second);
    expect(tools.map((tool) => tool.id)).toEqual([first]);
    expect(unavailable).toEqual([
      { tool_id: 'tool_0000000000000000', reason: 'deleted' },
      { tool_id: called.id, name: 'target', reason: 'secret_gone' },
      { tool_id: second, name: 'same', reason: 'name_taken' },
    ]);
  });

  test('has nothing of another project', async () => {
    const id = await client('own');
    const { id: elsewhere } = await service.project(await service.signedIn());
    expect(await surface(elsewhere, id)).toEqual({
      tools: [],
      unresolved: [],
      unavailable: [{ tool_id: id, reason: 'deleted' }],
    });
  });
});

describe('arguments', () => {
  const schema = { type: 'object', properties: { page: { type: 'integer' } }, required: ['page'] };

  test('that fit have no problem', async () => {
    expect(await validateArguments(schema, { page: 1 })).toBeNull();
  });

  test.each([[{ page: 'one' }], [{}], ['text'], [null]])('that do not fit are told as one text: %j', async (args) => {
    expect(await validateArguments(schema, args)).toMatch(
      /^The arguments do not fit the tool's parameters: .*(page|object)/,
    );
  });

  test('a pattern that loops is ended and named as over its limit', async () => {
    const looping = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } };
    expect(await validateArguments(looping, { a: `${'a'.repeat(40)}!` })).toMatch(/could not be checked.*time/);
  });
});
