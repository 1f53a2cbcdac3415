/**
 * The guard: a small program that owns the engines. A child of Node outlives a killed parent, and no engine looks at its parent
 * itself. So the engines are children of this process, which holds a channel to the program that wants them; when the channel
 * closes, in whatever way that program ended, the engines are stopped in order, and nothing is left behind.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { EngineSpec, GuardMessage, GuardRequest } from './guard-messages';
import { startTimeOf } from './processes';
import type { ProcessIdentity } from './processes';

interface Engine {
  spec: EngineSpec;
  child: ChildProcess;
  ended: Promise<void>;
}

const engines = new Map<string, Engine>();
const removeAtEnd: string[] = [];
let ending = false;

function tell(message: GuardMessage): void {
  // The other end may be gone: that is the guard's normal end, and no error.
  if (process.connected) process.send?.(message, () => undefined);
}

async function start(spec: EngineSpec): Promise<ProcessIdentity> {
  if (engines.has(spec.name)) throw new Error(`${spec.name} runs already`);
  const log = openSync(spec.logFile, 'a', 0o600);
  const child = spawn(spec.command, spec.args, {
    // The engine's user may be barred from the caller's folder.
    cwd: '/',
    stdio: ['ignore', log, log],
    env: { ...process.env, LC_ALL: 'C', TZ: 'UTC' },
    ...spec.user,
  });
  closeSync(log);
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      engines.delete(spec.name);
      resolve();
      tell({ type: 'exit', name: spec.name, pid: child.pid ?? 0, code, signal });
    });
    child.once('error', () => {
      engines.delete(spec.name);
      resolve();
    });
  });
  // Known before anything is awaited, so that an end in between stops it too.
  engines.set(spec.name, { spec, child, ended });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  const pid = child.pid ?? 0;
  // Asked before the exit can be reaped by the event loop; an engine that ended at once is reported by its exit.
  return { pid, startTime: (await startTimeOf(pid)) ?? 'ended' };
}

async function stop(name: string): Promise<void> {
  const engine = engines.get(name);
  if (engine === undefined) return;
  for (const { signal, graceMs } of engine.spec.stop) {
    engine.child.kill(signal);
    if (await endedWithin(engine, graceMs)) return;
  }
  engine.child.kill('SIGKILL');
  await endedWithin(engine, 5_000);
}

async function endedWithin({ ended }: Engine, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => {
      resolve(false);
    }, ms);
  });
  const result = await Promise.race([ended.then(() => true), late]);
  clearTimeout(timer);
  return result;
}

async function endAll(): Promise<void> {
  if (ending) return;
  ending = true;
  const inOrder = [...engines.values()].sort((a, b) => b.spec.order - a.spec.order);
  for (const { spec } of inOrder) await stop(spec.name);
  for (const path of removeAtEnd) await rm(path, { recursive: true, force: true }).catch(() => undefined);
  process.exit(0);
}

async function handle(request: GuardRequest): Promise<ProcessIdentity | undefined> {
  if (ending) throw new Error('The guard is ending.');
  if (request.type === 'start') return await start(request.spec);
  if (request.type === 'stop') await stop(request.name);
  else removeAtEnd.push(...request.paths);
  return undefined;
}

// What the engines write is nobody else's to read.
process.umask(0o077);
process.on('message', (request: GuardRequest) => {
  handle(request).then(
    (identity) => {
      tell({ type: 'answer', id: request.id, ...(identity === undefined ? {} : { process: identity }) });
    },
    (error: unknown) => {
      tell({ type: 'answer', id: request.id, error: error instanceof Error ? error.message : String(error) });
    },
  );
});
process.on('disconnect', () => void endAll());
process.on('SIGTERM', () => void endAll());
process.on('SIGINT', () => void endAll());
// A terminal that closes reaches the program that wants the engines, and through it the guard.
process.on('SIGHUP', () => undefined);
