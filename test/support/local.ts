import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Client as EngineClient, Connection } from '@temporalio/client';
import { Client as DatabaseClient } from 'pg';
import { localDefaults } from '../../src/local/local-settings';
import { RAISED_LIMITS } from '../../src/local/raised-limits';
import { signInByMail } from '../../src/local/sign-in';
import { startLocal } from '../../src/local/supervisor';
import type { Local, LocalOptions } from '../../src/local/supervisor';
import type { ModelCall } from '../../src/local/model-server';
import { buildAgent, saying, workspace } from './builders';
import type { Workspace } from './builders';
import { apiClient } from './client';
import type { Reply } from './client';
import { eventually } from './eventually';
import { cleanUp, temporaryFolder } from './programs';

type ServiceKind = 'api' | 'worker';
type Environment = Record<string, string | undefined>;

/** Short times, so that what a test must see pass passes soon. */
const SHORT: Environment = {
  CALL_HEARTBEAT_SECONDS: '3',
  SWEEP_INTERVAL_SECONDS: '1',
  WEBHOOK_BACKOFF_BASE_SECONDS: '1',
  WEBHOOK_TIMEOUT_SECONDS: '2',
  AUTH_CODE_PER_MINUTE: '1000',
  AUTH_CODE_PER_DAY: '1000',
  DRAIN_SECONDS: '2',
  ...RAISED_LIMITS,
};
const START_MS = 120_000;
const STOP_MS = 60_000;

const programs = { api: built('api/server.js'), worker: built('worker.js') };

function built(name: string): string {
  return resolve(__dirname, '../../dist', name);
}

/** A running local service: real processes that a test may kill, with everything to look into it. */
export class LocalService {
  private started: Local | undefined;
  private connection: Connection | undefined;
  private readonly folder = temporaryFolder();
  private readonly faultFolder = join(this.folder, 'faults');

  constructor(private readonly options: Partial<LocalOptions>) {
    mkdirSync(this.faultFolder);
  }

  get local(): Local {
    if (this.started === undefined) throw new Error('The local service is not started.');
    return this.started;
  }

  get modelServer(): Local['modelServer'] {
    return this.local.modelServer;
  }

  /** The engine's client; made anew by `connect` after a restart of the engine is not needed, it reconnects by itself. */
  get engine(): EngineClient {
    if (this.connection === undefined) throw new Error('The local service is not started.');
    return new EngineClient({ connection: this.connection });
  }

  private get environment(): Environment {
    return {
      ...SHORT,
      NODE_ENV: undefined, // The runner's own: the programs would believe that they are tests.
      NODE_OPTIONS: `--require ${join(__dirname, 'fault-preload.cjs')}`,
      FAULT_FOLDER: this.faultFolder,
      ...this.options.env,
    };
  }

  async start(): Promise<void> {
    this.started = await startLocal({
      dataDir: join(this.folder, 'data'),
      port: 0,
      quiet: true,
      restartCrashed: false,
      children: programs,
      // The disk need not be waited for: here nothing but processes is lost. Who kills the database asks for it.
      engines: { fsync: false },
      ...this.options,
      env: this.environment,
    }).catch((error: unknown) => {
      // The folder goes with the test: what the processes said last is all that tells why.
      throw new Error(`The local service did not start.\n${this.lastLines()}`, { cause: error });
    });
    this.connection = await Connection.connect({ address: this.started.temporalAddress });
  }

  /** The end of every log of the processes. */
  private lastLines(): string {
    const logs = join(this.folder, 'data', 'logs');
    const names = existsSync(logs) ? readdirSync(logs) : [];
    return names.map((name) => `${name}: ${readFileSync(join(logs, name), 'utf8').slice(-2_000)}`).join('\n');
  }

  async stop(): Promise<void> {
    await this.connection?.close();
    await this.started?.stop();
    this.started = undefined;
  }

  /** The settings of the service's processes, for a program that runs beside them. */
  programEnvironment(): Environment {
    const { databaseUrl, temporalAddress, baseUrl } = this.local;
    return {
      ...process.env,
      ...localDefaults(join(this.folder, 'data')),
      ...this.environment,
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: temporalAddress,
      PUBLIC_BASE_URL: baseUrl,
    };
  }

