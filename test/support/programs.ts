import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRunning, waitUntil } from '../../src/local/processes';
import type { ProcessIdentity } from '../../src/local/processes';

/** A program that a test runs as a process of its own. */
export interface Program {
  child: ChildProcess;
  /** Everything it printed. */
  output(): string;
  /** The first line that is a JSON object; rejects with the output when the program ends without one. */
  answer<T>(): Promise<T>;
  /** Its exit status, null when a signal ended it. */
  ended: Promise<number | null>;
}

export interface ProgramOptions {
  env?: Record<string, string>;
  /** Arguments of a built program. */
  args?: string[];
  uid?: number;
  gid?: number;
}

const ANSWER_MS = 60_000;
const programs: ChildProcess[] = [];
const folders: string[] = [];

/** Runs a fixture with one JSON argument. */
export function runFixture(name: string, argument: unknown, options: ProgramOptions = {}): Program {
  return runProgram([join(__dirname, 'fixtures', name), JSON.stringify(argument)], options);
}

/** Runs a built program, named by its path in `dist`. */
export function runBuilt(name: string, options: ProgramOptions = {}): Program {
  return runProgram([join(__dirname, '..', '..', 'dist', name)], options);
}

function runProgram(command: string[], { env = {}, args = [], ...options }: ProgramOptions): Program {
  // The runner's own setting would make the programs believe that they are tests.
  const { NODE_ENV: _unset, ...environment } = process.env;
  const child = spawn(process.execPath, [...command, ...args], {
    env: { ...environment, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: '/',
    ...options,
  });
  programs.push(child);
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', resolve);
  });
  const found = (): string | undefined => output.split('\n').find((line) => line.startsWith('{') && line.endsWith('}'));
  return {
    child,
    output: () => output,
    ended,
    answer: async <T>() => {
      await waitUntil(() => found() !== undefined || child.exitCode !== null || child.signalCode !== null, ANSWER_MS);
      const line = found();
      if (line === undefined) throw new Error(`The program gave no answer:\n${output}`);
      return JSON.parse(line) as T;
    },
  };
}

/** An empty folder that others may pass, as an ordinary one; it goes with `cleanUp`. */
export function temporaryFolder(mode = 0o755): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-e2e-'));
  chmodSync(folder, mode);
  folders.push(folder);
  return folder;
}

/** Marks a folder that a program made for removal. */
export function removeLater(folder: string): void {
  folders.push(folder);
}

export async function allEnded(processes: ProcessIdentity[], timeoutMs = 20_000): Promise<boolean> {
  return await waitUntil(async () => {
    const running = await Promise.all(processes.map(isRunning));
    return !running.some(Boolean);
  }, timeoutMs);
}

/** Ends every program of this file's tests, and removes the folders. */
export async function cleanUp(): Promise<void> {
  const running = programs.splice(0).filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  await Promise.all(
    running.map(
      (child) =>
        new Promise((resolve) => {
          child.once('exit', resolve);
          child.kill('SIGTERM');
          setTimeout(() => child.kill('SIGKILL'), 20_000).unref();
        }),
    ),
  );
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}
