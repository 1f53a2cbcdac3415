import { execFile } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { keptSecret, logFile } from './folders';
import type { EngineSpec } from './guard-messages';
import { choosePlace, passwordFile } from './postgres-place';
import type { PlaceOptions, PostgresPlace } from './postgres-place';
import { commandOf, startTimeOf, waitUntil } from './processes';

export interface PostgresOptions extends PlaceOptions {
  /** Off only where the data may be lost, as in tests. */
  fsync: boolean;
  /** How long another server may still hold the cluster; 30 s when left out. */
  lockWaitMs?: number | undefined;
}

/** Another server holds the cluster, and goes on doing so: trying again is of no use. */
export class ClusterHeld extends Error {}

/** A cluster that exists, ready to be started on a port. */
export interface PreparedPostgres {
  /** Folders outside the data folder that hold the cluster or its binaries. */
  outside: string[];
  urlAt(port: number, database: string): string;
  specAt(port: number): EngineSpec;
  /** Waits until no other server holds the cluster. @throws ClusterHeld when one does for too long */
  unlock(): Promise<void>;
}

const USER = 'postgres';
const MAJOR = '18';
/** Longer than an orderly stop takes: the server of a run that was just killed may be in the midst of one. */
const LOCK_WAIT_MS = 30_000;
const INITDB_MS = 120_000;

async function initdb({ binaries, user }: PostgresPlace, args: string[]): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const options = { cwd: '/', timeout: INITDB_MS, env: { ...process.env, LC_ALL: 'C' }, ...user };
    execFile(binaries.initdb, args, options, (error, out, errorOut) => {
      if (error === null) resolve();
      else reject(new Error(`PostgreSQL could not make its cluster: ${`${errorOut}${out}`.trim() || error.message}`));
    });
  });
}

/** Made under another name and renamed when whole, so that an end in between leaves no half cluster. */
async function createCluster(place: PostgresPlace, password: string, fsync: boolean): Promise<void> {
  const work = mkdtempSync(join(place.parent, 'postgres-new-'));
  const pwfile = join(work, 'password');
  const cluster = join(work, 'cluster');
  try {
    writeFileSync(pwfile, `${password}\n`, { mode: 0o600 });
    mkdirSync(cluster, { mode: 0o700 });
    if (place.user !== undefined)
      for (const path of [work, pwfile, cluster]) chownSync(path, place.user.uid, place.user.gid);
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
    const access = ['--auth=scram-sha-256', `--username=${USER}`, `--pwfile=${pwfile}`];
    await initdb(place, [`--pgdata=${cluster}`, ...access, ...locale, ...(fsync ? [] : ['--no-sync'])]);
    renameSync(cluster, place.cluster);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function checkVersion(cluster: string): void {
  const version = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (version === MAJOR) return;
  throw new Error(`${cluster} was made by PostgreSQL ${version}; this is ${MAJOR}. Remove it, or set DATABASE_URL.`);
}

function lockHolder(cluster: string): number | null {
  try {
    const pid = Number(readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')[0]);
    return Number.isInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

/** Running processes that work in the cluster: a server's children stay a moment after it, and still write. */
function workersIn(cluster: string): number[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return readlinkSync(`/proc/${String(pid)}/cwd`) === cluster;
    } catch {
      // Gone, or somebody else's: ours can be read. A zombie has no folder either.
      return false;
    }
  });
}

async function isHeld(cluster: string): Promise<boolean> {
  if (workersIn(cluster).length > 0) return true;
  // Some containers hide the folders of other users' processes even from root; the server's command line is open to all.
  const pid = lockHolder(cluster);
  return pid !== null && (await startTimeOf(pid)) !== null && (await commandOf(pid)).includes(cluster);
}

/** True when the number in the lock file is a zombie's, or another program's by now. */
async function isStale(cluster: string): Promise<boolean> {
  const pid = lockHolder(cluster);
  if (pid === null) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // Not there at all: PostgreSQL sees that itself, and checks for left-over shared memory before it goes on.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  return !(await isHeld(cluster));
}

/**
 * PostgreSQL removes the lock file of a dead server itself, but takes a zombie's, or one whose number another process of the
 * same user got since, for a living one.
 */
async function unlock(cluster: string, { log, lockWaitMs = LOCK_WAIT_MS }: PostgresOptions): Promise<void> {
  if (await isHeld(cluster)) {
    log(`Waiting for the PostgreSQL that holds ${cluster}.`);
    if (!(await waitUntil(async () => !(await isHeld(cluster)), lockWaitMs))) {
      throw new ClusterHeld(`Another PostgreSQL (process ${String(lockHolder(cluster))}) holds ${cluster}.`);
    }
  }
  if (await isStale(cluster)) rmSync(join(cluster, 'postmaster.pid'), { force: true });
}

function serverArgs(cluster: string, port: number, fsync: boolean): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    // A socket file would need a folder with a short path, and everything here speaks TCP.
    unix_socket_directories: '',
    max_connections: '300',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...(fsync ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
  };
  return ['-D', cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/**
 * Makes the cluster in the data folder when there is none. Only 127.0.0.1 can reach its server, with a random password that is
 * kept beside it. Repeating is safe: an existing cluster is used as it is.
 */
export async function preparePostgres(options: PostgresOptions): Promise<PreparedPostgres> {
  const { dataDir, fsync } = options;
  const place = await choosePlace(options);
  const exists = existsSync(place.cluster);
  if (exists && !existsSync(passwordFile(dataDir))) {
    throw new Error(`${passwordFile(dataDir)} is missing: put it back, or remove ${place.cluster} to begin anew.`);
  }
  const password = keptSecret(passwordFile(dataDir), 24);
  if (!exists) await createCluster(place, password, fsync);
  checkVersion(place.cluster);
  return {
    outside: place.outside,
    urlAt: (port, database) => `postgres://${USER}:${password}@127.0.0.1:${String(port)}/${database}`,
    specAt: (port) => ({
      name: 'postgres',
      command: place.binaries.postgres,
      args: serverArgs(place.cluster, port, fsync),
      logFile: logFile(dataDir, 'postgres'),
      ...(place.user === undefined ? {} : { user: place.user }),
      order: 1,
      // Fast shutdown, then the immediate one, which recovers at the next start.
      stop: [
        { signal: 'SIGINT', graceMs: 15_000 },
        { signal: 'SIGQUIT', graceMs: 5_000 },
      ],
    }),
    unlock: async () => {
      await unlock(place.cluster, options);
    },
  };
}

/** True when the server at `url` answers a query. */
export async function answersQueries(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Makes a database when there is none of this name. Repeating is safe. */
export async function ensureDatabase(adminUrl: string, name: string): Promise<void> {
  const client = new Client({ connectionString: adminUrl, connectionTimeoutMillis: 5_000 });
  await client.connect();
  try {
    const found = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (found.rowCount === 0) await client.query(`create database ${client.escapeIdentifier(name)}`);
  } finally {
    await client.end();
  }
}
