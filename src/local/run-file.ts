import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { endProcess, isRunning, startTimeOf, waitUntil } from './processes';
import type { ProcessIdentity } from './processes';

/** A process of a run, as `run.json` names it. */
export interface RunProcess extends ProcessIdentity {
  name: string;
}

/** Hold of a data folder, from the start of a run to its end. */
export interface RunFile {
  /** Writes the processes of the run down; each call replaces the list. */
  record(processes: RunProcess[]): void;
  /** Gives the folder back: the record goes, the socket closes. */
  release(): Promise<void>;
}

/** Another run holds the data folder. */
export class DataDirInUse extends Error {}

interface Greeting extends ProcessIdentity {
  port?: number;
}

/** The shortest limit of the paths of socket files is 104 bytes. */
const SOCKET_PATH_BYTES_MAX = 100;
const GREETING_MS = 2_000;
const MUTEX_MS = 10_000;
/** How a process of an earlier run is asked to end, and how long it has. The guard ends its engines in order itself. */
const ENDINGS: { name: RegExp; signal: NodeJS.Signals; graceMs: number }[] = [
  { name: /^api/, signal: 'SIGTERM', graceMs: 5_000 },
  { name: /^worker/, signal: 'SIGTERM', graceMs: 5_000 },
  { name: /^guard$/, signal: 'SIGTERM', graceMs: 40_000 },
  { name: /^temporal$/, signal: 'SIGTERM', graceMs: 10_000 },
  { name: /^postgres$/, signal: 'SIGINT', graceMs: 20_000 },
];

const paths = (dataDir: string): { record: string; socket: string; port: string; mutex: string } => ({
  record: join(dataDir, 'run.json'),
  socket: join(dataDir, 'run.sock'),
  port: join(dataDir, 'run.port'),
  mutex: join(dataDir, 'run.starting'),
});

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return null;
  }
}

function writeWhole(file: string, value: unknown): void {
  const unfinished = `${file}.${String(process.pid)}`;
  writeFileSync(unfinished, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  renameSync(unfinished, file);
}

function isIdentity(value: unknown): value is ProcessIdentity {
  if (typeof value !== 'object' || value === null) return false;
  return 'pid' in value && Number.isInteger(value.pid) && 'startTime' in value && typeof value.startTime === 'string';
}

async function self(): Promise<ProcessIdentity> {
  return { pid: process.pid, startTime: (await startTimeOf(process.pid)) ?? '' };
}

/** Between the look at the socket and the opening of one's own no other start may come. */
async function withMutex<T>(file: string, work: () => Promise<T>): Promise<T> {
  const me = JSON.stringify(await self());
  const taken = await waitUntil(async () => {
    try {
      writeFileSync(file, me, { flag: 'wx', mode: 0o600 });
      return true;
    } catch {
      const holder = readJson(file);
      if (!isIdentity(holder) || !(await isRunning(holder))) rmSync(file, { force: true });
      return false;
    }
  }, MUTEX_MS);
  if (!taken) throw new DataDirInUse(`Another start in this folder does not come to an end: see ${file}.`);
  try {
    return await work();
  } finally {
    rmSync(file, { force: true });
  }
}

/** What the other end says of itself; null when nobody listens, an empty greeting when it does but says nothing in time. */
async function greetingAt(
  target: { path: string } | { port: number; host: string },
): Promise<Partial<Greeting> | null> {
  return await new Promise((resolve) => {
    let text = '';
    const socket: Socket = connect(target);
    const finish = (greeting: Partial<Greeting> | null): void => {
      socket.destroy();
      resolve(greeting);
    };
    socket.setTimeout(GREETING_MS, () => {
      finish({});
    });
    socket.on('data', (chunk) => {
      text += chunk.toString('utf8');
      if (text.length > 1_000) finish({});
    });
    socket.on('end', () => {
      try {
        finish(JSON.parse(text) as Partial<Greeting>);
      } catch {
        finish({});
      }
    });
    socket.on('error', () => {
      finish(null);
    });
  });
}

/** The process number of the run that holds the folder, 0 when it does not say; null when no run does. */
async function holderOf(dataDir: string): Promise<number | null> {
  const { socket, port } = paths(dataDir);
  if (Buffer.byteLength(socket) <= SOCKET_PATH_BYTES_MAX) {
    const greeting = await greetingAt({ path: socket });
    return greeting === null ? null : (greeting.pid ?? 0);
  }
  const noted = readJson(port) as Greeting | null;
  if (!isIdentity(noted) || noted.port === undefined) return null;
  const greeting = await greetingAt({ port: noted.port, host: '127.0.0.1' });
  // A port may have passed to another program, which greets otherwise or not at all.
  return greeting?.pid === noted.pid && greeting.startTime === noted.startTime ? noted.pid : null;
}

async function openSocket(dataDir: string): Promise<Server> {
  const { socket, port } = paths(dataDir);
  const me = await self();
  const server = createServer((client) => {
    client.on('error', () => undefined);
    client.end(JSON.stringify(me));
  });
  const byPath = Buffer.byteLength(socket) <= SOCKET_PATH_BYTES_MAX;
  if (byPath) rmSync(socket, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    if (byPath) server.listen(socket, resolve);
    else server.listen(0, '127.0.0.1', resolve);
  });
  if (!byPath) writeWhole(port, { ...me, port: (server.address() as AddressInfo).port });
  // It lives as long as the run; it does not make the run live.
  server.unref();
  return server;
}

