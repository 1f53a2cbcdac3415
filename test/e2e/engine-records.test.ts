import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { WorkflowExecutionInfo } from '@temporalio/client';
import { startEngines } from '../../src/local/engines';
import type { Engines } from '../../src/local/engines';
import { buildAgent, buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { LocalService, Runs } from '../support/local';
import { cleanUp, temporaryFolder } from '../support/programs';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { startStatementCounter } from './statement-counter';
import type { StatementCounter } from './statement-counter';

const SCHEDULES = [
  'month-turn',
  'retention/content',
  'retention/deliveries',
  'sweep/auth',
  'sweep/lost',
  'sweep/rate-windows',
  'sweep/starts',
];
const ATTRIBUTES = ['ProjectId', 'ResourceType', 'ResourceId', 'AgentId'];
const CANARY = 'KANARIENVOGEL';

const engineFolder = join(temporaryFolder(), 'engines');

let engines: Engines;
let counter: StatementCounter;
let receiver: Receiver;
let service: LocalService;
let runs: Runs;

beforeAll(async () => {
  engines = await startEngines({ dataDir: engineFolder, ui: false, log: () => undefined });
  counter = await startStatementCounter(engines.databaseUrl);
  receiver = await startReceiver();
  service = new LocalService({
    workers: 2,
    env: {
      DATABASE_URL: counter.url,
      TEMPORAL_ADDRESS: engines.temporalAddress,
      SWEEP_INTERVAL_SECONDS: '3600', // Nothing is asked of the database but for the runs.
      LOG_LEVEL: 'trace',
    },
  });
  await service.start();
  runs = new Runs(service, await service.workspace());
}, 120_000);

afterAll(async () => {
  await service.stop();
  await receiver.close();
  await counter.close();
  await engines.stop();
  await cleanUp();
}, 60_000);

async function executions(query = ''): Promise<WorkflowExecutionInfo[]> {
  const found: WorkflowExecutionInfo[] = [];
  for await (const execution of service.engine.workflow.list({ query })) found.push(execution);
  return found;
}

/**
 * What no wait asks for: a pool opens connections when several statements meet, and an address's requests are counted
 * in the database once a second, all of them together.
 */
const isOfNoRun = (text: string): boolean =>
  /^(SET client_min_messages|WITH ranges AS|\s*with put as \(\s*insert into rate_windows)/.test(text);

test('[durable 6] a run that is waited for three seconds sends no more statements than one that is not', async () => {
  const agents = await Promise.all([0, 3_000].map((delayMs) => runs.agent([{ text: 'waited', delayMs }])));
  const statementsOf = async (agentId: string): Promise<{ ms: number; statements: string[] }> => {
    const before = counter.statements.length;
    const begun = performance.now();
    const path = runs.at(`/agents/${agentId}/generate?wait=true`);
    expect((await runs.space.api.post(path, saying('hello'))).body.status).toBe('completed');
    const ms = performance.now() - begun;
    const statements = counter.statements.slice(before).filter((text) => !isOfNoRun(text));
    return { ms, statements: statements.sort() };
  };
  const [quick, slow] = agents.map(({ id }) => id);
  await statementsOf(quick!); // Connections are opened and caches filled.
  const short = await statementsOf(quick!);
  const long = await statementsOf(slow!);
  expect(long.ms).toBeGreaterThanOrEqual(3_000);
  expect(short.statements.length).toBeGreaterThan(5);
  expect(long.statements).toEqual(short.statements);
}, 60_000);

test('[durable 6] [engine 4] two workers started at once: the engine lists each Schedule, once', async () => {
  const listed: string[] = [];
  for await (const { scheduleId } of service.engine.schedule.list()) listed.push(scheduleId);
  expect(listed.sort()).toEqual(SCHEDULES);
}, 30_000);

test('[durable 6] [engine 1] a run of every type is found by its id and by each of its search attributes', async () => {
  receiver.respond({ status: 500 }, '/refusing');
  const url = `${receiver.url}/refusing`;
  const webhook = created(await runs.space.api.post(runs.at('/webhooks'), { url, events: ['*'] }));
  const agent = await runs.agent([]);
  const generationId = await runs.begin(agent.id);
  await runs.reached(generationId, 'completed');
  const { id: deliveryId } = await eventually(() =>
    service.row<{ id: string }>('select id from webhook_deliveries where webhook_id = $1 and attempts > 0', [
      webhook.id,
    ]),
  );
  await runs.space.api.delete(runs.at(`/webhooks/${String(webhook.id)}`));
  const { trace_id: traceId } = await runs.reached(generationId, 'completed');
  const removed = await runs.space.api.delete(runs.at(`/traces/${String(traceId)}/content`));
  expect(removed.status).toBe(200);
  for (const id of SCHEDULES) await service.engine.schedule.getHandle(id).trigger();
  // A worker that starts and finds a value under another key begins to bring it under its own.
  const secret = created(await runs.space.api.post(runs.at('/secrets'), { name: 'of another key', value: 'sk-1' }));
  await service.rows("update secrets set value_key_id = '00000000' where id = $1", [secret.id]);
  await service.local.start('worker');
  expect((await runs.space.api.delete(runs.at(`/agents/${agent.id}?force=true`))).status).toBe(204);

  const types = [
    'generation',
    'agentDeletion',
    'delivery',
    'mail',
    'sweepStarts',
    'sweepLost',
    'sweepExpired',
    'monthTurn',
    'retain',
    'reencryption',
    'tracePurge',
  ];
  const found = await eventually(
    async () => {
      const all = await executions();
      for (const type of types) expect(all.map((execution) => execution.type)).toContain(type);
      return all;
    },
    { timeoutMs: 10_000 },
  );
  expect(new Set(found.map(({ type }) => type))).toEqual(new Set(types));
  const seen = new Map(types.map((type) => [type, new Set<string>()]));
  for (const { workflowId, type, typedSearchAttributes } of found) {
    for (const { key, value } of typedSearchAttributes.getAll().filter(({ key }) => ATTRIBUTES.includes(key.name))) {
      const { name } = key;
      seen.get(type)?.add(name);
      const query = `WorkflowType = "${type}" AND ${name} = "${String(value)}"`;
      expect((await executions(query)).map((execution) => execution.workflowId)).toContain(workflowId);
    }
  }
  expect(Object.fromEntries([...seen].map(([type, names]) => [type, [...names].sort()]))).toEqual({
    generation: ['AgentId', 'ProjectId', 'ResourceId', 'ResourceType'],
    agentDeletion: ['AgentId', 'ProjectId', 'ResourceId', 'ResourceType'],
    delivery: ['ProjectId', 'ResourceId', 'ResourceType'],
    mail: ['ResourceId', 'ResourceType'],
    sweepStarts: ['ResourceId', 'ResourceType'],
    sweepLost: ['ResourceId', 'ResourceType'],
    sweepExpired: ['ResourceId', 'ResourceType'],
    monthTurn: ['ResourceId', 'ResourceType'],
    retain: ['ResourceId', 'ResourceType'],
    reencryption: ['ResourceId', 'ResourceType'],
    tracePurge: ['AgentId', 'ProjectId', 'ResourceId', 'ResourceType'],
  });
  for (const [id, type] of [
    [generationId, 'generation'],
    [deliveryId, 'delivery'],
  ] as const) {
    const [run] = await executions(`ResourceId = "${id}"`);
    expect(run).toMatchObject({ workflowId: id, type });
    expect((await service.engine.workflow.getHandle(id).describe()).workflowId).toBe(id);
  }
  const [deletion] = await executions(`ResourceId = "${agent.id}"`);
  expect(deletion).toMatchObject({ workflowId: `delete/${agent.id}`, type: 'agentDeletion' });
}, 60_000);

test('[durable 8] [engine 2] a run ended in the engine while its row is unsettled exists again after reconcile, and settles', async () => {
  const tool = await buildClientTool(runs.space, { name: 'ask' });
  const resting = await runs.agent(
    [{ toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] }, { text: 'Asked.' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const calling = await runs.agent([{ text: 'Called.', hold: 'reconcile' }]);
  const paused = await runs.begin(resting.id);
  const { required_action: action } = await runs.reached(paused, 'requires_action');
  const held = await runs.begin(calling.id);
  await service.modelServer.waitForCall({ generationId: held });
  for (const id of [paused, held]) {
    await service.engine.workflow.getHandle(id).terminate('by an operator');
    expect(await service.runStatus(id)).toBe('TERMINATED');
  }
  expect((await runs.row(paused)).status).toBe('requires_action');
  expect((await runs.row(held)).status).toBe('in_progress');

  const program = resolve(__dirname, '../../dist/reconcile.js');
  const { stdout } = await promisify(execFile)(process.execPath, [program, '--local'], {
    env: service.programEnvironment(),
    timeout: 30_000,
  });
  expect(stdout).toMatch(/^started 2 runs/);
  expect(await service.runStatus(paused)).toBe('RUNNING');
  service.modelServer.release('reconcile');
  await runs.reached(held, 'completed');
  const reply = await runs.outputs(resting.id, paused, action.tool_calls[0].id as string);
  expect(reply).toMatchObject({ status: 200, body: { status: 'completed', output: { content: 'Asked.' } } });
  // The step that was stored before is not bought again.
  expect(runs.calls(paused)).toMatchObject([{ step: 1 }, { step: 2 }]);
  expect(await runs.storedSteps(held)).toEqual([1]);
}, 60_000);

test('[durable 8] a pause whose run was lost takes outputs as soon as the run is back', async () => {
  const tool = await buildClientTool(runs.space, { name: 'ask_again' });
  const agent = await runs.agent(
    [{ toolCalls: [{ id: 'c1', name: 'ask_again', args: { order_id: '1' } }] }, { text: 'Restored.' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const id = await runs.begin(agent.id);
  const { required_action: action } = await runs.reached(id, 'requires_action');
  const submit = () => runs.outputs(agent.id, id, action.tool_calls[0].id as string);
  await service.engine.workflow.getHandle(id).terminate('by an operator');
  for (const { name } of service.local.processes().filter((process) => process.name.startsWith('worker')))
    await service.kill('worker', Number(name.split('-')[1]));
  // The first one finds no run and has it started again; the second one is there before the run has looked at its rows.
  expect(await submit()).toMatchObject({ status: 503, body: { error: { code: 'service_unavailable' } } });
  expect(await service.runStatus(id)).toBe('RUNNING');
  const [reply] = await Promise.all([submit(), service.local.start('worker')]);
  expect(reply).toMatchObject({ status: 200, body: { status: 'completed', output: { content: 'Restored.' } } });
}, 60_000);

/** Every text in a value of the engine's, payloads decoded. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('utf8')];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return Object.entries(value).flatMap(([name, entry]) => [name, ...textsOf(entry)]);
}

/** The canary as it is, and as other encodings would carry it. */
const CANARY_FORMS = [CANARY, Buffer.from(CANARY).toString('hex')].flatMap((form) => [form, form.toLowerCase()]);

/** A text's own words, and what its base64 stretches say. */
function mentions(text: string): string[] {
  const decoded = (text.match(/[A-Za-z0-9+/_-]{16,}={0,2}/g) ?? []).map((part) =>
    Buffer.from(part, 'base64').toString('latin1'),
  );
  return [text, ...decoded].filter((form) => CANARY_FORMS.some((canary) => form.includes(canary)));
}

/** Runs that carry the canary wherever a caller, a model, a tool or a provider can put it. */
async function runsWithCanary(): Promise<string[]> {
  const { api } = runs.space;
  receiver.respond({ status: 500, body: `tool failed: ${CANARY}` }, '/canary-fails');
  receiver.respond({ body: { found: CANARY } }, '/canary-works');
  const secret = created(await api.post(runs.at('/secrets'), { name: `name ${CANARY}`, value: `sk-${CANARY}` }));
  const provider = created(
    await api.post(runs.at('/ai-providers'), {
      name: CANARY,
      provider: 'custom',
      default_model: 'm',
      base_url: service.modelServer.url,
      secret_id: secret.id,
    }),
  );
  const headers = { 'X-Token': `{{secret:${String(secret.id)}}}` };
  const tools = await Promise.all([
    ...['fails', 'works'].map((name) =>
      buildHttpTool(runs.space, '', {
        name,
        execute: { url: `${receiver.url}/canary-${name}?q={order_id}`, method: 'POST', headers },
      }),
    ),
    buildClientTool(runs.space, { name: 'ask_canary', description: CANARY }),
  ]);
  const args = { order_id: CANARY };
  const given = {
    ai_provider_id: provider.id,
    name: CANARY,
    instructions: `Say ${CANARY}.`,
    tool_bindings: tools.map(({ id }) => ({ tool_id: id })),
  };
  const start = async (replies: object[]) => {
    const model = `canary-${String(Math.random()).slice(2)}`;
    service.modelServer.script(model, replies);
    const agent = await buildAgent(runs.space, { ...given, model });
    const more = { metadata: { note: CANARY }, action_id: CANARY, idempotency_key: `${model} ${CANARY}` };
    const body = saying(`My prompt is ${CANARY}.`, more);
    return { agentId: agent.id, reply: await api.post(runs.at(`/agents/${agent.id}/generate?wait=true`), body) };
  };
  const paused = await start([
    {
      toolCalls: [
        { name: 'fails', args },
        { name: 'works', args },
        { name: CANARY, args },
        { id: 'c9', name: 'ask_canary', args },
      ],
    },
    { text: `The end of ${CANARY}.` },
  ]);
  expect(paused.reply.body.status).toBe('requires_action');
  const id = paused.reply.body.id as string;
  const outputs = { tool_outputs: [{ tool_call_id: 'c9', output: { said: CANARY } }], idempotency_key: CANARY };
  const done = await api.post(runs.at(`/agents/${paused.agentId}/generate/${id}/tool-outputs`), outputs);
  expect(done.body.output.content).toContain(CANARY);
  const failures = [];
  for (const reply of [
    { status: 404, body: { error: { message: `no such model: ${CANARY}` } } },
    { status: 500, body: { error: { message: `broken: ${CANARY}` } } },
    { malformed: CANARY },
    { toolCalls: Array.from({ length: 65 }, () => ({ name: 'works', args })) },
  ])
    failures.push((await start([reply])).reply.body.error.meta.generation_id as string);
  return [id, ...failures];
}

/** The same for a delivery that fails and for a person's address and code. */
async function deliveryWithCanary(): Promise<string> {
  receiver.respond({ status: 500, body: `refused: ${CANARY}` }, '/canary-hook');
  const url = `${receiver.url}/canary-hook?token=${CANARY}`;
  const webhook = created(await runs.space.api.post(runs.at('/webhooks'), { url, events: ['*'], description: CANARY }));
  await runs.begin((await runs.agent([{ text: CANARY }])).id);
  const { id } = await eventually(() =>
    service.row<{ id: string }>('select id from webhook_deliveries where webhook_id = $1 and attempts > 1', [
      webhook.id,
    ]),
  );
  await runs.space.api.delete(runs.at(`/webhooks/${String(webhook.id)}`));
  return id;
}

test('[durable 7] [engine 3] no content, secret, code, address or error text is in a history, memo, attribute or log', async () => {
  const generationIds = await runsWithCanary();
  const deliveryId = await deliveryWithCanary();
  const email = `${CANARY.toLowerCase()}@people.test`;
  await service.signIn(email);
  const code = service.local.mailbox(email)[0]?.code ?? 'no code';
  const codeAlone = new RegExp(`\\b${code}\\b`);
  const answer = await runs.space.api.get(runs.at(`/nothing/${CANARY}?q=${CANARY}`));
  expect(answer.status).toBe(404);
  await sleep(500); // What is written late is written by now.

  const all = await executions();
  for (const id of [...generationIds, deliveryId]) expect(all.map(({ workflowId }) => workflowId)).toContain(id);
  expect(generationIds).toHaveLength(5);
  for (const execution of all) {
    const handle = service.engine.workflow.getHandle(execution.workflowId, execution.runId);
    const [history, description] = await Promise.all([handle.fetchHistory(), handle.describe()]);
    const texts = textsOf([history, description.raw, execution.memo, execution.typedSearchAttributes.getAll()]);
    // The decoded payloads are among the texts.
    if (execution.type === 'generation') expect(texts).toContainEqual(expect.stringContaining('"generationId"'));
    expect([execution.workflowId, texts.flatMap(mentions)]).toEqual([execution.workflowId, []]);
    if (execution.type === 'mail') expect(texts.filter((text) => codeAlone.test(text))).toEqual([]);
  }
  const files = readdirSync(service.local.logs);
  expect(files).toEqual(expect.arrayContaining(['api-0.log', 'worker-0.log', 'worker-1.log']));
  const logs = [...files.map((name) => join(service.local.logs, name)), ...engineLogs()];
  for (const file of logs) {
    const lines = readFileSync(file, 'utf8').split('\n');
    expect([file, lines.filter((line) => mentions(line).length > 0)]).toEqual([file, []]);
  }
}, 90_000);

const engineLogs = (): string[] => {
  const folder = join(engineFolder, 'logs');
  return readdirSync(folder).map((name) => join(folder, name));
};
