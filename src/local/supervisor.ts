import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { startEngines } from './engines';
import type { EngineName, EngineOptions, EngineProcess, Engines } from './engines';
import { logFile, openDataDir } from './folders';
import { choosePorts, firstApiPort, keptPort, localDefaults, refuseOpenAddresses, setting } from './local-settings';
import type { Environment, ServicePorts } from './local-settings';
import { Mailbox } from './mailbox';
import type { Mail } from './mailbox';
import { freePorts } from './ports';
import { startModelServer } from './model-server';
import type { ModelServer } from './model-server';
import { Restarts } from './restarts';
import { holdDataDir } from './run-file';
import type { RunFile, RunProcess } from './run-file';
import { ServiceChild } from './service-child';
import type { ServiceKind } from './service-child';

export interface LocalOptions {
  dataDir: string;
  /** Where the first API listens; PORT of the environment, else 3000, when left out. 0 takes a free port. */
  port?: number | undefined;
  /** Laid over the environment of this process. */
  env?: Environment | undefined;
  apis?: number | undefined;
  workers?: number | undefined;
  /** Starts a crashed process or engine again; on unless false. */
  restartCrashed?: boolean | undefined;
  /** Prints nothing. */
  quiet?: boolean | undefined;
  /** Other programs than the built API and worker. */
  children?: Partial<Record<ServiceKind, string>> | undefined;
  /** Gives the start up, or stops what was started. */
  signal?: AbortSignal | undefined;
  /** Passed to the engines: see there. */
  engines?: Pick<EngineOptions, 'search' | 'fsync' | 'inMemory' | 'temporary'> | undefined;
}

export interface Local {
  /** Of the first API; `baseUrls` has them all, those that were started later too. */
  baseUrl: string;
  readonly baseUrls: string[];
  databaseUrl: string;
  temporalAddress: string;
  temporalUiUrl: string | null;
  /** Where each API and worker that runs shows its metrics. */
  metrics(): { name: string; url: string }[];
  modelServerUrl: string;
  modelServer: ModelServer;
  engines: Pick<Engines, 'restart' | 'kill'>;
  /** The folder with the output of every process. */
  logs: string;
  /** Mails to an address, newest first. */
  mailbox(to: string): Mail[];
  /** What runs now, as `run.json` has it. */
  processes(): RunProcess[];
  /** Sends a signal to one API or worker; what it ends is not started again by itself. */
  kill(kind: ServiceKind, index: number, signal: NodeJS.Signals): void;
  /** Starts the first API or worker that does not run, or one more, and gives its index. */
  start(kind: ServiceKind): Promise<number>;
  /** Ends APIs, workers, Temporal and PostgreSQL, in this order, and gives the folder back. Repeating is safe. */
  stop(): Promise<void>;
}

/** A worker may drain for minutes in production; whoever waits at a terminal is not made to wait longer than this. */
const DRAIN_MAX_SECONDS = 30;
const KINDS: ServiceKind[] = ['api', 'worker'];

interface Context {
  dataDir: string;
  environment: Environment;
  host: string;
  runFile: RunFile;
  log: (line: string) => void;
}

/** One run of everything on one machine. */
class Supervisor {
  private readonly mailbox = new Mailbox();
  private readonly restarts: Restarts;
  private readonly services: Record<ServiceKind, ServiceChild[]> = { api: [], worker: [] };
  private engineProcesses: EngineProcess[] = [];
  private engines: Engines | undefined;
  private modelServer: ModelServer | undefined;
  private publicBaseUrl = '';
  private stopped: Promise<void> | undefined;

  constructor(
    private readonly options: LocalOptions,
    private readonly context: Context,
  ) {
    this.restarts = new Restarts(context.log);
  }

