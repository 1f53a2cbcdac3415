import { query } from '../../src/api/core/db';
import { useService } from '../support/app';
import { created } from '../support/builders';
import type { ApiClient, Reply } from '../support/client';
import { startMcpServer } from '../support/mcp-server';
import type { McpTestServer } from '../support/mcp-server';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';

const service = useService();
let receiver: Receiver;
let remote: McpTestServer;
let api: ApiClient;
let at: string;

beforeEach(async () => {
  [receiver, remote] = await Promise.all([startReceiver(), startMcpServer()]);
  receiver.respond((request) => ({ body: { got: JSON.parse(request.body) as unknown } }));
  const owner = await service.signedIn();
  at = `/v1/projects/${(await service.project(owner)).id}/tools`;
  api = service.client(owner.token);
});
afterEach(() => Promise.all([receiver.close(), remote.close()]));

const tool = async (given: object): Promise<string> =>
  created(await api.post(at, { name: 'target', ...given })).id as string;
const http = (given: object = {}): Promise<string> =>
  tool({ parameters: { type: 'object' }, execute: { url: receiver.url }, ...given });
const mcp = (given: object = {}): Promise<string> => tool({ type: 'mcp', mcp: { url: remote.url }, ...given });
const pipeline = (steps: object[], given: object = {}, output?: unknown): Promise<string> =>
  tool({ type: 'pipeline', pipeline: { steps, ...(output === undefined ? {} : { output }) }, ...given });
const call = (id: string, body: object = {}): Promise<Reply> => api.post(`${at}/${id}/call`, body);

test('an mcp tool is called directly by its action, and a step by the action that it names', async () => {
  const id = await mcp();
  const direct = await call(id, { action: 'echo', input: { a: 1 } });
  expect([direct.status, direct.body]).toEqual([200, { a: 1 }]);
  const steps = [
    { id: 'first', tool_id: id, action: 'echo', input: { a: { '+': [{ var: 'input.a' }, 1] } } },
    {
      id: 'second',
      tool: { type: 'mcp', mcp: { url: remote.url } },
      action: 'echo',
      input: { b: { var: 'steps.first.a' } },
    },
  ];
  const answer = await call(await pipeline(steps), { input: { a: 1 } });
  expect([answer.status, answer.body]).toEqual([200, { b: 2 }]);
});

test('an action outside the lists is 400 before any request, directly and in a step', async () => {
  const id = await mcp({ actions: ['say'] });
  const direct = await call(id, { action: 'echo' });
  expect([direct.status, direct.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
  const answer = await call(await pipeline([{ id: 's', tool_id: id, action: 'echo' }]));
  expect([answer.status, answer.body.error.meta]).toMatchObject([422, { step_id: 's', code: 'VALIDATION_FAILED' }]);
  expect(remote.requests).toEqual([]);
});

test('a pipeline may have an output of its own, which the output mapping then sees', async () => {
  const steps = [
    { id: 'a', tool_id: await http(), input: { x: 1 } },
    { id: 'b', tool_id: await http(), input: { y: 2 } },
  ];
  const output = { a: { var: 'steps.a.got.x' }, b: { var: 'steps.b.got.y' }, asked: { var: 'input.q' } };
  const id = await pipeline(steps, { output_mapping: { var: 'output' } }, output);
  expect((await call(id, { input: { q: 'z' } })).body).toEqual({ a: 1, b: 2, asked: 'z' });
});

test('the first failing step ends the pipeline: no later one is run', async () => {
  const broken = await mcp();
  const steps = [
    { id: 'a', tool_id: broken, action: 'fail', input: { text: 'out of order' } },
    { id: 'b', tool_id: await http() },
  ];
  const { status, body } = await call(await pipeline(steps));
  expect([status, body.error.code]).toEqual([422, 'PIPELINE_STEP_FAILED']);
  expect(body.error.meta).toEqual({ step_id: 'a', code: 'TOOL_HTTP_ERROR', message: 'out of order' });
  expect(receiver.requests).toEqual([]);
});

test('an expression that fails, and a tool that is gone, fail their step', async () => {
  const id = await http();
  const failing = await call(await pipeline([{ id: 'a', tool_id: id, input: { x: { '+': ['a', 1] } } }]));
  expect(failing.body.error.meta).toMatchObject({ step_id: 'a', code: 'VALIDATION_FAILED' });
  const orphan = await pipeline([{ id: 'a', tool_id: id }]);
  await query('delete from tools where id = $1', [id]);
  expect((await call(orphan)).body.error.meta).toMatchObject({ step_id: 'a', code: 'TOOL_NOT_FOUND' });
  expect(receiver.requests).toEqual([]);
});

test('five pipelines may stand in one another, six may not', async () => {
  let id = await http();
  for (let depth = 0; depth < 5; depth += 1) id = await pipeline([{ id: 's', tool_id: id, input: {} }]);
  expect((await call(id)).status).toBe(200);
  const answer = await call(await pipeline([{ id: 's', tool_id: id, input: {} }]));
  expect([answer.status, answer.body.error.code]).toEqual([422, 'PIPELINE_DEPTH_EXCEEDED']);
  expect(receiver.requests).toHaveLength(1);
});

test('the context goes to the steps, narrowed by the keys of the pipeline', async () => {
  const steps = [{ id: 's', tool_id: await http() }];
  const id = await pipeline(steps, { context_keys: ['b'] });
  await call(id, { tool_context: { a: '1', b: '2' } });
  const { headers } = receiver.requests[0]!;
  expect([headers['x-svc-context-a'], headers['x-svc-context-b']]).toEqual([undefined, '2']);
});
