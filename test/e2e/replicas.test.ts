import { setTimeout as pause } from 'node:timers/promises';
import { startBalancer } from '../support/balancer';
import type { Balancer } from '../support/balancer';
import { buildAgent, buildClientTool, buildHttpTool, created, saying, workspace } from '../support/builders';
import type { Workspace } from '../support/builders';
import { apiClient } from '../support/client';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { useLocal } from '../support/local';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { DONE, idOf, openStream } from '../support/stream';

/** Ten processes at the end: five of the API, five workers. The pools stay small, since all share one database. */
const REPLICAS = 5;
const service = useLocal({
  apis: 2,
  workers: 2,
  env: { DATABASE_POOL_MAX: '4', DRAIN_SECONDS: '20', DRAIN_NOTICE_SECONDS: '2', CALL_HEARTBEAT_SECONDS: '10' },
});

let balancer: Balancer;
let receiver: Receiver;
let space: Workspace;
let token: string;
let agents: Record<keyof typeof STEPS, string>;

/** How many model steps a run of each agent takes. */
const STEPS = { plain: 1, tools: 2, ask: 2, streamer: 2 } as const;
type Kind = keyof typeof STEPS;

/** Runs that were accepted, by id. */
const accepted = new Map<string, Kind>();
/** Whatever a caller was refused or told wrongly. */
const failures: string[] = [];

beforeAll(async () => {
  balancer = await startBalancer(() => service.local.baseUrls);
  receiver = await startReceiver();
  token = await service.signIn('replicas@people.test');
  const api = apiClient(balancer.url, token);
  const project = created(await api.post('/v1/projects', { name: 'replicas' }));
  space = await workspace(api, project.id as string, service.modelServer.url);
  const order = { order_id: '1' };
  const tools = [
    (await buildHttpTool(space, `${receiver.url}/orders/{order_id}`)).id,
    (await buildClientTool(space)).id,
  ];
  const look = { name: 'get_order', args: order };
  const scripts: Record<Kind, object[]> = {
    plain: [{ text: 'Done.', delayMs: 200 }],
    tools: [
      { toolCalls: [look], delayMs: 100 },
      { text: 'Found.', delayMs: 200 },
    ],
    ask: [{ toolCalls: [{ name: 'approve_refund', args: order }] }, { text: 'Agreed.', delayMs: 100 }],
    streamer: [
      { text: 'Looking.', toolCalls: [look] },
      { chunks: ['One ', 'two ', 'three.'], delayMs: 400 },
    ],
  };
  const made: [string, string][] = [];
  for (const [kind, replies] of Object.entries(scripts)) {
    const model = `${space.model}-${kind}`;
    service.modelServer.script(model, replies);
    const tool_bindings = tools.map((id) => ({ tool_id: id }));
    made.push([kind, (await buildAgent(space, { name: kind, model, tool_bindings })).id]);
  }
  agents = Object.fromEntries(made) as typeof agents;
  created(await api.post(`${space.at}/webhooks`, { url: `${receiver.url}/hook`, events: ['generation.*'] }));
}, 60_000);

afterAll(async () => {
  await balancer.close();
  await receiver.close();
});

const generatePath = (kind: Kind): string => `${space.at}/agents/${agents[kind]}/generate`;

function expectReply(what: string, reply: Reply, status: number, state?: string): void {
  if (reply.status !== status || (state !== undefined && reply.body.status !== state))
    failures.push(`${what}: ${String(reply.status)} ${JSON.stringify(reply.body)}`);
}

async function inBackground(kind: 'plain' | 'tools'): Promise<void> {
  const reply = await space.api.post(generatePath(kind), saying('go'));
  expectReply(`${kind} in the background`, reply, 202);
  if (reply.status === 202) accepted.set(reply.body.id as string, kind);
}

async function waited(kind: 'plain' | 'tools'): Promise<void> {
  const reply = await space.api.post(`${generatePath(kind)}?wait=true`, saying('go'));
  expectReply(`${kind} waited`, reply, 200, 'completed');
  if (reply.status === 200) accepted.set(reply.body.id as string, kind);
}

async function pausedAndSubmitted(): Promise<void> {
  const paused = await space.api.post(`${generatePath('ask')}?wait=true`, saying('go'));
  expectReply('ask until its pause', paused, 200, 'requires_action');
  const [call] = (paused.body.required_action?.tool_calls ?? []) as { id: string }[];
  if (call === undefined) return;
  accepted.set(paused.body.id as string, 'ask');
  const outputs = { tool_outputs: [{ tool_call_id: call.id, output: { approved: true } }] };
  const path = `${generatePath('ask')}/${String(paused.body.id)}/tool-outputs`;
  const reply = await space.api.post(path, outputs);
  if (reply.status >= 300) expectReply('outputs', reply, 200);
}

