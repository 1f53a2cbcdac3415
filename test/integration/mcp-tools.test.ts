import { query } from '../../src/api/core/db';
import { callTool } from '../../src/api/tools/call';
import { listMcpTools } from '../../src/api/tools/mcp-list';
import { resolveMcpTools } from '../../src/api/tools/mcp';
import type { CallOutcome } from '../../src/api/tools/outcome';
import { findSnapshot } from '../../src/api/tools/resolve';
import type { ToolSnapshot } from '../../src/api/tools/snapshot';
import { useService } from '../support/app';
import { created } from '../support/builders';
import type { ApiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { startLoopback } from '../support/loopback';
import { listed, startMcpServer } from '../support/mcp-server';
import type { McpTestServer } from '../support/mcp-server';

const service = useService();
const open: { close(): Promise<void> }[] = [];
let api: ApiClient;
let projectId: string;
let at: string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  at = `/v1/projects/${projectId}`;
  api = service.client(owner.token);
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

const server = async (options?: Parameters<typeof startMcpServer>[0]): Promise<McpTestServer> => {
  const started = await startMcpServer(options);
  open.push(started);
  return started;
};
const tool = async (url: string, given: object = {}): Promise<string> =>
  created(await api.post(`${at}/tools`, { name: 'remote', type: 'mcp', mcp: { url }, ...given })).id as string;
const secret = async (value: string): Promise<string> =>
  created(await api.post(`${at}/secrets`, { name: 's', value })).id as string;
const never = new AbortController().signal;

interface Calling {
  args?: Record<string, unknown>;
  toolContext?: Record<string, string>;
  signal?: AbortSignal;
  snapshot?: Partial<ToolSnapshot>;
}
async function call(toolId: string, remoteName: string | null, calling: Calling = {}): Promise<CallOutcome> {
  const { args = {}, toolContext = {}, signal = never, snapshot = {} } = calling;
  const found = (await findSnapshot(projectId, toolId))!;
  const resolved = { ...found, remoteName, ...snapshot };
  return callTool({ tool: resolved, projectId, args, toolContext, idempotencyKey: 'key', signal });
}
const errorOf = (outcome: CallOutcome) => (outcome.kind === 'error' ? outcome.error : null);
const names = (tools: ToolSnapshot[] | { unavailable: string }): string[] | { unavailable: string } =>
  Array.isArray(tools) ? tools.map(({ name }) => name) : tools;
const resolve = (toolId: string, more: { toolContext?: Record<string, string>; timeoutMs?: number } = {}) =>
  resolveMcpTools(projectId, toolId, { toolContext: {}, signal: never, ...more });
/** Nothing of a session outlives its call. */
const everythingClosed = (remote: McpTestServer): Promise<unknown> =>
  eventually(() => {
    expect([remote.openSessions(), remote.openRequests()]).toEqual([0, 0]);
  });

describe.each([
  ['Streamable HTTP with streams', {}],
  ['Streamable HTTP with plain JSON', { json: true }],
  ['SSE only', { transport: 'sse' }],
] as const)('over %s', (_name, options) => {
  test('a tool is called with its arguments, and the session is closed after it', async () => {
    const remote = await server(options);
    const outcome = await call(await tool(remote.url), 'echo', { args: { a: [1] } });
    expect(outcome).toEqual({ kind: 'result', value: { a: [1] } });
    expect(remote.calls).toEqual([{ name: 'echo', args: { a: [1] } }]);
    await everythingClosed(remote);
  });

  test('the whole list is read, page by page', async () => {
    const remote = await server({ ...options, pages: [[listed('a'), listed('b')], [listed('c')], [listed('d')]] });
    const tools = await resolve(await tool(remote.url));
    expect(names(tools)).toEqual(['remote_a', 'remote_b', 'remote_c', 'remote_d']);
    expect(remote.lists()).toBe(1);
    await everythingClosed(remote);
  });

  test('a call that is never answered is TOOL_TIMEOUT, and is closed', async () => {
    const remote = await server(options);
    const outcome = await call(await tool(remote.url), 'hang', { snapshot: { timeoutMs: 1_000 } });
    expect(errorOf(outcome)).toMatchObject({ code: 'TOOL_TIMEOUT', message: 'No answer within 1 seconds' });
    await everythingClosed(remote);
  });

  test('the signal of the caller ends a call, and closes it', async () => {
    const remote = await server(options);
    const stop = new AbortController();
    const outcome = call(await tool(remote.url), 'hang', { signal: stop.signal });
    await eventually(() => {
      expect(remote.calls).toHaveLength(1);
    });
    stop.abort();
    await expect(outcome).rejects.toMatchObject({ kind: 'aborted' });
    await everythingClosed(remote);
  });

  test('an answer of more than 5 MB is TOOL_HTTP_ERROR', async () => {
    const remote = await server(options);
    const outcome = await call(await tool(remote.url), 'large');
    expect(errorOf(outcome)).toMatchObject({
      code: 'TOOL_HTTP_ERROR',
      message: 'The answer is longer than 5000000 bytes',
    });
    await everythingClosed(remote);
  });
});

describe('the result', () => {
  test.each([
    ['structured content is taken first', 'structured', { a: 1 }, { found: { a: 1 } }],
    ['text that is JSON is read as JSON', 'say', { text: '[1, 2]' }, [1, 2]],
    ['other text is text', 'say', { text: 'hello' }, 'hello'],
    ['parts of text are joined', 'two_parts', {}, 'one\ntwo'],
    ['no content is null', 'nothing', {}, null],
    [
      'content that is not text alone comes as it is',
      'picture',
      {},
      [
        { type: 'text', text: 'see' },
        { type: 'image', data: 'aGk=', mimeType: 'image/png' },
      ],
    ],
  ])('%s', async (_name, action, args, value) => {
    const remote = await server();
    await expect(call(await tool(remote.url), action, { args })).resolves.toEqual({ kind: 'result', value });
  });

  test('the mapping of the tool is applied to it', async () => {
    const remote = await server();
    const id = await tool(remote.url, { output_mapping: { var: 'output.a' } });
    await expect(call(id, 'echo', { args: { a: 5 } })).resolves.toEqual({ kind: 'result', value: 5 });
  });
});

describe('failures', () => {
  test('an error of the remote tool is the error of the call, with its text', async () => {
    const remote = await server();
    const outcome = await call(await tool(remote.url), 'fail');
    expect(errorOf(outcome)).toMatchObject({ name: 'remote', code: 'TOOL_HTTP_ERROR', message: 'it is broken' });
  });

  test('an error of the protocol is the error of the call, with its text', async () => {
    const remote = await server();
    const outcome = await call(await tool(remote.url), 'refuse');
    expect(errorOf(outcome)).toMatchObject({ code: 'TOOL_HTTP_ERROR', message: 'no such thing' });
  });

  test('a status is told with what was said', async () => {
    const plain = await startLoopback((_request, response) => response.writeHead(500).end('out of order'));
    open.push(plain);
    const outcome = await call(await tool(plain.url), 'echo');
    expect(errorOf(outcome)).toMatchObject({
      code: 'TOOL_HTTP_ERROR',
      message: 'The server answered 500',
      status: 500,
      body: 'out of order',
      url: plain.url,
    });
  });

  test('a server that knows neither transport is told by its first answer', async () => {
    const plain = await startLoopback((_request, response) => response.writeHead(404).end('not here'));
    open.push(plain);
    expect(errorOf(await call(await tool(plain.url), 'echo'))).toMatchObject({ status: 404, body: 'not here' });
    expect(plain.requests.map(({ method }) => method)).toEqual(['POST', 'GET']);
  });

  test('401 is an answer, and no other transport is tried', async () => {
    const plain = await startLoopback((_request, response) => response.writeHead(401).end());
    open.push(plain);
    expect(errorOf(await call(await tool(plain.url), 'echo'))).toMatchObject({ status: 401 });
    expect(plain.requests).toHaveLength(1);
  });

  test('a server that is not there is TOOL_HTTP_ERROR', async () => {
    const gone = await startLoopback(() => undefined);
    await gone.close();
    const outcome = await call(await tool(gone.url), 'echo');
    expect(errorOf(outcome)).toMatchObject({ code: 'TOOL_HTTP_ERROR', message: 'The call failed: ECONNREFUSED' });
  });

  test('an answer that is no MCP is TOOL_HTTP_ERROR', async () => {
    const plain = await startLoopback((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"hello":1}');
    });
    open.push(plain);
    expect(errorOf(await call(await tool(plain.url), 'echo'))).toMatchObject({ code: 'TOOL_HTTP_ERROR' });
  });

  test('a connection that breaks in the answer ends the call at once', async () => {
    const remote = await server({
      intercept: (request, response) => {
        if (request.headers['mcp-session-id'] === undefined || request.method !== 'POST') return false;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('event: message\n');
        setTimeout(() => response.destroy(), 50);
        return true;
      },
    });
    const outcome = await call(await tool(remote.url), 'echo');
    expect(errorOf(outcome)).toMatchObject({ code: 'TOOL_HTTP_ERROR', message: expect.stringContaining('The call') });
  });
});