  /** Rows of one statement, over a connection of its own: the database may have been restarted since the last one. */
  async rows<Row extends object>(sql: string, bind: unknown[] = []): Promise<Row[]> {
    const client = new DatabaseClient({ connectionString: this.local.databaseUrl });
    client.on('error', () => undefined); // A server that goes away also fails the statement, which is what is seen.
    await client.connect();
    try {
      return (await client.query<Row>(sql, bind)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  /** The first row. @throws when there is none */
  async row<Row extends object>(sql: string, bind: unknown[] = []): Promise<Row> {
    const [first] = await this.rows<Row>(sql, bind);
    if (first === undefined) throw new Error(`No row: ${sql} ${JSON.stringify(bind)}`);
    return first;
  }

  /** A new person who signed in by a mailed code, with a project and a provider on the local model server. */
  async workspace(): Promise<Workspace> {
    const token = await this.signIn(`${Math.random().toString(36).slice(2)}@people.test`);
    const api = apiClient(this.local.baseUrl, token);
    const project = await api.post('/v1/projects', { name: 'a project of the tests' });
    expect(project.status).toBe(201);
    return workspace(api, project.body.id as string, this.modelServer.url);
  }

  /** Signs in as a person does. @returns the session token */
  signIn(email: string): Promise<string> {
    return signInByMail(this.local, email);
  }

  /** The code of the newest mail to an address, once it is there. */
  async mailedCode(email: string, timeoutMs = 10_000): Promise<string> {
    return eventually(
      async () => {
        const { body } = await apiClient(this.local.baseUrl).get(`/dev/mailbox?to=${email}`);
        const [mail] = body.data as { code: string }[];
        if (mail === undefined) throw new Error(`no mail to ${email}`);
        return mail.code;
      },
      { timeoutMs },
    );
  }

  /** Kills a process with SIGKILL and waits until it is gone. */
  async kill(kind: ServiceKind, index = 0): Promise<void> {
    const name = `${kind}-${String(index)}`;
    if (!this.isUp(name)) throw new Error(`${name} does not run: there is nothing to kill.`);
    this.local.kill(kind, index, 'SIGKILL');
    await eventually(() => {
      if (this.isUp(name)) throw new Error(`${name} still runs`);
    });
  }

  private isUp(name: string): boolean {
    return this.local.processes().some((process) => process.name === name);
  }

  /** Kills an engine and waits until it is gone. */
  async endEngine(name: 'postgres' | 'temporal'): Promise<void> {
    this.local.engines.kill(name, 'SIGKILL');
    await eventually(() => {
      if (this.isUp(name)) throw new Error(`${name} still runs`);
    });
  }

  /** Kills an engine, waits that long, and starts it again on its own data. */
  async outage(name: 'postgres' | 'temporal', downMs: number): Promise<void> {
    await this.endEngine(name);
    await new Promise((done) => setTimeout(done, downMs));
    await this.local.engines.restart(name);
  }

  /** Whoever comes to that fault point is held there. */
  hold(point: string): void {
    writeFileSync(join(this.faultFolder, point), '');
  }

  /** Waits until a process is held at the point; the next wait is for another one. */
  async held(point: string, timeoutMs = 10_000): Promise<void> {
    const sign = join(this.faultFolder, `${point}.held`);
    await eventually(
      () => {
        if (!existsSync(sign)) throw new Error(`nobody came to ${point}`);
      },
      { timeoutMs },
    );
    rmSync(sign);
  }

  /** Lets those at the point go on, and those who come later. */
  letGo(point: string): void {
    rmSync(join(this.faultFolder, point), { force: true });
    rmSync(join(this.faultFolder, `${point}.held`), { force: true });
  }

  /** Whether the engine knows a run by that id, and how it stands; null when there is none. */
  async runStatus(id: string): Promise<string | null> {
    try {
      return (await this.engine.workflow.getHandle(id).describe()).status.name;
    } catch (error) {
      if (error instanceof Error && error.name === 'WorkflowNotFoundError') return null;
      throw error;
    }
  }
}

/** A local service with short times for the tests of a file; it starts before them and ends after them. */
export function useLocal(options: Partial<LocalOptions> = {}): LocalService {
  const service = new LocalService(options);
  beforeAll(() => service.start(), START_MS);
  afterAll(async () => {
    await service.stop();
    await cleanUp();
  }, STOP_MS);
  return service;
}

/** What a generation's own row says. */
export interface GenerationColumns {
  id: string;
  status: string;
  stop_reason: string | null;
  pause: number;
  step_count: number;
  run_seen_at: Date | null;
  error: { code: string; message: string } | null;
}

/** Runs of one project and what is known of them: at the model server, in the database and over HTTP. */
export class Runs {
  private models = 0;

  constructor(
    readonly service: LocalService,
    readonly space: Workspace,
  ) {}

  at(path: string): string {
    return `${this.space.at}${path}`;
  }

  /** A model of its own with these replies, and an agent that asks it. */
  async agent(replies: object[], given: object = {}): Promise<{ id: string; model: string }> {
    this.models += 1;
    const model = `${this.space.model}-${String(this.models)}`;
    if (replies.length > 0) this.service.modelServer.script(model, replies);
    return { id: (await buildAgent(this.space, { model, ...given })).id, model };
  }

  /** Starts a run in the background and answers its id. */
  async begin(agentId: string, more: object = {}): Promise<string> {
    const reply = await this.space.api.post(this.at(`/agents/${agentId}/generate`), saying('go', more));
    expect(reply.status).toBe(202);
    return reply.body.id as string;
  }

  outputs(agentId: string, id: string, callId: string, more: object = {}): Promise<Reply> {
    const body = { tool_outputs: [{ tool_call_id: callId, output: { ok: true } }], ...more };
    return this.space.api.post(this.at(`/agents/${agentId}/generate/${id}/tool-outputs`), body);
  }

  /** The record as it is read over HTTP, once the run has reached that status. */
  async reached(id: string, status: string, timeoutMs = 20_000): Promise<Reply['body']> {
    return eventually(
      async () => {
        const { body } = await this.space.api.get(this.at(`/generations/${id}`));
        if (body.status !== status) throw new Error(`${id} is ${JSON.stringify(body)}`);
        return body;
      },
      { timeoutMs },
    );
  }

  async transcript(id: string): Promise<Reply['body']> {
    return (await this.space.api.get(this.at(`/generations/${id}/transcript`))).body;
  }

  row(id: string): Promise<GenerationColumns> {
    return this.service.row('select * from generations where id = $1', [id]);
  }

  /** Numbers of the steps whose answer is committed. */
  async storedSteps(id: string): Promise<number[]> {
    const rows = await this.service.rows<{ step: number }>(
      'select step from generation_steps where generation_id = $1 and stored_at is not null order by step',
      [id],
    );
    return rows.map(({ step }) => step);
  }

  /** Model calls of a run, in the order in which they came. */
  calls(id: string): ModelCall[] {
    return this.service.modelServer.calls({ generationId: id });
  }
}
