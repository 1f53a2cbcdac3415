import type { AddressInfo } from 'node:net';
import { ApiError, ToolLoopError, createClient, unwrap, verifyWebhook } from '@agent-platform/sdk';
import type { Client } from '@agent-platform/sdk';
import { config } from '../../src/api/core/config';
import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { useService } from '../support/app';
import { buildAgent, buildClientTool, workspace } from '../support/builders';
import type { Workspace } from '../support/builders';
import { startReceiver } from '../support/receiver';
import { startRelay } from '../support/relay';
import type { Relay } from '../support/relay';
import type { Receiver } from '../support/receiver';

const service = useService({ worker: true });
let server: ModelServer;
let receiver: Receiver;
let space: Workspace;
let client: Client;
let key: string;

beforeAll(async () => {
  server = await startModelServer({});
  receiver = await startReceiver();
  const owner = await service.signedIn();
  const project = await service.project(owner);
  space = await workspace(service.client(owner.token), project.id, server.url);
  key = await service.apiKey(owner, { projectId: project.id });
  client = createClient({ baseUrl: service.baseUrl, apiKey: key });
});
afterAll(async () => {
  await server.close();
  await receiver.close();
});

const lines: Relay[] = [];
afterEach(async () => {
  await Promise.all(lines.splice(0).map((line) => line.close()));
});

const ask = { messages: [{ role: 'user' as const, content: 'go' }] };
let models = 0;

/** An agent whose model says this and nothing else. */
async function agentSaying(replies: object[], given: object = {}) {
  models += 1;
  const model = `${space.model}-${String(models)}`;
  server.script(model, replies);
  const { id } = await buildAgent(space, { model, ...given });
  return { target: { projectId: space.projectId, agentId: id }, model };
}

/** A line between client and service that can be cut: every connection over it ends at once. */
async function startLine(): Promise<{ url: string; cut: () => void }> {
  const relay = await startRelay(service.server.address() as AddressInfo);
  lines.push(relay);
  return { url: `http://127.0.0.1:${String(relay.port)}`, cut: () => relay.cut() };
}

test('a wait beyond what the service allows goes on, and buys one run', async () => {
  const longest = jest.replaceProperty(config(), 'GENERATION_WAIT_MAX_SECONDS', 1);
  const { target, model } = await agentSaying([{ text: 'late', hold: 'sdk-wait' }]);
  setTimeout(() => {
    server.release('sdk-wait');
  }, 1_800);
  const result = await client.generations.run(target, ask);
  longest.restore();
  expect(result).toMatchObject({ status: 'completed', output: { content: 'late' } });
  expect(server.calls({ model })).toHaveLength(1);
  const runs: string[] = [];
  const path = { project_id: target.projectId };
  const query = { agent_id: target.agentId };
  for await (const run of client.items('/v1/projects/{project_id}/generations', { path, query, pageSize: 1 }))
    runs.push(run.id);
  expect(runs).toEqual([result.id]);
});

test('a waiting connection that is cut waits on, and buys one run', async () => {
  const line = await startLine();
  const { target, model } = await agentSaying([{ text: 'after the cut', hold: 'sdk-cut' }]);
  const remote = createClient({ baseUrl: line.url, apiKey: key, retry: { baseMs: 50 } });
  const running = remote.generations.run(target, ask);
  await server.waitForCall({ model }, 10_000);
  line.cut();
  server.release('sdk-cut');
  expect((await running).output?.content).toBe('after the cut');
  expect(server.calls({ model })).toHaveLength(1);
});

