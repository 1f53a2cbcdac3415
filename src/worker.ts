import { Runtime } from '@temporalio/worker';
import { config } from './api/core/config';
import { closeDatabase, db } from './api/core/db';
import { errorFacts, log, setLogLevel } from './api/core/log';
import { closeOutbound } from './api/core/outbound';
import { closePrograms } from './api/core/tenant-programs';
import { closeEngine } from './api/core/temporal';
import { smtpMailer } from './api/auth/mailer';
import type { Mailer } from './api/auth/mailer';
import { firstAttempts } from './api/webhooks/first-attempts';
import { announceReady, onStop, sendMail } from './local/child';
import { ensureEngine } from './engine-setup';
import { migrate } from './api/migrations';
import { startReencryption } from './reencryption';
import { startMissedTurn } from './api/plans/turns';
import { ensureSchedules } from './schedules';
import { runtimeOptions, startTelemetry } from './telemetry';
import { startWorkers } from './workers';

/** Without an SMTP server local mode hands mails to the development mailbox. */
function mailer(): Mailer {
  const { SMTP_URL, MAIL_FROM } = config();
  if (SMTP_URL !== undefined) return smtpMailer(SMTP_URL, MAIL_FROM ?? '');
  return { send: sendMail };
}

async function main(): Promise<void> {
  setLogLevel(config().LOG_LEVEL);
  const telemetry = await startTelemetry('worker');
  Runtime.install(runtimeOptions());
  await migrate(db, 'up');
  await ensureEngine();
  const workers = await startWorkers({ mailer: mailer() });
  await ensureSchedules();
  await startMissedTurn();
  await startReencryption();
  let stopping = false;
  const stop = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.info({ msg: 'worker stopping' });
    await workers.stop();
    await firstAttempts.drain();
    await Promise.all([closeEngine(), closeOutbound(), closePrograms()]);
    await closeDatabase();
    await telemetry.stop();
    log.info({ msg: 'worker stopped' });
    process.exit(0);
  };
  onStop(stop);
  workers.ended.catch((error: unknown) => {
    log.fatal({ msg: 'worker failed', ...errorFacts(error) });
    process.exit(1);
  });
  log.info({ msg: 'worker ready' });
  announceReady({ metricsPort: telemetry.metricsPort });
}

main().catch((error: unknown) => {
  log.fatal({ msg: 'worker did not start', ...errorFacts(error) });
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
