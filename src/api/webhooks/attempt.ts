import { BACKOFF_SPREAD, backoffMs } from '../../workflows/backoff';
import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query } from '../core/db';
import { decrypt } from '../core/encryption';
import { OutboundError } from '../core/http';
import { log } from '../core/log';
import { outbound } from '../core/outbound';
import { randomFactor } from '../core/random';
import { UnderWay } from '../core/under-way';
import type { DueDelivery } from './due';
import { measuredAttempt } from './measured';
import type { DeliveryStatus } from './models';
import { takePlace } from './places';
import { recordMade, recordUnsent } from './records';
import { signedHeaders } from './signing';

/** Bytes that are read of an answer, and characters of it that are kept. */
const ANSWER_BYTES_MAX = 65_536;
const SNIPPET_CHARACTERS = 1_000;

/** What came of one post. */
interface Posted {
  startedAt: Date;
  endedAt: Date;
  /** Null when there was no answer. */
  statusCode: number | null;
  /** The transport error; null when there was an answer. */
  error: string | null;
  /** Beginning of the answer's body, or the transport error. */
  text: string;
}

/**
 * What became of an attempt. Counted: `success`, `failed` (settled), `retry` (recorded; the next one is planned).
 * Uncounted: `no_place` (ten requests to the webhook are under way), `aborted` (this process is stopping, or the try was
 * given to another), `late` (somebody else recorded this attempt first).
 */
export type AttemptOutcome =
  { kind: 'success' | 'failed' | 'no_place' | 'aborted' | 'late' } | { kind: 'retry'; nextAttemptAt: Date };

const underWay = new UnderWay<AttemptOutcome>();

/**
 * Makes the next attempt of a due delivery and records it: the one way of sending, for first attempts and retries alike.
 * A second call for the same delivery joins the one under way. Repeating after a crash may send twice, which receivers
 * must bear; it never counts twice. Spec: Delivery behaviour.
 * @param signal leaves the attempt; it is then not counted
 */
export const attemptOnce = (delivery: DueDelivery, signal: AbortSignal): Promise<AttemptOutcome> =>
  underWay.join(delivery.id, signal, (shared) => measuredAttempt(delivery, () => attempt(delivery, shared)));

async function attempt(delivery: DueDelivery, signal: AbortSignal): Promise<AttemptOutcome> {
  const secret = decrypt(delivery.secret, { table: 'webhooks', column: 'secret', rowId: delivery.webhookId });
  if (!delivery.active) return settleUnsent(delivery, 'webhook_inactive');
  if (secret === null) return settleUnsent(delivery, 'secret_unavailable');
  const release = takePlace(delivery.webhookId);
  if (release === null) return { kind: 'no_place' };
  try {
    const posted = await post(delivery, secret, signal);
    return posted === null ? { kind: 'aborted' } : await recordAttempt(delivery, posted);
  } finally {
    release();
  }
}

/** Posts once; null when the call was ended from here, which says nothing about the receiver. */
async function post(delivery: DueDelivery, secret: string, signal: AbortSignal): Promise<Posted | null> {
  const startedAt = clock.now();
  const atSeconds = Math.floor(startedAt.getTime() / 1000);
  try {
    const { status, body } = await outbound().request({
      url: delivery.url,
      method: 'POST',
      headers: signedHeaders({ ...delivery, deliveryId: delivery.id, secret, atSeconds }),
      body: delivery.body,
      timeoutMs: config().WEBHOOK_TIMEOUT_SECONDS * 1000,
      responseBytesMax: ANSWER_BYTES_MAX,
      onTooLarge: 'truncate',
      redirects: 'never',
      signal,
    });
    return { startedAt, endedAt: clock.now(), statusCode: status, error: null, text: snippet(body) };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    if (error.kind === 'aborted') return null;
    const text = transportError(error);
    return { startedAt, endedAt: clock.now(), statusCode: null, error: text, text };
  }
}

/** The transport's failures in the words of the contract. */
function transportError({ kind, detail }: OutboundError): string {
  if (kind === 'timeout' || kind === 'egress_blocked') return kind;
  return snippetOf(`${kind === 'tls' ? 'tls_error' : 'connection_error'}: ${detail}`);
}

const snippet = (body: Buffer): string => snippetOf(body.toString('utf8'));

/** The database takes neither U+0000 nor half a surrogate pair, and a receiver may answer either. */
const snippetOf = (text: string): string =>
  text
    .slice(0, SNIPPET_CHARACTERS)
    .replaceAll('\u0000', '\ufffd')
    .replace(/[\ud800-\udbff]$/, '');

const isSuccess = (statusCode: number | null): boolean => statusCode !== null && statusCode >= 200 && statusCode < 300;

/**
 * Records one attempt: only the move from n to n + 1 of a pending row is written, so the first writer wins, and the claim
 * ends with it. The wait runs from the end of the attempt.
 */
async function recordAttempt(delivery: DueDelivery, posted: Posted): Promise<AttemptOutcome> {
  const number = delivery.attempts + 1;
  const success = isSuccess(posted.statusCode);
  const baseMs = config().WEBHOOK_BACKOFF_BASE_SECONDS * 1000;
  const waitMs = success ? null : backoffMs(number, baseMs, randomFactor(BACKOFF_SPREAD));
  const nextAttemptAt = waitMs === null ? null : shifted(posted.endedAt, waitMs);
  const status: DeliveryStatus = success ? 'success' : nextAttemptAt === null ? 'failed' : 'pending';
  const written = await recordMade({
    delivery,
    status,
    statusCode: posted.statusCode,
    number,
    nextAttemptAt,
    startedAt: posted.startedAt,
    endedAt: posted.endedAt,
    durationMs: Math.max(0, posted.endedAt.getTime() - posted.startedAt.getTime()),
    text: posted.text,
    error: posted.error,
  });
  if (!written) {
    log.warn({ msg: 'late_result', delivery_id: delivery.id, attempt: number });
    return { kind: 'late' };
  }
  if (nextAttemptAt !== null) return { kind: 'retry', nextAttemptAt };
  return { kind: success ? 'success' : 'failed' };
}

/** Settles a delivery that cannot be sent; no attempt is counted. */
async function settleUnsent(
  delivery: DueDelivery,
  why: 'webhook_inactive' | 'secret_unavailable',
): Promise<AttemptOutcome> {
  const written = await recordUnsent(delivery, why);
  return { kind: written ? 'failed' : 'late' };
}

/** Puts the next attempt off, uncounted: every place of the webhook is taken. Safe to repeat. */
export async function postpone(delivery: DueDelivery, nextAttemptAt: Date): Promise<void> {
  await query(
    `update webhook_deliveries set next_attempt_at = $3, claimed_until = null, updated_at = $4
     where id = $1 and status = 'pending' and attempts = $2`,
    [delivery.id, delivery.attempts, nextAttemptAt, clock.now()],
  );
}