test('a stream whose connection is cut in the middle is read on without a character lost or twice', async () => {
  const line = await startLine();
  const words = ['Ünder ', 'the 🌳 ', 'waits ', 'a ', 'parcel ', 'for ', 'nobody.'];
  const { target, model } = await agentSaying([{ chunks: words, holdAfterChunk: { n: 3, gate: 'sdk-stream' } }]);
  const remote = createClient({ baseUrl: line.url, apiKey: key, retry: { baseMs: 50 } });
  const stream = await remote.generations.stream(target, ask);
  const pieces: string[] = [];
  for await (const piece of stream) {
    pieces.push(piece);
    if (pieces.length === 2) line.cut();
    if (pieces.join('').length >= words.slice(0, 3).join('').length) server.release('sdk-stream');
  }
  expect(pieces.join('')).toBe(words.join(''));
  expect(await stream.result()).toEqual({
    status: 'completed',
    generationId: stream.generationId,
    text: words.join(''),
  });
  expect(stream.lastEventId).toMatch(/^\d+:\d+:[0-9a-f]{8}\/done$/);
  expect(server.calls({ model })).toHaveLength(1);
  const again = client.generations.pickUp({ projectId: target.projectId, generationId: stream.generationId });
  expect((await again.result()).text).toBe(words.join(''));
});

test('a stream tells the pause and the failure of its run', async () => {
  const tool = await buildClientTool(space, { name: 'ask_person' });
  const call = { name: 'ask_person', args: { order_id: 'ord_1' } };
  const { target } = await agentSaying([{ text: 'Let me ask.', toolCalls: [call] }], {
    tool_bindings: [{ tool_id: tool.id }],
  });
  const paused = await (await client.generations.stream(target, ask)).result();
  expect(paused).toMatchObject({
    status: 'requires_action',
    text: 'Let me ask.',
    required_action: { tool_calls: [{ tool_name: 'ask_person', args: { order_id: 'ord_1' } }] },
  });
  const broken = await agentSaying([{ status: 404 }]);
  const failing = await client.generations.stream(broken.target, ask);
  await expect(failing.result()).rejects.toMatchObject({
    code: 'AI_PROVIDER_ERROR',
    status: 502,
    generationId: failing.generationId,
  });
});

describe('the loop over client tools', () => {
  const call = (name: string, order: string): object => ({ name, args: { order_id: order } });
  let bindings: object[];

  beforeAll(async () => {
    const refund = await buildClientTool(space, { name: 'refund' });
    const lookUp = await buildClientTool(space, { name: 'look_up' });
    bindings = [refund, lookUp].map(({ id }) => ({ tool_id: id }));
  });

  test('answers pause after pause, the calls of one at once, and tells the model what a function threw', async () => {
    const { target, model } = await agentSaying(
      [
        { toolCalls: [call('look_up', 'a'), call('refund', 'b')] },
        { toolCalls: [call('refund', 'c')] },
        { text: 'All done.' },
      ],
      { tool_bindings: bindings },
    );
    const seen: string[] = [];
    let under = 0;
    const result = await client.generations.runWithTools(target, ask, {
      look_up: async ({ order_id: order }: { order_id: string }, { toolName, generationId }) => {
        seen.push(`${toolName} ${order} ${generationId.slice(0, 4)}`);
        under += 1;
        while (under < 2) await new Promise((resolve) => setTimeout(resolve, 5));
        return { state: 'delivered' };
      },
      refund: ({ order_id: order }: { order_id: string }) => {
        seen.push(`refund ${order}`);
        under += 1;
        if (order === 'b') throw new Error('too late for b');
        return undefined;
      },
    });
    expect(result).toMatchObject({ status: 'completed', output: { content: 'All done.' } });
    expect(seen).toEqual(['look_up a gen_', 'refund b', 'refund c']);
    const last = JSON.stringify(server.calls({ model }).at(-1)?.body);
    expect(last).toContain('too late for b');
    expect(last).toContain('delivered');
  });

  test('ends with a clear error for a tool that nobody answers, and for a run without end; it stays paused', async () => {
    const { target } = await agentSaying([{ toolCalls: [call('refund', 'a')] }], { tool_bindings: bindings });
    const error: unknown = await client.generations.runWithTools(target, ask, {}).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ToolLoopError);
    const { generationId } = error as ToolLoopError;
    expect(error).toMatchObject({ reason: 'no_handler', toolNames: ['refund'] });
    expect(await client.generations.wait({ ...target, generationId })).toMatchObject({ status: 'requires_action' });
    const endless = await agentSaying(
      [
        { toolCalls: [call('refund', 'a')] },
        { toolCalls: [call('refund', 'b')] },
        { toolCalls: [call('refund', 'c')] },
      ],
      { tool_bindings: bindings },
    );
    const loop = client.generations.runWithTools(endless.target, ask, { refund: () => true }, { pausesMax: 2 });
    await expect(loop).rejects.toMatchObject({ reason: 'too_many_pauses' });
  });
});

