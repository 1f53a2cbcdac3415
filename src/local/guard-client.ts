import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineSpec, GuardMessage, GuardRequest } from './guard-messages';
import { endProcess, startTimeOf } from './processes';
import type { ProcessIdentity } from './processes';

export interface EngineExit {
  name: string;
  pid: number;
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Guard {
  identity: ProcessIdentity;
  start(spec: EngineSpec): Promise<ProcessIdentity>;
  /** Resolves when the engine has ended; at once when it does not run. */
  stop(name: string): Promise<void>;
  /** Folders that go when the engines have ended, however that comes about. */
  removeAtEnd(paths: string[]): Promise<void>;
  onExit(listener: (exit: EngineExit) => void): void;
  /** Stops every engine in order, then the guard itself. Repeating is safe. */
  close(): Promise<void>;
}

/** Longer than all graces of all engines together: see the stop lists of their specs. */
const CLOSE_MS = 60_000;

type Request = GuardRequest extends infer R ? (R extends { id: number } ? Omit<R, 'id'> : never) : never;

interface Pending {
  resolve(identity: ProcessIdentity | undefined): void;
  reject(error: Error): void;
}

function guardProgram(): string {
  // Under a test runner this file is TypeScript; a child process needs the compiled program.
  const beside = join(__dirname, 'guard.js');
  const built = join(__dirname, '..', '..', 'dist', 'local', 'guard.js');
  const program = [beside, built].find((path) => existsSync(path));
  if (program === undefined) throw new Error('dist/local/guard.js is missing: run `npm run build` first.');
  return program;
}

/** Starts the guard program. Its channel is not held against the end of this process: when this process ends, so do the engines. */
export async function startGuard(): Promise<Guard> {
  // Detached: a Ctrl-C in the terminal goes to the supervisor alone, which then stops everything in order.
  const child = fork(guardProgram(), [], {
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    execArgv: [],
  });
  // Only an open question keeps this process alive.
  const settle = (id: number): Pending | undefined => {
    const waiting = pending.get(id);
    pending.delete(id);
    if (pending.size === 0) child.channel?.unref();
    return waiting;
  };
  const pending = new Map<number, Pending>();
  const listeners: ((exit: EngineExit) => void)[] = [];
  let last = 0;
  const gone = new Promise<void>((resolve) => {
    child.once('exit', () => {
      for (const { reject } of pending.values()) reject(new Error('The guard of the engines ended unexpectedly.'));
      pending.clear();
      resolve();
    });
  });
  child.on('message', (message: GuardMessage) => {
    if (message.type === 'exit') {
      for (const listener of listeners) listener(message);
      return;
    }
    const waiting = settle(message.id);
    if (message.error === undefined) waiting?.resolve(message.process);
    else waiting?.reject(new Error(message.error));
  });
  const ask = async (request: Request): Promise<ProcessIdentity | undefined> =>
    await new Promise((resolve, reject) => {
      const id = ++last;
      pending.set(id, { resolve, reject });
      child.channel?.ref();
      child.send({ ...request, id } satisfies GuardRequest, (error) => {
        if (error !== null) settle(id)?.reject(new Error(`The guard of the engines is gone: ${error.message}`));
      });
    });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  const pid = child.pid ?? 0;
  const identity = { pid, startTime: (await startTimeOf(pid)) ?? 'ended' };
  child.unref();
  child.channel?.unref();
  return {
    identity,
    start: async (spec) => {
      const started = await ask({ type: 'start', spec });
      if (started === undefined) throw new Error(`The guard gave no process for ${spec.name}.`);
      return started;
    },
    stop: async (name) => void (await ask({ type: 'stop', name })),
    removeAtEnd: async (paths) => void (await ask({ type: 'remove-at-end', paths })),
    onExit: (listener) => void listeners.push(listener),
    close: async () => {
      if (child.connected) child.disconnect();
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<'late'>((resolve) => {
        timer = setTimeout(() => {
          resolve('late');
        }, CLOSE_MS);
      });
      const result = await Promise.race([gone, late]);
      clearTimeout(timer);
      if (result === 'late') await endProcess(identity, { graceMs: 0 });
    },
  };
}