function recorded(file: string): RunProcess[] {
  const record = readJson(file) as { processes?: unknown } | null;
  if (!Array.isArray(record?.processes)) return [];
  return (record.processes as unknown[]).filter(
    (entry): entry is RunProcess => isIdentity(entry) && 'name' in entry && typeof entry.name === 'string',
  );
}

/** Ends what an earlier run wrote down and could not end itself: exactly the processes whose start time still matches. */
async function endEarlierRun(file: string, log: (line: string) => void): Promise<void> {
  const processes = recorded(file);
  for (const { name, signal, graceMs } of ENDINGS) {
    const ours = processes.filter((entry) => name.test(entry.name));
    await Promise.all(
      ours.map(async (entry) => {
        if (!(await isRunning(entry))) return;
        log(`Ending ${entry.name} (process ${String(entry.pid)}) of an earlier run.`);
        if (!(await endProcess(entry, { signal, graceMs }))) {
          throw new Error(`${entry.name} (process ${String(entry.pid)}) of an earlier run does not end.`);
        }
      }),
    );
  }
  rmSync(file, { force: true });
}

/**
 * Takes hold of a data folder. A socket stays open in it while this process lives, which tells a later start that the folder
 * is in use; what an earlier, killed run left running is ended first.
 * @throws DataDirInUse when another run holds the folder
 */
export async function holdDataDir(dataDir: string, log: (line: string) => void): Promise<RunFile> {
  const { record, socket, port, mutex } = paths(dataDir);
  const server = await withMutex(mutex, async () => {
    const holder = await holderOf(dataDir);
    if (holder !== null) {
      const who = holder === 0 ? '' : ` (process ${String(holder)})`;
      throw new DataDirInUse(
        `${dataDir} is in use by another run${who}: stop that one, or set DATA_DIR to another folder.`,
      );
    }
    return await openSocket(dataDir);
  });
  let isReleased = false;
  const release = async (): Promise<void> => {
    // A second call must not take the files of a run that came after.
    if (isReleased) return;
    isReleased = true;
    await new Promise((resolve) => server.close(resolve));
    for (const file of [record, socket, port]) rmSync(file, { force: true });
  };
  try {
    await endEarlierRun(record, log);
  } catch (error) {
    // The record stays: the next start tries again.
    await new Promise((resolve) => server.close(resolve));
    throw error;
  }
  const supervisor = { name: 'supervisor', ...(await self()) };
  return {
    record: (processes) => {
      writeWhole(record, { supervisor, processes });
    },
    release,
  };
}
