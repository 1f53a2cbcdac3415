/**
 * The side of the API and the worker towards `npm start`. Loaded by both in every mode, so it imports nothing heavy. A process
 * that has no supervisor (tests run the parts in one process) keeps its mails itself.
 */
import type { ChildMessage, SupervisorMessage } from './child-messages';
import { Mailbox } from './mailbox';
import type { Mail, OutgoingMail } from './mailbox';

const ANSWER_MS = 5_000;
/** After its supervisor died, the engines are gone as well: there is nothing to finish. */
const ORPHAN_MS = 5_000;

const own = new Mailbox();
let last = 0;

/** Other programs fork with a channel too, test runners for one: the argument tells our supervisor from them. */
function isSupervised(): boolean {
  return process.argv.includes('--local') && process.connected;
}

type Question = Extract<ChildMessage, { id: number }>;

async function ask(question: Question): Promise<SupervisorMessage> {
  return await new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      process.off('message', onMessage);
      process.off('disconnect', onDisconnect);
    };
    const fail = (reason: string): void => {
      done();
      reject(new Error(`The local supervisor ${reason}.`));
    };
    const onMessage = (message: SupervisorMessage): void => {
      if (message.id !== question.id) return;
      done();
      resolve(message);
    };
    const onDisconnect = (): void => {
      fail('is gone');
    };
    const timer = setTimeout(() => {
      fail('does not answer');
    }, ANSWER_MS);
    process.on('message', onMessage);
    process.once('disconnect', onDisconnect);
    process.send?.(question satisfies ChildMessage, undefined, undefined, (error) => {
      if (error !== null) fail('is gone');
    });
  });
}

/**
 * Puts a mail into the development mailbox and resolves when it is there. Each call stores one mail.
 * @throws when the supervisor is gone or does not answer within five seconds
 */
export async function sendMail(mail: OutgoingMail): Promise<void> {
  if (isSupervised()) await ask({ type: 'mail', id: ++last, mail });
  else own.store(mail);
}

/**
 * The mails to an address in the development mailbox, newest first.
 * @throws when the supervisor is gone or does not answer within five seconds
 */
export async function readMailbox(to: string): Promise<Mail[]> {
  if (!isSupervised()) return own.read(to);
  const answer = await ask({ type: 'mailbox', id: ++last, to });
  return answer.type === 'mailbox' ? answer.data : [];
}

/** Tells the supervisor that this process serves; without one it does nothing. */
export function announceReady(extra: { port?: number; metricsPort?: number } = {}): void {
  if (isSupervised()) process.send?.({ type: 'ready', ...extra } satisfies ChildMessage);
}

/**
 * Runs `stop` once, at the first SIGTERM or SIGINT, or when the supervisor died, and then ends the process: with status 0, or 1
 * when `stop` failed. An orphan is ended after five seconds, however far it got.
 */
export function onStop(stop: () => Promise<void>): void {
  let begun = false;
  const begin = (): void => {
    if (begun) return;
    begun = true;
    stop().then(
      () => process.exit(),
      (error: unknown) => {
        process.stderr.write(
          `The stop failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
        );
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', begin);
  process.on('SIGINT', begin);
  const beginAsOrphan = (): void => {
    begin();
    setTimeout(() => process.exit(1), ORPHAN_MS).unref();
  };
  if (isSupervised()) process.once('disconnect', beginAsOrphan);
  // There was a channel, and it closed before this call.
  else if (process.argv.includes('--local') && process.send !== undefined) beginAsOrphan();
}
