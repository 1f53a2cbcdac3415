import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { logFile } from './folders';
import type { EngineSpec } from './guard-messages';

export interface TemporalOptions {
  /** Path of the CLI. */
  command: string;
  dataDir: string;
  inMemory: boolean;
  /** Made at start, beside `default`. */
  namespaces: string[];
}

export interface TemporalPorts {
  port: number;
  /** Null leaves the UI out. */
  uiPort: number | null;
}

/**
 * The server has one history shard. Its defaults poll that shard's transfer queue 20 times a second at most, which makes every
 * step of a burst wait for a tick of 50 ms, and fire short timers up to a second late; updates beyond ten on one run would wait.
 */
const DYNAMIC_CONFIG = [
  'history.transferProcessorMaxPollRPS=5000',
  'history.timerProcessorMaxPollRPS=1000',
  'history.timerProcessorMaxTimeShift="1ms"',
  'history.maxInFlightUpdates=1000',
];
const SEARCH_ATTRIBUTES = ['ProjectId', 'ResourceType', 'ResourceId', 'AgentId'];
const SQLITE_PRAGMAS = ['journal_mode=wal', 'synchronous=normal'];

/** How the guard starts the development server. Everything it opens is bound to 127.0.0.1. */
export function temporalSpec(
  { command, dataDir, inMemory, namespaces }: TemporalOptions,
  ports: TemporalPorts,
): EngineSpec {
  const args = ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(ports.port), '--log-level', 'error'];
  if (ports.uiPort === null) args.push('--headless');
  else args.push('--ui-ip', '127.0.0.1', '--ui-port', String(ports.uiPort), '--ui-disable-news-fetch');
  if (!inMemory) {
    args.push('--db-filename', join(dataDir, 'temporal.db'));
    for (const pragma of SQLITE_PRAGMAS) args.push('--sqlite-pragma', pragma);
  }
  for (const value of DYNAMIC_CONFIG) args.push('--dynamic-config-value', value);
  for (const name of SEARCH_ATTRIBUTES) args.push('--search-attribute', `${name}=Keyword`);
  for (const namespace of namespaces.filter((name) => name !== 'default')) args.push('--namespace', namespace);
  return {
    name: 'temporal',
    command,
    args,
    logFile: logFile(dataDir, 'temporal'),
    order: 2,
    stop: [{ signal: 'SIGTERM', graceMs: 10_000 }],
  };
}

/** True when the server at `address` says that it serves. */
export async function isServing(command: string, address: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const args = ['operator', 'cluster', 'health', '--address', address];
    execFile(command, args, { timeout: 5_000 }, (error, out) => {
      resolve(error === null && out.includes('SERVING'));
    });
  });
}
