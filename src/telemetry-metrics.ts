import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { db } from './api/core/db';
import { poolUse } from './api/core/db-pool';
import { readFrom, useMeter } from './api/core/metrics';

export interface MetricsListener {
  host: string;
  port: number;
  close: () => Promise<void>;
}

const NANOSECONDS = 1e9;
const LOOP_RESOLUTION_MS = 10;

/** The port is taken by another program. */
const isTaken = (error: unknown): boolean => (error as { code?: unknown }).code === 'EADDRINUSE';

/**
 * Counts from now on, and shows the counts at `GET /metrics`, on a port that serves nothing else. Once a process.
 * @param given `fallback`: another port is taken when this one is not free, as in local mode, where copies run side by side
 * @throws when the port is taken
 */
export async function startMetrics(given: { host: string; port: number; fallback: boolean }): Promise<MetricsListener> {
  const exporter = new PrometheusExporter({
    preventServerStart: true,
    withoutScopeInfo: true,
    withoutTargetInfo: true,
  });
  const server = createServer((req, res) => {
    answer(exporter, req, res);
  });
  const port = await listen(server, given).catch((error: unknown) => {
    if (!isTaken(error)) throw error;
    if (given.fallback) return listen(server, { ...given, port: 0 });
    throw new Error(`METRICS_PORT: ${String(given.port)} is in use: set it to another port, or to 0 for any`);
  });
  const provider = new MeterProvider({ readers: [exporter] });
  const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  loop.enable();
  readProcess(loop);
  useMeter(provider.getMeter('svc'));
  return {
    host: given.host,
    port,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      loop.disable();
      await provider.shutdown();
    },
  };
}

const listen = (server: Server, { host, port }: { host: string; port: number }): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve((server.address() as AddressInfo).port);
    });
  });

function answer(exporter: PrometheusExporter, req: IncomingMessage, res: ServerResponse): void {
  const [path] = (req.url ?? '').split('?');
  if (req.method === 'GET' && path === '/metrics') exporter.getMetricsRequestHandler(req, res);
  else res.writeHead(path === '/metrics' ? 405 : 404).end();
}

/** What the process and its pool are read from at each scrape. */
function readProcess(loop: ReturnType<typeof monitorEventLoopDelay>): void {
  readFrom('cpuSeconds', () => {
    const { user, system } = process.cpuUsage();
    return [{ value: (user + system) / 1e6 }];
  });
  readFrom('residentBytes', () => [{ value: process.memoryUsage.rss() }]);
  readFrom('heapBytes', () => [{ value: process.memoryUsage().heapUsed }]);
  const startedAt = Date.now() / 1000 - process.uptime();
  readFrom('startTime', () => [{ value: startedAt }]);
  readFrom('eventLoopDelay', () => loopDelay(loop));
  readFrom('databaseConnections', () => {
    const { used, idle } = poolUse(db);
    return [
      { labels: { state: 'used' }, value: used },
      { labels: { state: 'idle' }, value: idle },
    ];
  });
  readFrom('databaseConnectionsMax', () => [{ value: poolUse(db).max }]);
  readFrom('databaseWaiting', () => [{ value: poolUse(db).waiting }]);
}

/** What the loop came late since it was read last; the sampling itself takes its step, which is no delay. */
function loopDelay(loop: ReturnType<typeof monitorEventLoopDelay>) {
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / NANOSECONDS - LOOP_RESOLUTION_MS / 1000);
  const readings = [
    { labels: { quantile: '0.5' }, value: late(loop.percentile(50)) },
    { labels: { quantile: '0.99' }, value: late(loop.percentile(99)) },
    { labels: { quantile: '1' }, value: loop.count === 0 ? 0 : late(loop.max) },
  ];
  loop.reset();
  return readings;
}
