import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unwrap } from '@agent-platform/sdk';
import type { Client, components } from '@agent-platform/sdk';
import { clientOf } from '../demo/api-client';
import { startReceiver } from '../receiver';
import type { Receiver } from '../receiver';
import { signInByMail } from '../sign-in';
import { startLocal } from '../supervisor';
import type { Local } from '../supervisor';
import { openDataDir } from '../folders';
import { NO_ENGINES_OF_OTHERS } from '../local-settings';
import { RAISED_LIMITS } from '../raised-limits';
import type { Chance } from './random';

/** Short times, so that what must be seen to pass passes soon. */
export const SHORT = {
  CALL_HEARTBEAT_SECONDS: '5',
  SWEEP_INTERVAL_SECONDS: '2',
  WEBHOOK_BACKOFF_BASE_SECONDS: '1',
  WEBHOOK_TIMEOUT_SECONDS: '3',
  AUTH_CODE_PER_MINUTE: '100',
  DRAIN_SECONDS: '2',
  LOG_LEVEL: 'warn',
  ...RAISED_LIMITS,
};
export const APIS = 2;
export const WORKERS = 2;

export interface Stage {
  dataDir: string;
  local: Local;
  /** The tools' target and the webhook's endpoint; it outlives every kill. */
  receiver: Receiver;
  /** How often each refund was asked for, by idempotency key: the receiver forgets requests when there are many. */
  refunds: ReadonlyMap<string, number>;
  credential: string;
  /** `/v1/projects/{project_id}` */
  at: string;
  agents: Record<AgentName, string>;
}

export type AgentName = keyof typeof SCRIPTS;

const look = (order: string): object => ({ name: 'look_up', args: { order_id: order } });
const refund = (order: string): object => ({ name: 'refund', args: { order_id: order } });
const ask = (order: string): object => ({ name: 'ask_person', args: { order_id: order } });

/** What the model says at each step, by agent; each agent has a model of its own name. */
const SCRIPTS = {
  plain: [{ text: 'Done.', delayMs: 200 }],
  slow: [{ text: 'Done at last.', delayMs: 2_500 }],
  streamer: [
    { text: 'Looking.', toolCalls: [look('1')], delayMs: 300 },
    { chunks: ['One ', 'two ', 'three ', 'four.'], delayMs: 700 },
  ],
  tools: [
    { toolCalls: [look('1'), refund('1'), refund('2')], delayMs: 150 },
    { toolCalls: [refund('3')], delayMs: 150 },
    { text: 'Refunded.', delayMs: 150 },
  ],
  long: [
    ...['1', '2', '3', '4', '5'].map((order) => ({ toolCalls: [look(order), refund(order)], delayMs: 300 })),
    { text: 'All of them.', delayMs: 300 },
  ],
  ask: [
    { toolCalls: [look('1'), ask('1')], delayMs: 150 },
    { text: 'Agreed.', delayMs: 300 },
  ],
  twice: [
    { toolCalls: [ask('1')] },
    { toolCalls: [refund('2'), ask('2')], delayMs: 200 },
    { text: 'Both.', delayMs: 200 },
  ],
  /** Long enough under way after its pause for a whole stop of everything to come between. */
  late: [{ toolCalls: [ask('1')] }, { text: 'Late.', delayMs: 8_000 }],
  flaky: [{ times: 1, status: 500, then: { text: 'Second try.', delayMs: 150 } }],
} as const satisfies Record<string, readonly object[]>;

/** How many calls of a step the scripts themselves make fail, which makes one more call due. */
export const scriptedFailures = (model: string): number => (model === 'flaky' ? 1 : 0);

const orderId = { type: 'object', properties: { order_id: { type: 'string' } }, required: ['order_id'] };