test('errors of helpers and of raw calls have the shape of the contract', async () => {
  const { target } = await agentSaying([{ status: 404 }]);
  const failed: unknown = await client.generations.run(target, ask).catch((e: unknown) => e);
  expect(failed).toBeInstanceOf(ApiError);
  expect(failed).toMatchObject({ code: 'AI_PROVIDER_ERROR', status: 502 });
  expect((failed as ApiError).generationId).toMatch(/^gen_/);
  expect((failed as ApiError).requestId).toMatch(/.+/);
  const unknown = { projectId: target.projectId, agentId: 'agent_0123456789abcdef' };
  await expect(client.generations.start(unknown, ask)).rejects.toMatchObject({ code: 'not_found', status: 404 });
  const { error, response } = await client.POST('/v1/projects/{project_id}/webhooks', {
    params: { path: { project_id: target.projectId } },
    body: { url: 'nowhere', events: ['*'] },
  });
  expect(response.status).toBe(400);
  expect(error).toMatchObject({ error: { code: 'bad_request', details: [{ path: 'url' }] } });
  const nobody = createClient({ baseUrl: service.baseUrl, apiKey: 'svc_sk_wrong' });
  await expect(unwrap(nobody.GET('/v1/users/me'))).rejects.toMatchObject({ code: 'unauthorized', status: 401 });
});

test('deliveries verify with the old secret and the new one while it is rotated, each with its own', async () => {
  const params = { path: { project_id: space.projectId } };
  const hook = await unwrap(
    client.POST('/v1/projects/{project_id}/webhooks', {
      params,
      body: { url: `${receiver.url}/sdk-hook`, events: ['generation.*'] },
    }),
  );
  const delivered = async (): Promise<Parameters<typeof verifyWebhook>> => {
    const { target } = await agentSaying([{ text: 'said' }]);
    const { id } = await client.generations.run(target, ask);
    const post = await receiver.waitFor(({ path, body }) => path === '/sdk-hook' && body.includes(id), 10_000);
    return [post.body, post.headers, []];
  };
  const [oldBody, oldHeaders] = await delivered();
  const rotated = await unwrap(
    client.POST('/v1/projects/{project_id}/webhooks/{webhook_id}:rotate-secret', {
      params: { path: { project_id: space.projectId, webhook_id: hook.id } },
    }),
  );
  const [newBody, newHeaders] = await delivered();
  for (const [body, headers] of [
    [oldBody, oldHeaders],
    [newBody, newHeaders],
  ] as const) {
    const event = await verifyWebhook(body, headers, [rotated.secret, hook.secret]);
    expect(event).toMatchObject({ type: 'generation.completed', data: { status: 'completed' } });
  }
  await expect(verifyWebhook(newBody, newHeaders, hook.secret)).rejects.toMatchObject({ reason: 'signature' });
  await expect(verifyWebhook(oldBody, oldHeaders, rotated.secret)).rejects.toMatchObject({ reason: 'signature' });
  await unwrap(
    client.DELETE('/v1/projects/{project_id}/webhooks/{webhook_id}', {
      params: { path: { project_id: space.projectId, webhook_id: hook.id } },
    }),
  );
});
