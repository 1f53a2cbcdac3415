import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDataDir } from './folders';
import { startGuard } from './guard-client';
import type { EngineExit, Guard } from './guard-client';
import type { EngineSpec } from './guard-messages';
import { freePort, freePorts } from './ports';
import { answersQueries, ClusterHeld, ensureDatabase, preparePostgres } from './postgres';
import { sendSignal } from './processes';
import type { ProcessIdentity } from './processes';
import { findTemporalCli, userCache } from './temporal-cli';
import type { CliSearch } from './temporal-cli';
import { isServing, temporalSpec } from './temporal-server';

export type EngineName = 'postgres' | 'temporal';

export interface EngineProcess extends ProcessIdentity {
  name: EngineName | 'guard';
}

export interface EngineOptions {
  dataDir: string;
  /** A PostgreSQL to use instead of the embedded one; an empty value counts as none. */
  databaseUrl?: string | undefined;
  /** A Temporal server to use instead of a local one; an empty value counts as none. */
  temporalAddress?: string | undefined;
  /** Path of the Temporal CLI. */
  temporalCli?: string | undefined;
  /** Temporal namespaces made beside `default`. */
  namespaces?: string[] | undefined;
  /** Temporal keeps nothing on disk. */
  inMemory?: boolean | undefined;
  /** Off only where the database may be lost. */
  fsync?: boolean | undefined;
  /** How long another server may still hold the database; 30 s when left out. */
  lockWaitMs?: number | undefined;
  /** Temporal's UI; on unless false. */
  ui?: boolean | undefined;
  /** The data folder, and all that stands in for it elsewhere, goes when the engines end, also after a kill. */
  temporary?: boolean | undefined;
  log: (line: string) => void;
  /** Told when a process started or ended, so that `children` can be written down. */
  onChange?: ((children: EngineProcess[]) => void) | undefined;
  /** Told when an engine ended that nobody stopped. */
  onExit?: ((exit: EngineExit) => void) | undefined;
  /** Replaces parts of the search for the Temporal CLI and the packaged PostgreSQL: used where they come from elsewhere. */
  search?: Partial<Pick<CliSearch, 'cacheFolders' | 'commandPath' | 'sources' | 'sums'>> & {
    postgresBinaries?: string;
  };
}

export interface Engines {
  databaseUrl: string;
  temporalAddress: string;
  /** Null when the server is not ours, or has no UI. */
  temporalUiUrl: string | null;
  readonly children: EngineProcess[];
  /** Ends Temporal, then PostgreSQL, then their guard. Repeating is safe. */
  stop(): Promise<void>;
  /** Stops an engine when it runs, starts it anew on the same port and data, and waits until it answers. */
  restart(name: EngineName): Promise<void>;
  kill(name: EngineName, signal: NodeJS.Signals): void;
}

/** One engine that this process started. */
interface Running {
  spec: EngineSpec;
  isReady(): Promise<boolean>;
  prepare(): Promise<void>;
}

const READY_MS = 60_000;
const POLL_MS = 50;
const TRIES = 4;

/** The engines of one start: what runs, and what was asked to end. */
class EngineSet {
  private readonly running = new Map<EngineName, Running>();
  private readonly processes = new Map<EngineName, ProcessIdentity>();
  private readonly stopping = new Set<EngineName>();
  private guard: Promise<Guard> | undefined;
  private guardIdentity: ProcessIdentity | undefined;

  constructor(private readonly options: EngineOptions) {}

  get children(): EngineProcess[] {
    const engines = [...this.processes].map(([name, identity]) => ({ name, ...identity }));
    return this.guardIdentity === undefined ? engines : [{ name: 'guard' as const, ...this.guardIdentity }, ...engines];
  }

  async removeAtEnd(paths: string[]): Promise<void> {
    await (await this.theGuard()).removeAtEnd(paths);
  }

