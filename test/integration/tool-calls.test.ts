import { query } from '../../src/api/core/db';
import { ProgramsBusyError } from '../../src/api/core/programs';
import { programs } from '../../src/api/core/tenant-programs';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
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

const tool = async (given: object = {}): Promise<string> => {
  const body = { name: 'target', parameters: { type: 'object' }, execute: { url: receiver.url }, ...given };
  const answer = await api.post(`${at}/tools`, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body.id as string;
};
const call = (id: string, body: object = {}): Promise<Reply> => api.post(`${at}/tools/${id}/call`, body);
const secret = async (value: string): Promise<string> =>
  (await api.post(`${at}/secrets`, { name: 's', value })).body.id as string;
const codeOf = ({ status, body }: Reply) => [status, body.error.code];
const headersSeen = (index = 0) => receiver.requests[index]!.headers;

test.each([[{ a: [1] }], [[1]], ['text'], [7], [false], [null]])('answers what the target gave: %j', async (value) => {
  receiver.respond({ body: value === null ? '' : JSON.stringify(value) });
  const answer = await call(await tool(), { input: { x: 1 } });
  expect([answer.status, answer.body]).toEqual([200, value]);
  expect(receiver.requests[0]!.body).toBe('{"x":1}');
});

test('the input may be left out, and each request has an idempotency key of its own', async () => {
  const id = await tool();
  expect((await call(id)).status).toBe(200);
  expect((await call(id)).status).toBe(200);
  const keys = receiver.requests.map(({ headers }) => headers['idempotency-key']);
  expect(keys).toEqual([expect.stringMatching(/^\S{16,}$/), expect.stringMatching(/^\S{16,}$/)]);
  expect(keys[0]).not.toBe(keys[1]);
});

test('[tools 1] the arguments go into path and query of a GET', async () => {
  const id = await tool({ execute: { url: `${receiver.url}/orders/{order_id}`, method: 'GET' } });
  await call(id, { input: { order_id: 'a b', page: 2 } });
  expect(receiver.requests[0]).toMatchObject({ method: 'GET', path: '/orders/a%20b?page=2', body: '' });
});

test('[tools 2] a target that answers 404 is 502 with its status, body, method and the template of the URL', async () => {
  receiver.respond({ status: 404, body: 'nothing here' });
  const id = await tool({ execute: { url: `${receiver.url}/a/{id}`, method: 'GET' } });
  const answer = await call(id, { input: { id: 'private' } });
  expect(codeOf(answer)).toEqual([502, 'TOOL_HTTP_ERROR']);
  expect(answer.body.error.meta).toEqual({
    tool_status_code: 404,
    tool_response_body: 'nothing here',
    tool_url: `${receiver.url}/a/{id}`,
    tool_method: 'GET',
  });
});

test('[tools 3] an address inside is 403 with the address, in every spelling and behind a redirect', async () => {
  for (const host of ['169.254.169.254', '2852039166', '0xA9FEA9FE']) {
    const answer = await call(await tool({ execute: { url: `http://${host}/` } }));
    expect(codeOf(answer)).toEqual([403, 'TOOL_EGRESS_BLOCKED']);
    expect(answer.body.error.meta).toEqual({ tool_url: `http://${host}/`, tool_address: '169.254.169.254' });
  }
  receiver.respond({ status: 302, headers: { Location: 'http://169.254.169.254/latest' }, body: '' });
  const answer = await call(await tool());
  expect(codeOf(answer)).toEqual([403, 'TOOL_EGRESS_BLOCKED']);
  expect(answer.body.error.meta.tool_address).toBe('169.254.169.254');
});

test('[tools 4] a target that echoes a secret in a 400 shows [secret]', async () => {
  const id = await secret('sk-live-canary');
  const headers = { Authorization: `Bearer {{secret:${id}}}` };
  receiver.respond((request) => ({ status: 400, body: `bad ${String(request.headers.authorization)}` }));
  const answer = await call(await tool({ execute: { url: receiver.url, headers } }));
  expect(headersSeen().authorization).toBe('Bearer sk-live-canary');
  expect(answer.body.error.meta.tool_response_body).toBe('bad Bearer [secret]');
});

test('[tools 8] a client tool cannot be called', async () => {
  expect(codeOf(await call(await tool({ type: 'client', execute: null })))).toEqual([422, 'TOOL_CALL_NOT_SUPPORTED']);
});

test('no answer in time is 504, and a broken connection 502', async () => {
  receiver.respond({ delayMs: 5_000 });
  const slow = await call(await tool({ execute: { url: receiver.url, timeout_seconds: 1 } }));
  expect(codeOf(slow)).toEqual([504, 'TOOL_TIMEOUT']);
  expect(slow.body.error.meta).toEqual({ tool_url: receiver.url, tool_method: 'POST' });
  receiver.respond({ disconnect: true });
  const broken = await call(await tool());
  expect(codeOf(broken)).toEqual([502, 'TOOL_HTTP_ERROR']);
  expect(broken.body.error.meta).toEqual({ tool_url: receiver.url, tool_method: 'POST' });
});

test('SECRET_NOT_FOUND: a secret deleted since is named, and nothing is sent', async () => {
  const id = await secret('x');
  const target = await tool({ execute: { url: receiver.url, headers: { 'X-Key': `{{secret:${id}}}` } } });
  await api.delete(`${at}/secrets/${id}?force=true`);
  const answer = await call(target);
  expect(codeOf(answer)).toEqual([400, 'SECRET_NOT_FOUND']);
  expect(answer.body.error.message).toContain(id);
  expect(receiver.requests).toHaveLength(0);
});

describe('input', () => {
  const parameters = { type: 'object', properties: { page: { type: 'integer' } }, required: ['page'] };

  test('that does not fit the schema is refused before any request', async () => {
    const id = await tool({ parameters });
    for (const body of [{}, { input: { page: 'one' } }]) {
      const answer = await call(id, body);
      expect([...codeOf(answer), answer.body.error.details[0].path]).toEqual([400, 'VALIDATION_FAILED', 'input']);
      expect(answer.body.error.message).toContain('page');
    }
    expect(receiver.requests).toHaveLength(0);
  });

  test.each([
    [{ input: [] }, 'input'],
    [{ input: 'x' }, 'input'],
    [{ action: 7 }, 'action'],
    [{ action: 'find' }, 'action'],
    [{ tool_context: { a: 1 } }, 'tool_context.a'],
    [{ tool_context: 'x' }, 'tool_context'],
    [{ colour: 'red' }, 'colour'],
  ])('of the wrong shape is refused: %j', async (body, path) => {
    const answer = await call(await tool(), body);
    expect([...codeOf(answer), answer.body.error.details[0].path]).toEqual([400, 'VALIDATION_FAILED', path]);
  });

  test('an mcp tool is not called without an action', async () => {
    const id = await tool({ type: 'mcp', execute: null, mcp: { url: receiver.url } });
    const answer = await call(id);
    expect([...codeOf(answer), answer.body.error.details[0].path]).toEqual([400, 'VALIDATION_FAILED', 'action']);
    expect(receiver.requests).toHaveLength(0);
  });

  test('[limits 7] a pattern that backtracks ends the call within a second while others are answered', async () => {
    const backtracks = { type: 'object', properties: { s: { type: 'string', pattern: '^(a+)+$' } } };
    const id = await tool({ parameters: backtracks });
    const other = await tool();
    const startedMs = Date.now();
    const slow = call(id, { input: { s: `${'a'.repeat(40)}!` } });
    expect((await call(other)).status).toBe(200);
    expect(codeOf(await slow)).toEqual([400, 'VALIDATION_FAILED']);
    expect(Date.now() - startedMs).toBeLessThan(1_500);
    expect(receiver.requests).toHaveLength(1);
  });
});

describe('tool context', () => {
  const target = (given: object = {}) =>
    tool({
      execute: { url: receiver.url, headers: { 'X-Tenant': 'is {{context:tenant}}', 'X-Svc-Context-a': 'mine' } },
      ...given,
    });

  test('fills headers and goes as headers of its own, which win over configured ones', async () => {
    const answer = await call(await target(), { tool_context: { tenant: 'acme', a: '1' } });
    expect(answer.status).toBe(200);
    expect(headersSeen()).toMatchObject({
      'x-tenant': 'is acme',
      'x-svc-context-tenant': 'acme',
      'x-svc-context-a': '1',
    });
  });

  test('an empty text is a value', async () => {
    await call(await target(), { tool_context: { tenant: '' } });
    expect(headersSeen()['x-tenant']).toBe('is');
    expect(headersSeen()['x-svc-context-tenant']).toBe('');
  });

  test('MISSING_TOOL_CONTEXT_KEY names key and place, and nothing is sent', async () => {
    const header = await call(await target(), { tool_context: { Tenant: 'x' } });
    expect(codeOf(header)).toEqual([400, 'MISSING_TOOL_CONTEXT_KEY']);
    expect(header.body.error.meta).toMatchObject({ key: 'tenant', place: 'headers.X-Tenant' });
    const preset = await call(await tool({ preset_parameters: { account: '{{context:account}}' } }));
    expect(preset.body.error.meta).toMatchObject({ key: 'account', place: 'preset_parameters.account' });
    expect(receiver.requests).toHaveLength(0);
  });

  test('INVALID_TOOL_CONTEXT_KEY names the keys, also before the tool is looked for', async () => {
    for (const id of [await target(), 'tool_0000000000000000']) {
      const answer = await call(id, { tool_context: { 'a b': 'x', k: '1', K: '2', ok: '' } });
      expect(codeOf(answer)).toEqual([400, 'INVALID_TOOL_CONTEXT_KEY']);
      expect(answer.body.error.meta).toEqual({ keys: ['a b', 'k', 'K'] });
    }
  });

  test('[tools 6] a caller cannot set what the service sets', async () => {
    await call(await tool(), { tool_context: { Session_ID: 'x', actor_id: 'x', Calling_Project_ID: 'x', own: 'y' } });
    const names = Object.keys(headersSeen()).filter((name) => name.startsWith('x-svc-context-'));
    expect(names).toEqual(['x-svc-context-own']);
  });

  test.each([
    [null, ['x-svc-context-a', 'x-svc-context-b']],
    [['b'], ['x-svc-context-b']],
    [[], []],
  ])('context_keys %j lets through %j', async (keys, seen) => {
    await call(await tool({ context_keys: keys }), { tool_context: { a: '1', b: '2' } });
    expect(Object.keys(headersSeen()).filter((name) => name.startsWith('x-svc-context-'))).toEqual(seen);
  });

  test('a value that no header may hold fails the call before any request', async () => {
    const answer = await call(await tool(), { tool_context: { a: 'line\nInjected: yes' } });
    expect(codeOf(answer)).toEqual([400, 'VALIDATION_FAILED']);
    expect(receiver.requests).toHaveLength(0);
  });

  test('a value that looks like a token is sent as it is', async () => {
    const id = await secret('canary');
    await call(await target(), { tool_context: { tenant: `{{secret:${id}}}` } });
    expect(headersSeen()['x-tenant']).toBe(`is {{secret:${id}}}`);
  });
});

describe('presets and mapping', () => {
  const parameters = {
    type: 'object',
    properties: { account: { type: 'string' }, limit: { type: 'integer' } },
    required: ['account'],
  };

  test('[tools 5] a preset wins over the input', async () => {
    const id = await tool({ parameters, preset_parameters: { account: 'A' } });
    expect((await call(id, { input: { account: 'B', limit: 1 } })).status).toBe(200);
    expect(JSON.parse(receiver.requests[0]!.body)).toEqual({ account: 'A', limit: 1 });
  });

  test('the merged arguments are checked: a context value is retyped first, and named when it does not fit', async () => {
    const id = await tool({ parameters, preset_parameters: { account: 'A', limit: '{{context:n}}' } });
    expect((await call(id, { tool_context: { n: '7' } })).status).toBe(200);
    expect(JSON.parse(receiver.requests[0]!.body)).toEqual({ account: 'A', limit: 7 });
    const bad = await call(id, { tool_context: { n: 'seven' } });
    expect(codeOf(bad)).toEqual([400, 'VALIDATION_FAILED']);
    expect(bad.body.error.message).toContain('limit');
    expect(receiver.requests).toHaveLength(1);
  });

  test('a secret is not resolved in a preset', async () => {
    const id = await secret('canary');
    await call(await tool({ preset_parameters: { key: `{{secret:${id}}}` } }));
    expect(JSON.parse(receiver.requests[0]!.body)).toEqual({ key: `{{secret:${id}}}` });
  });

  test('the mapping sees the output and the merged input', async () => {
    receiver.respond({ body: { name: 'x' } });
    const output_mapping = { cat: [{ var: 'output.name' }, '-', { var: 'input.account' }] };
    const id = await tool({ parameters, preset_parameters: { account: 'A' }, output_mapping });
    expect((await call(id, { input: { account: 'B' } })).body).toBe('x-A');
  });

  test('a mapping that fails is the failure of the call', async () => {
    const bomb = {
      map: [{ var: 'output' }, { map: [{ var: '../../output' }, { map: [{ var: '../../../../output' }, 1] }] }],
    };
    receiver.respond({ body: Array.from({ length: 2_000 }, () => 1) });
    const answer = await call(await tool({ output_mapping: bomb }));
    expect(codeOf(answer)).toEqual([400, 'VALIDATION_FAILED']);
    expect(answer.body.error.message).toMatch(/mapping/);
  });

  test('while too many programs wait nothing is asked for again that was made', async () => {
    const busy = () => new ProgramsBusyError('busy');
    const evaluate = jest.spyOn(programs(), 'evaluateLogic').mockRejectedValueOnce(busy());
    const id = await tool({ output_mapping: { var: 'output' } });
    expect(codeOf(await call(id))).toEqual([400, 'VALIDATION_FAILED']);
    const plain = await tool();
    const steps = ['a', 'b'].map((name) => ({ id: name, tool_id: plain }));
    const chain = await tool({ type: 'pipeline', execute: null, pipeline: { steps, output: { var: 'steps' } } });
    evaluate.mockRejectedValueOnce(busy());
    expect(codeOf(await call(chain))).toEqual([503, 'service_unavailable']);
    expect(receiver.requests).toHaveLength(1);
    evaluate.mockResolvedValueOnce([]).mockRejectedValueOnce(busy());
    const stopped = await call(chain);
    expect([...codeOf(stopped), stopped.body.error.meta.step_id]).toEqual([422, 'PIPELINE_STEP_FAILED', 'b']);
    evaluate.mockResolvedValueOnce([]).mockResolvedValueOnce([]).mockRejectedValueOnce(busy());
    expect(codeOf(await call(chain))).toEqual([400, 'VALIDATION_FAILED']);
    expect(receiver.requests).toHaveLength(4);
    jest.spyOn(programs(), 'compileSchema').mockRejectedValueOnce(busy());
    const write = { name: 'late', parameters: { type: 'object' }, execute: { url: receiver.url } };
    expect(codeOf(await api.post(`${at}/tools`, write))).toEqual([503, 'service_unavailable']);
    jest.restoreAllMocks();
  });
});

test('a multipart body carries fields and files, and no configured Content-Type', async () => {
  const headers = { 'Content-Type': 'application/json', 'X-A': 'a' };
  const id = await tool({ execute: { url: receiver.url, body_mode: 'multipart', headers } });
  const data_base64 = Buffer.from('file text').toString('base64');
  await call(id, { input: { note: 'n', upload: { content_type: 'text/plain', filename: 'a.txt', data_base64 } } });
  expect(headersSeen()['content-type']).toMatch(/^multipart\/form-data; boundary=\S+$/);
  expect(receiver.requests[0]!.body).toMatch(/name="note"\r\n\r\nn\r\n/);
  expect(receiver.requests[0]!.body).toMatch(
    /name="upload"; filename="a.txt"\r\nContent-Type: text\/plain\r\n\r\nfile text\r\n/,
  );
});

test('a tool of another project, unknown or malformed is not found', async () => {
  const { id: elsewhere } = await service.project(await service.signedIn());
  const id = await tool();
  await query('update tools set project_id = $2 where id = $1', [id, elsewhere]);
  for (const missing of [id, 'tool_0000000000000000', 'nonsense']) {
    expect(codeOf(await call(missing))).toEqual([404, 'not_found']);
  }
});

test.each([
  // An archived project refuses every change before anybody looks for what is to be changed.
  ["status = 'archived'", 'PROJECT_ARCHIVED', [409, 'PROJECT_ARCHIVED']],
  ["paused_at = now(), pause_reason = 'over_limit'", 'PROJECT_PAUSED', [404, 'not_found']],
])('in a project that is %s nothing is called: %s', async (change, code, missing) => {
  const id = await tool();
  await query(`update projects set ${change} where id = $1`, [projectId]);
  expect(codeOf(await call(id))).toEqual([409, code]);
  expect(codeOf(await call('tool_0000000000000000'))).toEqual(missing);
  expect(receiver.requests).toHaveLength(0);
});

describe('pipelines', () => {
  test('run their steps with credentials of their own, each under a key of its own', async () => {
    receiver.respond((request) => ({ body: { got: JSON.parse(request.body) as unknown } }));
    const inline = {
      type: 'http',
      execute: { url: `${receiver.url}/two`, headers: { Authorization: 'Bearer canary' } },
    };
    const steps = [
      { id: 'one', tool_id: await tool(), input: { a: { var: 'input.a' } } },
      { id: 'two', tool: inline, input: { b: { var: 'steps.one.got.a' } } },
    ];
    const id = await tool({ type: 'pipeline', execute: null, pipeline: { steps } });
    const answer = await call(id, { input: { a: 1 } });
    expect([answer.status, answer.body]).toEqual([200, { got: { b: 1 } }]);
    expect(headersSeen(1).authorization).toBe('Bearer canary');
    const [first, second] = receiver.requests.map(({ headers }) => String(headers['idempotency-key']));
    expect(first).toMatch(/:one$/);
    expect(second).toBe(first!.replace(/:one$/, ':two'));
  });

  test('PIPELINE_STEP_FAILED carries the cause', async () => {
    receiver.respond({ status: 500, body: 'broken' });
    const steps = [{ id: 'one', tool_id: await tool(), input: {} }];
    const id = await tool({ type: 'pipeline', execute: null, pipeline: { steps } });
    const answer = await call(id);
    expect(codeOf(answer)).toEqual([422, 'PIPELINE_STEP_FAILED']);
    expect(answer.body.error.meta).toMatchObject({ step_id: 'one', code: 'TOOL_HTTP_ERROR' });
  });

  test('PIPELINE_DEPTH_EXCEEDED: a pipeline that runs itself ends', async () => {
    const id = await tool({
      type: 'pipeline',
      execute: null,
      pipeline: { steps: [{ id: 's', tool_id: await tool(), input: {} }] },
    });
    await api.patch(`${at}/tools/${id}`, { pipeline: { steps: [{ id: 's', tool_id: id, input: {} }] } });
    expect(codeOf(await call(id))).toEqual([422, 'PIPELINE_DEPTH_EXCEEDED']);
  });
});