  async start(): Promise<Local> {
    const { apis = 1, workers = 1, port } = this.options;
    const { dataDir, environment, host } = this.context;
    // A taken port is refused before the engines start; free ones are chosen after that, as a port may be lost in those seconds.
    if (apis > 0) await firstApiPort(environment, { host, port });
    const engines = await this.startEngines();
    const ports = await choosePorts(environment, { host, port, apis, workers });
    this.publicBaseUrl = setting(environment, 'PUBLIC_BASE_URL') ?? `http://localhost:${String(ports[0]?.port ?? 0)}`;
    this.goOn();
    const modelServer = await startModelServer({ port: await keptPort(dataDir, 'model-server') });
    this.modelServer = modelServer;
    const children = ports.map((given, index) => this.addService(index < apis ? 'api' : 'worker', given));
    this.goOn();
    const starts = await Promise.allSettled(children.map((child) => child.start()));
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
    this.goOn();
    return this.handle(engines, modelServer);
  }

  /** Each call goes through everything: one that came in the midst of a start could not see what the start made after it. */
  async stop(): Promise<void> {
    this.stopped = (this.stopped ?? Promise.resolve()).then(async () => {
      await this.stopAll();
    });
    await this.stopped;
  }

  private goOn(): void {
    if (this.stopped !== undefined) throw new Error('The start was given up.');
  }

  private async stopAll(): Promise<void> {
    this.restarts.close();
    const drain = Number(setting(this.context.environment, 'DRAIN_SECONDS') ?? DRAIN_MAX_SECONDS);
    const graceMs = (Math.min(Number.isFinite(drain) ? drain : DRAIN_MAX_SECONDS, DRAIN_MAX_SECONDS) + 5) * 1000;
    for (const kind of KINDS) await Promise.all(this.services[kind].map((child) => child.stop(graceMs)));
    await this.modelServer?.close();
    this.modelServer = undefined;
    await this.engines?.stop();
    await this.context.runFile.release();
  }

  private async startEngines(): Promise<Engines> {
    const { environment, dataDir, log } = this.context;
    const namespace = setting(environment, 'TEMPORAL_NAMESPACE');
    const engines = await startEngines({
      ...this.options.engines,
      dataDir,
      log,
      databaseUrl: setting(environment, 'DATABASE_URL'),
      temporalAddress: setting(environment, 'TEMPORAL_ADDRESS'),
      temporalCli: setting(environment, 'TEMPORAL_CLI'),
      namespaces: namespace === undefined ? [] : [namespace],
      onChange: (children) => {
        this.engineProcesses = children;
        this.record();
      },
      onExit: ({ name, code, signal }) => {
        this.onCrash(name, signal ?? `status ${String(code)}`, async () => {
          await this.engines?.restart(name as EngineName);
        });
      },
    });
    this.engines = engines;
    return engines;
  }

  private onCrash(name: string, reason: string, start: () => Promise<void>): void {
    if (this.stopped !== undefined) return;
    if (this.options.restartCrashed === false) this.context.log(`${name} ended (${reason}).`);
    else void this.restarts.bringBack(name, reason, start);
  }

  private processes(): RunProcess[] {
    const children = KINDS.flatMap((kind) => this.services[kind]);
    const services = children.flatMap(({ identity, options }) =>
      identity === undefined ? [] : [{ name: options.name, ...identity }],
    );
    return [...services, ...this.engineProcesses];
  }

  private record(): void {
    // At the end the list only shrinks, and the file goes with the last of them.
    if (this.stopped === undefined) this.context.runFile.record(this.processes());
  }

  private addService(kind: ServiceKind, ports: ServicePorts): ServiceChild {
    const name = `${kind}-${String(this.services[kind].length)}`;
    const child: ServiceChild = new ServiceChild({
      name,
      program: this.program(kind),
      environment: this.environmentOf(ports),
      logFile: logFile(this.context.dataDir, name),
      baseUrl: ports.port === null ? null : this.urlOf(ports.port),
      mailbox: this.mailbox,
      onChange: () => {
        this.record();
      },
      onCrash: (reason) => {
        this.onCrash(name, reason, async () => {
          await child.start();
        });
      },
    });
    this.services[kind].push(child);
    return child;
  }