  /** Starts an engine; `build` is called anew for each try, since a port that was free may be taken by then. */
  async launch(name: EngineName, build: () => Promise<Running>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const engine = await build();
      try {
        await this.begin(name, engine);
        this.running.set(name, engine);
        return;
      } catch (error) {
        if (attempt >= TRIES || error instanceof ClusterHeld) throw error;
      }
    }
  }

  async restart(name: EngineName): Promise<void> {
    const engine = this.running.get(name);
    if (engine === undefined) throw new Error(`${name} is not run by this process.`);
    this.stopping.add(name);
    try {
      await (await this.theGuard()).stop(name);
    } finally {
      this.stopping.delete(name);
    }
    for (let attempt = 1; ; attempt++) {
      try {
        await this.begin(name, engine);
        return;
      } catch (error) {
        if (attempt >= TRIES || error instanceof ClusterHeld) throw error;
      }
    }
  }

  kill(name: EngineName, signal: NodeJS.Signals): void {
    const identity = this.processes.get(name);
    if (identity === undefined) throw new Error(`${name} does not run in this process.`);
    // A paused engine has not ended, and its later crash is one.
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') this.stopping.add(name);
    sendSignal(identity.pid, signal);
  }

  async close(): Promise<void> {
    for (const name of this.running.keys()) this.stopping.add(name);
    if (this.guard !== undefined) await (await this.guard).close();
    this.processes.clear();
    this.guardIdentity = undefined;
    this.options.onChange?.(this.children);
  }

  private async theGuard(): Promise<Guard> {
    this.guard ??= startGuard().then((guard) => {
      this.guardIdentity = guard.identity;
      guard.onExit((exit) => {
        this.onEngineExit(exit);
      });
      this.options.onChange?.(this.children);
      return guard;
    });
    return await this.guard;
  }

  private onEngineExit(exit: EngineExit): void {
    const name = exit.name as EngineName;
    if (this.processes.get(name)?.pid === exit.pid) this.processes.delete(name);
    this.options.onChange?.(this.children);
    if (!this.stopping.delete(name) && this.running.has(name)) this.options.onExit?.(exit);
  }

  private async begin(name: EngineName, engine: Running): Promise<void> {
    await engine.prepare();
    const guard = await this.theGuard();
    const identity = await guard.start(engine.spec);
    this.processes.set(name, identity);
    this.options.onChange?.(this.children);
    const end = performance.now() + READY_MS;
    while (!(await engine.isReady())) {
      if (this.processes.get(name) !== identity)
        throw new Error(`${name} ended at its start: see ${engine.spec.logFile}.`);
      if (performance.now() > end) throw new Error(`${name} does not answer: see ${engine.spec.logFile}.`);
      await sleep(POLL_MS);
    }
    if (this.processes.get(name) !== identity)
      throw new Error(`${name} ended at its start: see ${engine.spec.logFile}.`);
  }
}

async function startPostgres(engines: EngineSet, options: EngineOptions, dataDir: string): Promise<string> {
  const { fsync = true, lockWaitMs, log, search } = options;
  const prepared = await preparePostgres({ dataDir, fsync, lockWaitMs, log, binaries: search?.postgresBinaries });
  if (options.temporary === true) await engines.removeAtEnd(prepared.outside);
  let url = '';
  await engines.launch('postgres', async () => {
    const port = await freePort();
    const adminUrl = prepared.urlAt(port, 'postgres');
    url = adminUrl;
    return {
      spec: prepared.specAt(port),
      isReady: async () => await answersQueries(adminUrl),
      prepare: async () => {
        await prepared.unlock();
      },
    };
  });
  await ensureDatabase(url, 'svc');
  return url.replace(/\/postgres$/, '/svc');
}

async function startTemporal(
  engines: EngineSet,
  options: EngineOptions,
  dataDir: string,
): Promise<{ address: string; uiUrl: string | null }> {
  const { inMemory = false, namespaces = [], ui = true, log, search, temporalCli } = options;
  const cacheFolders = [userCache(), join(dataDir, 'cache')];
  const command = await findTemporalCli({ cacheFolders, temporalCli, log, ...search });
  let address = '';
  let uiUrl: string | null = null;
  await engines.launch('temporal', async () => {
    const [port = 0, freeUiPort = 0] = await freePorts(2);
    const uiPort = ui ? freeUiPort : null;
    address = `127.0.0.1:${String(port)}`;
    uiUrl = uiPort === null ? null : `http://127.0.0.1:${String(uiPort)}`;
    const at = address;
    return {
      spec: temporalSpec({ command, dataDir, inMemory, namespaces }, { port, uiPort }),
      isReady: async () => await isServing(command, at),
      prepare: async () => {},
    };
  });
  return { address, uiUrl };
}

const given = (value: string | undefined): string | null => (value === undefined || value === '' ? null : value);

/**
 * Brings up PostgreSQL and Temporal, each from the first source that works, and waits until both answer. What is started here
 * ends with this process, however that ends. The data survives: the next start in the same folder goes on with it.
 * The caller sees to it that only one start uses a data folder at a time.
 * @throws when an engine cannot be had or started; what was started by then is stopped
 */
export async function startEngines(options: EngineOptions): Promise<Engines> {
  const dataDir = openDataDir(options.dataDir);
  mkdirSync(join(dataDir, 'logs'), { recursive: true, mode: 0o700 });
  const engines = new EngineSet(options);
  try {
    if (options.temporary === true) await engines.removeAtEnd([dataDir]);
    const external = given(options.temporalAddress);
    const [databaseUrl, temporal] = await settleBoth(
      given(options.databaseUrl) ?? startPostgres(engines, options, dataDir),
      external === null ? startTemporal(engines, options, dataDir) : { address: external, uiUrl: null },
    );
    return {
      databaseUrl,
      temporalAddress: temporal.address,
      temporalUiUrl: temporal.uiUrl,
      get children() {
        return engines.children;
      },
      stop: async () => {
        await engines.close();
      },
      restart: async (name) => {
        await engines.restart(name);
      },
      kill: (name, signal) => {
        engines.kill(name, signal);
      },
    };
  } catch (error) {
    await engines.close();
    throw error;
  }
}

/** Both at once; a failure is thrown only when neither is in the midst of starting any more. */
async function settleBoth<A, B>(first: A | Promise<A>, second: B | Promise<B>): Promise<[A, B]> {
  const [one, two] = await Promise.allSettled([first, second]);
  if (one.status === 'rejected') throw one.reason;
  if (two.status === 'rejected') throw two.reason;
  return [one.value, two.value];
}
