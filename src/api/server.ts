import { Runtime } from '@temporalio/worker';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { announceReady, onStop, readMailbox } from '../local/child';
import { createApp } from './app';
import { flushKeyUse } from './auth/service';
import { config } from './core/config';
import { closeDatabase, db } from './core/db';
import { flushRequestCounts } from './core/ip-limit';
import { beginDraining, isDraining } from './core/draining';
import { errorFacts, log, setLogLevel } from './core/log';
import { closeOutbound } from './core/outbound';
import { starts } from './core/starts';
import { closePrograms } from './core/tenant-programs';
import { closeEngine } from './core/temporal';
import { answerUnreadable } from './core/unreadable';
import { setMailboxReader } from './dev/mailbox';
import { migrate } from './migrations';
import { streams } from './generations/streams';
import { firstAttempts } from './webhooks/first-attempts';
import { StreamWorker } from '../stream-worker';
import { runtimeOptions, startTelemetry } from '../telemetry';

/** Longer than balancers keep an idle connection (60 s as a rule): who closes first must be the one that sends requests on it. */
const KEEP_ALIVE_MS = 75_000;

/**
 * Once the server takes no new connections, each answer is the last of its connection. A stream that was begun before could
 * not say so in its headers, and the reader would keep the connection for a next request.
 */
function endWithLastAnswer(server: Server): void {
  server.on('request', (_req, res) => {
    res.once('close', () => {
      if (!server.listening) server.closeIdleConnections();
    });
  });
}

/**
 * A balancer must not send a next request on a connection that is about to close, so each answer of a process that drains says
 * that it is the last. Before the application's own listener, which may answer at once.
 */
function announceEnd(server: Server): void {
  server.prependListener('request', (_req, res) => {
    if (isDraining()) res.setHeader('Connection', 'close');
  });
}

/**
 * Ends in order: health says so while requests are still taken, so that balancers turn away; then no new connections, running
 * requests finish, and what the process holds is handed over.
 */
async function stop(server: Server, worker: StreamWorker): Promise<void> {
  log.info({ msg: 'api stopping' });
  beginDraining();
  await sleep(config().DRAIN_NOTICE_SECONDS * 1000);
  const drained = worker.stop();
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const cut = setTimeout(() => {
    server.closeAllConnections();
  }, config().DRAIN_SECONDS * 1000);
  await closed;
  clearTimeout(cut);
  await drained;
  await Promise.all([firstAttempts.drain(), starts.drain(), flushKeyUse(), flushRequestCounts()]);
  await Promise.all([closeEngine(), closeOutbound(), closePrograms()]);
  await closeDatabase();
  log.info({ msg: 'api stopped' });
}

async function main(): Promise<void> {
  const { HOST, PORT, LOG_LEVEL, localMode } = config();
  setLogLevel(LOG_LEVEL);
  const telemetry = await startTelemetry('api');
  await migrate(db, 'up');
  if (localMode) setMailboxReader(readMailbox);
  Runtime.install(runtimeOptions());
  const worker = new StreamWorker();
  const server = createServer(createApp());
  server.on('clientError', answerUnreadable);
  endWithLastAnswer(server);
  announceEnd(server);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.requestTimeout = 0; // A waited run may take as long as GENERATION_WAIT_MAX_SECONDS.
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(PORT, HOST, resolve);
  });
  streams.useWorker(worker).catch(() => undefined); // Without an engine everything that needs none is served; a stream tries again.
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : PORT;
  let stopping = false;
  onStop(async () => {
    if (stopping) return;
    stopping = true;
    await stop(server, worker);
    await telemetry.stop();
    process.exit(0);
  });
  log.info({ msg: 'api ready', port });
  announceReady({ port, metricsPort: telemetry.metricsPort });
}

main().catch((error: unknown) => {
  log.fatal({ msg: 'api did not start', ...errorFacts(error) });
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
