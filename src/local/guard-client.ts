import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
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
  resolve: (identity: ProcessIdentity | undefined) => void;
  reject: (error: Error) => void;
}

function guardProgram(): string {
  // Under a test runner this file is TypeScript; a child process needs the compiled program.
  const beside = join(__dirname, 'guard.js');
  const built = join(__dirname, '..', '..', 'dist', 'local', 'guard.js');
  const program = [beside, built].find((path) => existsSync(path));
  if (program === undefined) throw new Error('dist/local/guard.js is missing: run `npm run build` first.');
  return program;
}

/** Questions to the guard and their answers. */
class GuardChannel {
  /** Resolves when the guard has ended. */
  readonly gone: Promise<void>;
  private readonly pending = new Map<number, Pending>();
  private readonly listeners: ((exit: EngineExit) => void)[] = [];
  private last = 0;

  constructor(private readonly child: ChildProcess) {
    this.gone = new Promise((resolve) => {
      child.once('exit', () => {
        for (const { reject } of this.pending.values())
          reject(new Error('The guard of the engines ended unexpectedly.'));
        this.pending.clear();
        resolve();
      });
    });
    child.on('message', (message: GuardMessage) => {
      if (message.type === 'exit') for (const listener of this.listeners) listener(message);
      else if (message.error === undefined) this.settle(message.id)?.resolve(message.process);
      else this.settle(message.id)?.reject(new Error(message.error));
    });
  }

  onExit(listener: (exit: EngineExit) => void): void {
    this.listeners.push(listener);
  }

  async ask(request: Request): Promise<ProcessIdentity | undefined> {
    return await new Promise((resolve, reject) => {
      const id = ++this.last;
      this.pending.set(id, { resolve, reject });
      this.child.channel?.ref();
      this.child.send({ ...request, id } satisfies GuardRequest, (error) => {
        if (error !== null) this.settle(id)?.reject(new Error(`The guard of the engines is gone: ${error.message}`));
      });
    });
  }

  /** Only an open question keeps this process alive. */
  private settle(id: number): Pending | undefined {
    const waiting = this.pending.get(id);
    this.pending.delete(id);
    if (this.pending.size === 0) this.child.channel?.unref();
    return waiting;
  }
}

async function close(child: ChildProcess, gone: Promise<void>, identity: ProcessIdentity): Promise<void> {
  if (child.connected) child.disconnect();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), CLOSE_MS);
  });
  const result = await Promise.race([gone, late]);
  clearTimeout(timer);
  if (result === 'late') await endProcess(identity, { graceMs: 0 });
}

/** Starts the guard program. Its channel is not held against the end of this process: when this process ends, so do the engines. */
export async function startGuard(): Promise<Guard> {
  // Detached: a Ctrl-C in the terminal goes to the supervisor alone, which then stops everything in order.
  const child = fork(guardProgram(), [], {
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    execArgv: [],
  });
  const channel = new GuardChannel(child);
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
      const started = await channel.ask({ type: 'start', spec });
      if (started === undefined) throw new Error(`The guard gave no process for ${spec.name}.`);
      return started;
    },
    stop: async (name) => {
      await channel.ask({ type: 'stop', name });
    },
    removeAtEnd: async (paths) => {
      await channel.ask({ type: 'remove-at-end', paths });
    },
    onExit: (listener) => channel.onExit(listener),
    close: async () => {
      await close(child, channel.gone, identity);
    },
  };
}
