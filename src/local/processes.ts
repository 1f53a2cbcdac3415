import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process as it is written to disk: the start time tells it from a later process with the same number. */
export interface ProcessIdentity {
  pid: number;
  startTime: string;
}

const POLL_MS = 25;

function linuxStat(pid: number): { state: string; startTicks: string } | null {
  try {
    const text = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
    // The command stands in parentheses and may hold spaces itself; what follows the last one is regular.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0] ?? '', startTicks: fields[19] ?? '' };
  } catch {
    return null;
  }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
  } catch {
    return '';
  }
}

async function psField(pid: number, field: 'lstart' | 'stat' | 'command'): Promise<string> {
  return await new Promise((resolve) => {
    execFile('ps', ['-o', `${field}=`, '-p', String(pid)], { env: { ...process.env, LC_ALL: 'C' } }, (_error, out) => {
      resolve(out.trim());
    });
  });
}

/** The start time of a process in a form that is only compared; null when there is none, or only its zombie. */
export async function startTimeOf(pid: number): Promise<string | null> {
  if (process.platform === 'linux') {
    const stat = linuxStat(pid);
    return stat === null || stat.state === 'Z' ? null : `${stat.startTicks}@${bootId()}`;
  }
  const state = await psField(pid, 'stat');
  if (state === '' || state.startsWith('Z')) return null;
  return await psField(pid, 'lstart');
}

/** True while exactly this process runs: a zombie, or another process that got its number later, does not count. */
export async function isRunning({ pid, startTime }: ProcessIdentity): Promise<boolean> {
  return (await startTimeOf(pid)) === startTime;
}

/** The command line of a process, empty when it is gone. */
export async function commandOf(pid: number): Promise<string> {
  if (process.platform !== 'linux') return await psField(pid, 'command');
  try {
    return readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8')
      .replaceAll('\0', ' ')
      .trim();
  } catch {
    return '';
  }
}

/** Waits until `check` is true; false when `timeoutMs` passed first. */
export async function waitUntil(check: () => Promise<boolean> | boolean, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    if (await check()) return true;
    if (performance.now() >= end) return false;
    await sleep(POLL_MS);
  }
}

/** Sends a signal; false when the process is gone already. */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

/**
 * Ends a process: first politely, then by SIGKILL after `graceMs`. Does nothing when it no longer runs, so repeating is safe.
 * Returns false when it outlived even SIGKILL by five seconds.
 */
export async function endProcess(
  identity: ProcessIdentity,
  { signal = 'SIGTERM', graceMs }: { signal?: NodeJS.Signals; graceMs: number },
): Promise<boolean> {
  if (!(await isRunning(identity))) return true;
  sendSignal(identity.pid, signal);
  // A paused process does not see any signal but SIGKILL until it goes on.
  sendSignal(identity.pid, 'SIGCONT');
  if (await waitUntil(async () => !(await isRunning(identity)), graceMs)) return true;
  if (await isRunning(identity)) sendSignal(identity.pid, 'SIGKILL');
  return await waitUntil(async () => !(await isRunning(identity)), 5_000);
}
