import { startLocal } from './supervisor';
import type { Local, LocalOptions } from './supervisor';

const SIGNALS: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

function addresses(local: Local): string {
  return [
    '',
    `API            ${local.baseUrl}  (to browse: ${local.baseUrl}/docs)`,
    `Temporal UI    ${local.temporalUiUrl ?? `none; the server is ${local.temporalAddress}`}`,
    `Temporal       ${local.temporalAddress}  (TEMPORAL_ADDRESS of its CLI)`,
    `Model server   ${local.modelServerUrl}  (a stand-in: deterministic answers)`,
    `Mailbox        ${local.baseUrl}/dev/mailbox?to=ADDRESS  (mails are kept here unless SMTP_URL is set)`,
    `Metrics        ${local
      .metrics()
      .map(({ name, url }) => `${url} (${name})`)
      .join(', ')}`,
    `Output         ${local.logs}`,
    '',
    'Ctrl-C stops everything.',
    '',
  ].join('\n');
}

/** Resolves at the first signal that asks for an end; the second ends the process at once, and with it what it started. */
export function whenAsked(giveUp: AbortController): Promise<void> {
  let asked = 0;
  return new Promise((resolve) => {
    const onSignal = (): void => {
      if (++asked > 1) process.exit(130);
      process.stdout.write('\nStopping.\n');
      giveUp.abort();
      resolve();
    };
    for (const signal of SIGNALS) process.on(signal, onSignal);
  });
}

/**
 * Runs everything in this terminal until Ctrl-C or SIGTERM, then ends the process: with status 0, or 1 after a message when
 * something could not be started. `whenUp` runs once everything answers.
 */
export async function serveLocal(options: LocalOptions, whenUp?: (local: Local) => Promise<void>): Promise<never> {
  const giveUp = new AbortController();
  const asked = whenAsked(giveUp);
  try {
    const local = await startLocal({ ...options, signal: giveUp.signal });
    if (options.quiet !== true) process.stdout.write(addresses(local));
    try {
      await whenUp?.(local);
      await asked;
    } finally {
      await local.stop();
    }
  } catch (error) {
    if (giveUp.signal.aborted) process.exit(0);
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
  process.exit(0);
}
