import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { keptSecret } from './folders';
import { freePort, freePorts } from './ports';

export type Environment = Record<string, string | undefined>;

/** A setting that local mode refuses. */
export class LocalSettingError extends Error {}

const METRICS_PORT = 9464;
const API_PORT = 3000;

function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || name === '::1' || /^127(\.\d{1,3}){3}$/.test(name);
}

/** A value that must not be empty: set to nothing counts as not set. */
export function setting(environment: Environment, name: string): string | undefined {
  const value = environment[name];
  return value === '' ? undefined : value;
}

/**
 * Refuses addresses that others can reach: the development mailbox would let a neighbour sign in as anyone.
 * @throws LocalSettingError naming the setting
 */
export function refuseOpenAddresses(environment: Environment): void {
  const host = setting(environment, 'HOST');
  if (host !== undefined && !isLoopback(host)) {
    throw new LocalSettingError(
      `HOST=${host} is refused in local mode, which serves this machine only: use 127.0.0.1.`,
    );
  }
  const base = setting(environment, 'PUBLIC_BASE_URL');
  if (base === undefined) return;
  if (!URL.canParse(base) || !isLoopback(new URL(base).hostname)) {
    throw new LocalSettingError(
      `PUBLIC_BASE_URL=${base} is refused in local mode: its host must be this machine itself.`,
    );
  }
}

async function isFree(port: number, host: string): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once('error', () => {
      resolve(false);
    });
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}

function portOf(name: string, text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new LocalSettingError(`${name}=${text} is not a port.`);
}

/**
 * Where the first API listens: the caller's port, else PORT, else 3000; 0 takes a free one.
 * @throws LocalSettingError when the wanted one is taken or is no port
 */
export async function firstApiPort(
  environment: Environment,
  { host, port: asked }: { host: string; port: number | undefined },
): Promise<number> {
  const port = asked ?? portOf('PORT', setting(environment, 'PORT') ?? String(API_PORT));
  if (port === 0) return await freePort();
  if (await isFree(port, host)) return port;
  throw new LocalSettingError(`Port ${String(port)} is in use: stop what listens there, or set PORT to another one.`);
}

/** METRICS_PORT and the ones above it when it is set; 9464 and those above when they are free; else any. */
async function metricsPorts(environment: Environment, count: number): Promise<number[]> {
  const asked = setting(environment, 'METRICS_PORT');
  const row = (first: number): number[] => Array.from({ length: count }, (_, index) => first + index);
  if (asked !== undefined && portOf('METRICS_PORT', asked) !== 0) return row(portOf('METRICS_PORT', asked));
  const usual = row(METRICS_PORT);
  const free = await Promise.all(usual.map(async (port) => await isFree(port, '127.0.0.1')));
  return free.every(Boolean) ? usual : await freePorts(count);
}

export interface ServicePorts {
  /** Null for a process that serves no API. */
  port: number | null;
  metricsPort: number;
}

/**
 * Chooses the ports of all APIs, then of all workers, in this order.
 * @throws LocalSettingError when a wanted one is taken
 */
export async function choosePorts(
  environment: Environment,
  wanted: { host: string; port: number | undefined; apis: number; workers: number },
): Promise<ServicePorts[]> {
  const { apis, workers } = wanted;
  const ports: (number | null)[] = [];
  if (apis > 0) ports.push(await firstApiPort(environment, wanted), ...(await freePorts(apis - 1)));
  for (let index = 0; index < workers; index++) ports.push(null);
  const metrics = await metricsPorts(environment, ports.length);
  return ports.map((port, index) => ({ port, metricsPort: metrics[index] ?? 0 }));
}

/**
 * A port that stays the same over restarts while it is free: addresses of what listens there are stored in the database.
 * Kept in a file of the data folder.
 */
export async function keptPort(dataDir: string, name: string): Promise<number> {
  const file = join(dataDir, `${name}.port`);
  const earlier = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0;
  if (Number.isInteger(earlier) && earlier > 0 && (await isFree(earlier, '127.0.0.1'))) return earlier;
  const port = await freePort();
  writeFileSync(file, String(port));
  return port;
}

/** Laid over an environment that may name engines and addresses of somebody's own: the drill and the bench use none but theirs. */
export const NO_ENGINES_OF_OTHERS: Environment = {
  DATABASE_URL: '',
  TEMPORAL_ADDRESS: '',
  TEMPORAL_NAMESPACE: undefined,
  PUBLIC_BASE_URL: '',
  HOST: '',
  SMTP_URL: '',
  NODE_ENV: undefined,
};

/** The settings of local mode that do not differ between its processes. The caller's environment wins, the empty value included. */
export function localDefaults(dataDir: string): Environment {
  return {
    JWT_SECRET: keptSecret(join(dataDir, 'jwt.secret'), 32),
    SECRETS_ENCRYPTION_KEY: keptSecret(join(dataDir, 'encryption.key'), 32),
    TOOL_EGRESS_ALLOWED_HOSTS: '127.0.0.1,localhost',
    WEBHOOK_ALLOW_HTTP: 'true',
    DRAIN_NOTICE_SECONDS: '0', // No balancer has to notice anything.
  };
}