  private program(kind: ServiceKind): string {
    const built = kind === 'api' ? 'api/server.js' : 'worker.js';
    const program = this.options.children?.[kind] ?? join(__dirname, '..', built);
    if (!existsSync(program)) throw new Error(`${program} is missing: run \`npm run build\` first.`);
    return program;
  }

  private urlOf(port: number): string {
    const { host } = this.context;
    return `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${String(port)}`;
  }

  private environmentOf({ port, metricsPort }: ServicePorts): Environment {
    const { environment, dataDir, host } = this.context;
    return {
      ...localDefaults(dataDir),
      TEMPORAL_UI_URL: this.engines?.temporalUiUrl ?? undefined,
      ...environment,
      DATABASE_URL: this.engines?.databaseUrl,
      TEMPORAL_ADDRESS: this.engines?.temporalAddress,
      DATA_DIR: dataDir,
      HOST: host,
      ...(port === null ? {} : { PORT: String(port) }),
      METRICS_PORT: String(metricsPort),
      PUBLIC_BASE_URL: this.publicBaseUrl,
    };
  }

  private service(kind: ServiceKind, index: number): ServiceChild {
    const child = this.services[kind][index];
    if (child === undefined) throw new Error(`There is no ${kind} ${String(index)}.`);
    return child;
  }

  private async startOne(kind: ServiceKind): Promise<number> {
    this.goOn();
    const children = this.services[kind];
    const child = children.find(({ identity }) => identity === undefined) ?? (await this.addOne(kind));
    await child.start();
    return children.indexOf(child);
  }

  private async addOne(kind: ServiceKind): Promise<ServiceChild> {
    const [port = 0, metricsPort = 0] = await freePorts(2);
    return this.addService(kind, { port: kind === 'api' ? port : null, metricsPort });
  }

  private metricsUrls(): { name: string; url: string }[] {
    const host = setting(this.context.environment, 'METRICS_HOST') ?? '127.0.0.1';
    return KINDS.flatMap((kind) => this.services[kind]).flatMap(({ identity, metricsPort, options: { name } }) =>
      identity === undefined || metricsPort === undefined
        ? []
        : [{ name, url: `http://${host}:${String(metricsPort)}/metrics` }],
    );
  }

  private handle(engines: Engines, modelServer: ModelServer): Local {
    const urls = (): string[] => this.services.api.map(({ options }) => options.baseUrl ?? '');
    return {
      baseUrl: urls()[0] ?? '',
      get baseUrls() {
        return urls();
      },
      databaseUrl: engines.databaseUrl,
      temporalAddress: engines.temporalAddress,
      temporalUiUrl: engines.temporalUiUrl,
      metrics: () => this.metricsUrls(),
      modelServerUrl: modelServer.url,
      modelServer,
      engines,
      logs: join(this.context.dataDir, 'logs'),
      mailbox: (to) => this.mailbox.read(to),
      processes: () => this.processes(),
      kill: (kind, index, signal) => {
        this.service(kind, index).kill(signal);
      },
      start: async (kind) => await this.startOne(kind),
      stop: async () => {
        await this.stop();
      },
    };
  }
}

/**
 * Starts the engines, the local model server, the mailbox, APIs and workers on this machine, and resolves when all of them
 * answer. What an earlier, killed run left behind in the data folder is ended first.
 * @throws DataDirInUse when another run holds the folder
 * @throws LocalSettingError for a setting that local mode refuses
 */
export async function startLocal(options: LocalOptions): Promise<Local> {
  const environment: Environment = { ...process.env, ...options.env };
  refuseOpenAddresses(environment);
  const log = (line: string): void => {
    if (options.quiet !== true) process.stdout.write(`${line}\n`);
  };
  const dataDir = openDataDir(options.dataDir);
  const runFile = await holdDataDir(dataDir, log);
  const host = setting(environment, 'HOST') ?? '127.0.0.1';
  const supervisor = new Supervisor(options, { dataDir, environment, host, runFile, log });
  const onAbort = (): void => void supervisor.stop();
  options.signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await supervisor.start();
  } catch (error) {
    await supervisor.stop();
    throw error;
  }
}
