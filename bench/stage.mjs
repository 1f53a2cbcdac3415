import { fork } from 'node:child_process';
import { chmodSync, mkdtempSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { Agent } from 'undici';
import { until } from './measure.mjs';

const require = createRequire(import.meta.url);
const { NO_ENGINES_OF_OTHERS, localDefaults } = require('../dist/local/local-settings.js');
const { freePort } = require('../dist/local/ports.js');
const { RAISED_LIMITS } = require('../dist/local/raised-limits.js');
const { signInByMail } = require('../dist/local/sign-in.js');
const { startLocal } = require('../dist/local/supervisor.js');

/** Limits that a load would meet are raised by their settings; no check is off. */
const SETTINGS = {
  AUTH_CODE_PER_MINUTE: '100',
  AUTH_CODE_PER_DAY: '1000',
  LOG_LEVEL: 'warn',
  DRAIN_SECONDS: '5',
  ...RAISED_LIMITS,
};

/** Calls of the API over kept-alive connections; answers the parsed body. */
export class Api {
  #agent = new Agent({ connections: 64, pipelining: 1, bodyTimeout: 0, headersTimeout: 0 });

  constructor(baseUrl) {
    this.baseUrl = baseUrl;
    this.token = '';
  }

  /** @throws Error when the status is not one of 2xx */
  async call(method, path, body) {
    const response = await this.request(method, path, body);
    const answer = await response.body.text();
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${answer}`);
    return answer === '' ? null : JSON.parse(answer);
  }

  request(method, path, body) {
    const { origin } = new URL(this.baseUrl);
    return this.#agent.request({
      origin,
      method,
      path,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  close() {
    return this.#agent.destroy();
  }
}

/**
 * One more API process over the same engines, as production runs it: local mode holds every answer against the schema of its
 * route before it goes out. @returns its address
 */
async function startProductionApi({ dataDir, local, opened }, env) {
  const port = await freePort();
  const baseUrl = `http://127.0.0.1:${port}`;
  const child = fork(require.resolve('../dist/api/server.js'), [], {
    env: {
      PATH: process.env.PATH,
      ...localDefaults(dataDir),
      ...SETTINGS,
      ...env,
      DATABASE_URL: local.databaseUrl,
      TEMPORAL_ADDRESS: local.temporalAddress,
      HOST: '127.0.0.1',
      PORT: String(port),
      PUBLIC_BASE_URL: baseUrl,
      METRICS_HOST: '127.0.0.1',
      METRICS_PORT: '0',
      SMTP_URL: 'smtp://127.0.0.1:9',
      MAIL_FROM: 'bench@people.test',
    },
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  opened.push(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const serves = () =>
    fetch(`${baseUrl}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(async () => child.exitCode !== null || (await serves()), { timeoutMs: 30_000, goal: 'the API' });
  if (child.exitCode !== null) throw new Error(`The API ended at its start: ${child.exitCode}`);
  return baseUrl;
}

/**
 * Everything started anew in a folder that goes with it: engines (durable, as in production), APIs, workers, and a project
 * with a key and a provider; `api` calls a process in production
 * mode, or else the first of local mode. `end` stops it.
 */
export async function openStage({ apis = 1, workers = 1, env = {}, production = true } = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  chmodSync(dataDir, 0o711);
  const local = await startLocal({
    dataDir,
    port: 0,
    apis,
    workers,
    quiet: true,
    restartCrashed: false,
    env: { ...NO_ENGINES_OF_OTHERS, ...SETTINGS, ...env },
    engines: { temporary: true },
  });
  const stage = { dataDir, local, api: new Api(local.baseUrl), opened: [] };
  stage.end = async () => {
    for (const close of stage.opened.reverse()) await close();
    await stage.api.close();
    await local.stop();
  };
  try {
    await furnish(stage);
    if (production) stage.api.baseUrl = await startProductionApi(stage, env);
    return stage;
  } catch (error) {
    await stage.end();
    throw error;
  }
}

async function furnish(stage) {
  const { api, local } = stage;
  api.token = await signInByMail(local, 'bench@people.test');
  const project = await api.call('POST', '/v1/projects', { name: 'bench' });
  stage.projectId = project.id;
  stage.ownerId = project.owner_user_id;
  api.token = (await api.call('POST', '/v1/api-keys', { name: 'bench' })).key;
  stage.at = `/v1/projects/${project.id}`;
  stage.makeAgent = async (model, { baseUrl = local.modelServerUrl, tools = [] } = {}) => {
    const { at } = stage;
    const provider = { name: `p-${model}`, provider: 'custom', default_model: model, base_url: baseUrl };
    const { id: ai_provider_id } = await api.call('POST', `${at}/ai-providers`, provider);
    const tool_bindings = tools.map((tool_id) => ({ tool_id }));
    return (await api.call('POST', `${at}/agents`, { ai_provider_id, model, max_steps: 100, tool_bindings })).id;
  };
  stage.generate = (agent, extra = {}, query = '') =>
    api.call('POST', `${stage.at}/agents/${agent}/generate${query}`, { ...QUESTION, ...extra });
}

export const QUESTION = { messages: [{ role: 'user', content: 'How are you?' }] };

/** A connection of our own to the stage's database. */
export async function openDatabase(stage) {
  const client = new pg.Client({ connectionString: stage.local.databaseUrl });
  await client.connect();
  stage.opened.push(() => client.end());
  return client;
}

/** The bare engine: a client, and a worker in this process that runs the workflows of `bare-workflows.cjs`. */
export async function openBareEngine(stage, { worker = true } = {}) {
  const { Client, Connection } = require('@temporalio/client');
  const connection = await Connection.connect({ address: stage.local.temporalAddress });
  stage.opened.push(() => connection.close());
  const client = new Client({ connection });
  if (!worker) return client;
  const { DefaultLogger, NativeConnection, Runtime, Worker } = require('@temporalio/worker');
  Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: [] });
  const native = await NativeConnection.connect({ address: stage.local.temporalAddress });
  const bare = await Worker.create({
    connection: native,
    taskQueue: 'bare',
    workflowsPath: require.resolve('./bare-workflows.cjs'),
    activities: { nothing: () => Promise.resolve() },
  });
  const running = bare.run();
  stage.opened.push(async () => {
    bare.shutdown();
    await running;
    await native.close();
  });
  return client;
}