describe('egress', () => {
  test.each(['http://169.254.169.254/mcp', 'http://10.0.0.1/mcp', 'http://0xa9fea9fe/'])(
    '%s is TOOL_EGRESS_BLOCKED with its address',
    async (url) => {
      const outcome = errorOf(await call(await tool(url), 'echo'));
      expect(outcome).toMatchObject({ code: 'TOOL_EGRESS_BLOCKED', address: expect.any(String), url });
    },
  );

  test.each([301, 307])('a server that redirects to an address inside (%i) is TOOL_EGRESS_BLOCKED', async (status) => {
    const plain = await startLoopback((_request, response) =>
      response.writeHead(status, { location: 'http://169.254.169.254/mcp' }).end(),
    );
    open.push(plain);
    const outcome = errorOf(await call(await tool(plain.url), 'echo'));
    expect(outcome).toMatchObject({ code: 'TOOL_EGRESS_BLOCKED', address: '169.254.169.254' });
  });

  test('a redirect within what may be called is followed', async () => {
    const remote = await server();
    const plain = await startLoopback((_request, response) => response.writeHead(307, { location: remote.url }).end());
    open.push(plain);
    const outcome = await call(await tool(plain.url), 'echo', { args: { a: 1 } });
    expect(outcome).toEqual({ kind: 'result', value: { a: 1 } });
  });

  test('an SSE server cannot send its client to another origin', async () => {
    const plain = await startLoopback((request, response) => {
      if (request.method === 'POST') {
        response.writeHead(405).end();
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: endpoint\ndata: http://169.254.169.254/messages\n\n');
    });
    open.push(plain);
    const outcome = errorOf(await call(await tool(plain.url), 'echo', { snapshot: { timeoutMs: 5_000 } }));
    expect(outcome).toMatchObject({ code: 'TOOL_HTTP_ERROR' });
  });
});

describe('actions', () => {
  test.each([
    ['missing', {}, null],
    ['outside the allow list', { actions: ['say'] }, 'echo'],
    ['of an empty allow list', { actions: [] }, 'echo'],
    ['denied, although allowed', { actions: ['echo'], denied_actions: ['echo'] }, 'echo'],
  ])('an action %s is VALIDATION_FAILED before any request', async (_name, given, action) => {
    const remote = await server();
    const outcome = await call(await tool(remote.url, given), action);
    expect(errorOf(outcome)).toMatchObject({ code: 'VALIDATION_FAILED' });
    expect(remote.requests).toEqual([]);
  });

  test.each([
    ['null allows all', { actions: null }, ['remote_a', 'remote_b', 'remote_c']],
    ['an allow list', { actions: ['c', 'a', 'unknown'] }, ['remote_a', 'remote_c']],
    ['none', { actions: [] }, []],
    ['denied ones win', { actions: ['a', 'b'], denied_actions: ['b'] }, ['remote_a']],
    ['denied ones alone', { denied_actions: ['a'] }, ['remote_b', 'remote_c']],
  ])('the list is narrowed: %s', async (_name, given, expected) => {
    const remote = await server({ pages: [[listed('a'), listed('b'), listed('c')]] });
    expect(names(await resolve(await tool(remote.url, given)))).toEqual(expected);
  });
});

describe('credentials and context', () => {
  test('secrets, literals and the context go into headers; a server that echoes them shows [secret]', async () => {
    const remote = await server();
    const id = await secret('s3cr3t-value');
    const headers = {
      Authorization: `Bearer {{secret:${id}}}`,
      'X-Api-Key': 'literal-key',
      'X-Tenant': '{{context:tenant}}',
    };
    const toolId = await tool(remote.url, { mcp: { url: remote.url, headers } });
    const outcome = await call(toolId, 'headers', { toolContext: { tenant: 'acme', session_id: 'sess_1' } });
    expect(outcome).toMatchObject({
      kind: 'result',
      value: {
        authorization: 'Bearer [secret]',
        'x-api-key': '[secret]',
        'x-tenant': 'acme',
        'x-svc-context-tenant': 'acme',
        'x-svc-context-session_id': 'sess_1',
      },
    });
    const [first] = remote.requests;
    expect(first!.headers).toMatchObject({ authorization: 'Bearer s3cr3t-value', 'x-api-key': 'literal-key' });
  });

  test('the text of an error and of a refusal shows [secret]', async () => {
    const id = await secret('s3cr3t-value');
    const headers = { Authorization: `Bearer {{secret:${id}}}` };
    const remote = await server();
    const failing = await call(await tool(remote.url, { mcp: { url: remote.url, headers } }), 'fail', {
      args: { text: 'bad s3cr3t-value' },
    });
    expect(errorOf(failing)).toMatchObject({ message: 'bad [secret]' });
    const plain = await startLoopback((_request, response) => response.writeHead(500).end('no s3cr3t-value'));
    open.push(plain);
    const refused = await call(await tool(plain.url, { mcp: { url: plain.url, headers } }), 'echo');
    expect(errorOf(refused)).toMatchObject({ body: 'no [secret]' });
  });

  test('context_keys narrows what is forwarded', async () => {
    const remote = await server();
    const toolId = await tool(remote.url, { context_keys: ['b'] });
    const outcome = await call(toolId, 'headers', { toolContext: { a: '1', b: '2' } });
    const value = outcome.kind === 'result' ? (outcome.value as Record<string, unknown>) : {};
    expect([value['x-svc-context-a'], value['x-svc-context-b']]).toEqual([undefined, '2']);
  });

  test('a key that is not there is MISSING_TOOL_CONTEXT_KEY, and nothing is sent', async () => {
    const remote = await server();
    const toolId = await tool(remote.url, { mcp: { url: remote.url, headers: { 'X-T': '{{context:tenant}}' } } });
    expect(errorOf(await call(toolId, 'echo'))).toMatchObject({ code: 'MISSING_TOOL_CONTEXT_KEY' });
    expect(remote.requests).toEqual([]);
  });

  test('presets win over arguments', async () => {
    const remote = await server();
    const toolId = await tool(remote.url, { preset_parameters: { account: 'A' } });
    const outcome = await call(toolId, 'echo', { args: { account: 'B', x: 1 } });
    expect(outcome).toEqual({ kind: 'result', value: { account: 'A', x: 1 } });
  });
});

describe('resolution', () => {
  const schema = {
    type: 'object',
    properties: { account: { type: 'string' }, q: { type: 'string' } },
    required: ['account', 'q'],
  };

  test('a remote tool is a snapshot with its own schema and description, presets taken out', async () => {
    const remote = await server({ pages: [[listed('find', schema)]] });
    const id = await tool(remote.url, { preset_parameters: { account: 'A' } });
    expect(await resolve(id)).toEqual([
      expect.objectContaining({
        id,
        name: 'remote_find',
        type: 'mcp',
        remoteName: 'find',
        description: 'does find',
        parameters: { type: 'object', properties: { q: { type: 'string' } }, required: ['q'] },
        declared: schema,
      }),
    ]);
  });

  test('what the bounds refuse is left out: schemas that do not compile, are too large or no object, and unusable names', async () => {
    const remote = await server({
      pages: [
        [
          listed('good'),
          listed('good'),
          listed('no_compile', { type: 'object', properties: { a: { type: 'nonsense' } } }),
          listed('outside', { type: 'object', properties: { a: { $ref: 'https://example.com/x.json' } } }),
          listed('large', { type: 'object', description: 'x'.repeat(70_000) }),
          listed('has space'),
          listed('long'.repeat(20)),
        ],
      ],
    });
    expect(names(await resolve(await tool(remote.url)))).toEqual(['remote_good']);
  });

  test('a list is kept for the same headers, and asked for anew for others', async () => {
    const remote = await server({ pages: [[listed('a')]] });
    const id = await tool(remote.url, { mcp: { url: remote.url, headers: { 'X-T': '{{context:t}}' } } });
    await resolve(id, { toolContext: { t: '1' } });
    await resolve(id, { toolContext: { t: '1' } });
    expect(remote.lists()).toBe(1);
    await resolve(id, { toolContext: { t: '2' } });
    expect(remote.lists()).toBe(2);
    await resolve(await tool(remote.url));
    expect(remote.lists()).toBe(3);
  });

  test('a list that breaks once is asked for a second time, and no third', async () => {
    let broken = 0;
    const limit = { times: 1 };
    const remote = await server({
      pages: [[listed('a')]],
      intercept: (_request, response) => {
        if (broken >= limit.times) return false;
        broken += 1;
        response.destroy();
        return true;
      },
    });
    expect(names(await resolve(await tool(remote.url)))).toEqual(['remote_a']);
    [broken, limit.times] = [0, 2];
    expect(await resolve(await tool(remote.url))).toEqual({ unavailable: 'unreachable' });
    expect(broken).toBe(2);
  });

  test('a server that gives no list in time is unavailable, however often it would be asked', async () => {
    const remote = await server({ intercept: () => true });
    const begun = performance.now();
    expect(await resolve(await tool(remote.url), { timeoutMs: 1_000 })).toEqual({ unavailable: 'unreachable' });
    expect(performance.now() - begun).toBeLessThan(3_000);
    await everythingClosed(remote);
  });

  test('an endless list ends', async () => {
    const remote = await server({ pages: Array.from({ length: 300 }, (_, page) => [listed(`t${String(page)}`)]) });
    const tools = await resolve(await tool(remote.url));
    expect(tools).toHaveLength(100);
  });

  test('an address inside, a missing secret, a missing key and a deleted tool are told apart', async () => {
    expect(await resolve(await tool('http://169.254.169.254/'))).toEqual({ unavailable: 'egress_blocked' });
    const id = await secret('x');
    const url = 'http://127.0.0.1:9/mcp';
    const withSecret = await tool(url, { mcp: { url, headers: { 'X-T': `{{secret:${id}}}` } } });
    await query('delete from secrets where id = $1', [id]);
    expect(await resolve(withSecret)).toEqual({ unavailable: 'secret_gone' });
    const withKey = await tool(url, { mcp: { url, headers: { 'X-T': '{{context:t}}' } } });
    expect(await resolve(withKey)).toEqual({ unavailable: 'context_key_missing' });
    expect(await resolve('tool_0000000000000000')).toEqual({ unavailable: 'deleted' });
  });

  test('the signal of the caller ends it', async () => {
    const remote = await server({ intercept: () => true });
    const toolId = await tool(remote.url);
    const signal = AbortSignal.timeout(300);
    await expect(resolveMcpTools(projectId, toolId, { toolContext: {}, signal })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });

  test('the cache holds no credential in the clear', async () => {
    const remote = await server({ pages: [[listed('a')]] });
    const tools = await listMcpTools({
      owner: 'x',
      url: remote.url,
      headers: { authorization: 'canary-credential' },
      signal: never,
    });
    expect(JSON.stringify(tools)).not.toContain('canary-credential');
  });
});
