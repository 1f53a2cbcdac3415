import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { ChildMessage, SupervisorMessage } from './child-messages';
import type { Environment } from './local-settings';
import type { Mailbox } from './mailbox';
import { endProcess, startTimeOf, waitUntil } from './processes';
import type { ProcessIdentity } from './processes';

export type ServiceKind = 'api' | 'worker';

export interface ServiceOptions {
  name: string;
  /** Path of the compiled program. */
  program: string;
  environment: Environment;
  logFile: string;
  /** Its `/health` is asked after the process said that it is ready; null for a process that serves no HTTP. */
  baseUrl: string | null;
  mailbox: Mailbox;
  /** Told when the process ended though nobody asked it to. */
  onCrash: (reason: string) => void;
  /** Told when a process began or ended. */
  onChange: () => void;
}

const READY_MS = 60_000;
const HEALTH_MS = 2_000;

async function isHealthy(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(HEALTH_MS) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

/** One API or worker process: started, watched, and ended by the supervisor. It can be started again after it ended. */
export class ServiceChild {
  private child: ChildProcess | undefined;
  private current: ProcessIdentity | undefined;
  private isReady = false;
  private isEnding = false;
  private metrics: number | undefined;

  constructor(readonly options: ServiceOptions) {}

  /** The process that runs now; undefined when none does. */
  get identity(): ProcessIdentity | undefined {
    return this.current;
  }

  /** The port of its metrics, once it is ready. */
  get metricsPort(): number | undefined {
    return this.metrics;
  }

  /**
   * Starts the process and waits until it says that it is ready and answers its health check.
   * @throws when it ends, or takes more than a minute
   */
  async start(): Promise<void> {
    if (this.current !== undefined) throw new Error(`${this.options.name} runs already.`);
    const { name, logFile, baseUrl } = this.options;
    this.isReady = false;
    this.isEnding = false;
    const child = this.spawn();
    const pid = child.pid;
    if (pid === undefined) throw new Error(`${name} could not be started.`);
    const identity = { pid, startTime: (await startTimeOf(pid)) ?? 'ended' };
    if (this.child !== child) throw new Error(`${name} ended at its start: see ${logFile}.`);
    this.current = identity;
    this.options.onChange();
    const ready = await waitUntil(async () => {
      if (this.current !== identity) return true;
      return this.isReady && (baseUrl === null || (await isHealthy(`${baseUrl}/health`)));
    }, READY_MS);
    // Read anew: the exit handler may have cleared it meanwhile.
    if (this.identity !== identity) throw new Error(`${name} ended at its start: see ${logFile}.`);
    if (ready) return;
    await this.stop(1_000);
    throw new Error(`${name} was not ready within ${String(READY_MS / 1000)} s: see ${logFile}.`);
  }

  /** Sends a signal; what it ends is not taken for a crash. */
  kill(signal: NodeJS.Signals): void {
    if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') this.isEnding = true;
    this.child?.kill(signal);
  }

  /** Asks the process to end and waits; SIGKILL after `graceMs`. Repeating is safe. */
  async stop(graceMs: number): Promise<void> {
    const identity = this.current;
    if (identity === undefined) return;
    this.isEnding = true;
    await endProcess(identity, { graceMs });
    await waitUntil(() => this.current !== identity, 5_000);
  }

  private spawn(): ChildProcess {
    const { program, environment, logFile } = this.options;
    const log = openSync(logFile, 'a', 0o600);
    // Detached: Ctrl-C reaches the supervisor alone, which stops everything in order.
    const child = fork(program, ['--local'], {
      env: environment,
      execArgv: [],
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    this.child = child;
    child.on('message', (message: ChildMessage) => {
      this.onMessage(child, message);
    });
    child.on('error', (error) => {
      this.onEnd(child, error.message);
    });
    child.on('exit', (code, signal) => {
      this.onEnd(child, signal === null ? `status ${String(code)}` : signal);
    });
    return child;
  }

  private onEnd(child: ChildProcess, reason: string): void {
    if (this.child !== child) return;
    const wasReady = this.isReady;
    this.child = undefined;
    this.current = undefined;
    this.options.onChange();
    // What ends before it was ready is an error of its start, which the starter sees.
    if (!this.isEnding && wasReady) this.options.onCrash(reason);
  }

  private onMessage(child: ChildProcess, message: ChildMessage): void {
    const answer = (given: SupervisorMessage): void => {
      // An error means that the asker is gone.
      if (child.connected) child.send(given, () => undefined);
    };
    const { mailbox } = this.options;
    if (message.type === 'ready') {
      this.isReady = true;
      this.metrics = message.metricsPort;
    }
    if (message.type === 'mail') {
      mailbox.store(message.mail);
      answer({ type: 'mail-stored', id: message.id });
    }
    if (message.type === 'mailbox') answer({ type: 'mailbox', id: message.id, data: mailbox.read(message.to) });
  }
}