/** Deliveries of every fortieth event are refused for ever, of the others one attempt in seven. */
function answersOf(receiver: Receiver, chance: Chance): Map<string, number> {
  const refunds = new Map<string, number>();
  receiver.respond(({ method, path, headers }) => {
    if (method === 'POST' && path.startsWith('/refunds')) {
      const key = String(headers['idempotency-key'] ?? '');
      refunds.set(key, (refunds.get(key) ?? 0) + 1);
    }
    if (!path.startsWith('/hook')) return { body: { ok: true }, delayMs: chance.between(0, 150) };
    const id = String(headers['webhook-id'] ?? '');
    const sum = Buffer.from(id).reduce((total, byte) => total + byte, 0);
    return { status: sum % 40 === 0 || chance.happens(1 / 7) ? 500 : 200 };
  });
  return refunds;
}

async function signIn(local: Local): Promise<Client> {
  const email = `chaos-${randomBytes(4).toString('hex')}@example.com`;
  return clientOf(local.baseUrl, await signInByMail(local, email));
}

type ToolBody = components['schemas']['ToolCreate'];

async function makeAgents(
  api: Client,
  projectId: string,
  { local, receiver }: { local: Local; receiver: Receiver },
): Promise<Stage['agents']> {
  const params = { path: { project_id: projectId } };
  const makeTool = async (body: ToolBody): Promise<string> =>
    (await unwrap(api.POST('/v1/projects/{project_id}/tools', { params, body }))).id;
  const http = { type: 'http', description: 'Works on an order', parameters: orderId } as const;
  const tools = [
    await makeTool({ ...http, name: 'look_up', execute: { url: `${receiver.url}/orders/{order_id}`, method: 'GET' } }),
    await makeTool({ ...http, name: 'refund', execute: { url: `${receiver.url}/refunds/{order_id}`, method: 'POST' } }),
    await makeTool({ type: 'client', name: 'ask_person', description: 'Asks', parameters: orderId }),
  ];
  const provider = await unwrap(
    api.POST('/v1/projects/{project_id}/ai-providers', {
      params,
      body: { name: 'local', provider: 'custom', default_model: 'plain', base_url: local.modelServerUrl },
    }),
  );
  const bindings = tools.map((id) => ({ tool_id: id }));
  const agents: [string, string][] = [];
  for (const [name, replies] of Object.entries(SCRIPTS)) {
    local.modelServer.script(name, structuredClone<object[]>([...replies]));
    const body = { name, model: name, ai_provider_id: provider.id, tool_bindings: bindings };
    agents.push([name, (await unwrap(api.POST('/v1/projects/{project_id}/agents', { params, body }))).id]);
  }
  const hook = { url: `${receiver.url}/hook`, events: ['generation.*'] };
  await unwrap(api.POST('/v1/projects/{project_id}/webhooks', { params, body: hook }));
  return Object.fromEntries(agents) as Stage['agents'];
}

/** A fresh data folder, which goes with the engines. Passable, so that root's database can stay inside. */
function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-chaos-'));
  chmodSync(folder, 0o711);
  return openDataDir(folder);
}

/** Starts everything in a fresh folder and makes a project with agents of every kind. The caller stops it. */
export async function setStage(
  chance: Chance,
  signal: AbortSignal,
  begun: (part: { stop: () => Promise<void> }) => void,
): Promise<Stage> {
  const dataDir = freshFolder();
  const local = await startLocal({
    dataDir,
    port: 0,
    apis: APIS,
    workers: WORKERS,
    restartCrashed: false,
    quiet: true,
    signal,
    env: { ...NO_ENGINES_OF_OTHERS, ...SHORT },
    engines: { temporary: true },
  });
  begun({ stop: () => local.stop() });
  const receiver = await startReceiver();
  begun({ stop: () => receiver.close() });
  const refunds = answersOf(receiver, chance);
  const session = await signIn(local);
  const project = await unwrap(session.POST('/v1/projects', { body: { name: 'chaos' } }));
  const key = await unwrap(session.POST('/v1/api-keys', { body: { name: 'chaos', project_id: project.id } }));
  const at = `/v1/projects/${project.id}`;
  const agents = await makeAgents(clientOf(local.baseUrl, key.key), project.id, { local, receiver });
  return { dataDir, local, receiver, refunds, credential: key.key, at, agents };
}