async function streamed(): Promise<void> {
  const url = `${balancer.url}${generatePath('streamer')}`;
  const open = await openStream(url, { token, body: saying('go', { stream: true }) });
  const frames = await open.rest();
  if (open.status !== 200 || frames.at(-1) !== DONE)
    failures.push(`stream: ${String(open.status)} ${frames.join(' ')}`);
  if (open.status === 200) accepted.set(idOf(open), 'streamer');
}

const LOAD = [
  () => inBackground('plain'),
  () => waited('tools'),
  () => streamed(),
  () => pausedAndSubmitted(),
  () => inBackground('tools'),
  () => waited('plain'),
];

/** One caller of each kind, again and again while `work` runs. A request that finds no server counts as failed. */
async function underLoad(work: () => Promise<void>): Promise<void> {
  let isOver = false;
  const callers = LOAD.map(async (call) => {
    while (!isOver) {
      await call().catch((error: unknown) => failures.push(String(error)));
      await pause(400);
    }
  });
  try {
    await work();
  } finally {
    isOver = true;
    await Promise.all(callers);
  }
}

/** The promises, once everything has come to rest: accepted runs end, steps are bought once, events are delivered once. */
async function expectAllKept(): Promise<void> {
  expect([...failures.splice(0), ...balancer.failures.splice(0)]).toEqual([]);
  await eventually(
    async () => {
      const left = await service.rows("select id, status from generations where status <> 'completed'");
      expect(left).toEqual([]);
    },
    { timeoutMs: 30_000 },
  );
  const bought = [...accepted].map(([id, kind]) => [kind, service.modelServer.calls({ generationId: id }).length]);
  expect(bought.filter(([kind, calls]) => calls !== STEPS[kind as Kind])).toEqual([]);
  const told = [...accepted].flatMap(([id, kind]) => (kind === 'streamer' ? [] : [id]));
  await eventually(
    () => {
      const hooks = receiver.requests.filter(({ path }) => path === '/hook');
      const ends = hooks.map(({ body }) => JSON.parse(body) as { type: string; data: { id: string } });
      const completed = ends.filter(({ type }) => type === 'generation.completed').map(({ data }) => data.id);
      expect(completed.sort()).toEqual(told.sort());
    },
    { timeoutMs: 20_000 },
  );
}

const names = (): string[] => service.local.processes().map(({ name }) => name);

/** A new process for an old one: asked to end, waited for, and started on the same port. */
async function replace(kind: 'api' | 'worker', index: number): Promise<void> {
  service.local.kill(kind, index, 'SIGTERM');
  await eventually(
    () => {
      expect(names()).not.toContain(`${kind}-${String(index)}`);
    },
    { timeoutMs: 30_000 },
  );
  await service.local.start(kind);
  await eventually(() => {
    expect(balancer.live()).toHaveLength(service.local.baseUrls.length);
  });
}

test('replaced under load, one process after the other: no request fails, and nothing is bought or told twice', async () => {
  await underLoad(async () => {
    for (const kind of ['worker', 'api'] as const) for (const index of [0, 1]) await replace(kind, index);
  });
  expect(accepted.size).toBeGreaterThan(20);
  await expectAllKept();
}, 150_000);

test('ten replicas on one database and one engine share a mixed load: nothing is lost, each Schedule exists once', async () => {
  const more = REPLICAS - 2;
  const kinds = Array.from({ length: more }, () => ['api', 'worker'] as const).flat();
  await Promise.all(kinds.map((kind) => service.local.start(kind)));
  await eventually(() => {
    expect(balancer.live()).toHaveLength(REPLICAS);
  });
  const before = accepted.size;
  await underLoad(async () => {
    await pause(5_000);
    // However slowly twenty processes share the machine.
    await eventually(
      () => {
        expect(accepted.size - before).toBeGreaterThan(20);
      },
      { timeoutMs: 30_000 },
    );
  });
  await expectAllKept();
  const schedules: string[] = [];
  for await (const { scheduleId } of service.engine.schedule.list()) schedules.push(scheduleId);
  expect(schedules.sort()).toEqual([...new Set(schedules)].sort());
  expect(schedules).toEqual(expect.arrayContaining(['sweep/starts', 'sweep/lost', 'retention/content']));
  expect(await pollersOf('platform')).toBeGreaterThanOrEqual(REPLICAS);
}, 150_000);

/** How many workers poll a queue for workflows. */
async function pollersOf(name: string): Promise<number> {
  const { connection, options } = service.engine;
  const { pollers } = await connection.workflowService.describeTaskQueue({
    namespace: options.namespace,
    taskQueue: { name },
  });
  // The engine remembers for some minutes who polled; a poll is made anew after a minute.
  const living = pollers.filter(({ lastAccessTime }) => Date.now() / 1000 - Number(lastAccessTime?.seconds) < 70);
  return new Set(living.map(({ identity }) => identity)).size;
}
