import { BACKOFF_SPREAD, backoffMs } from '../../workflows/backoff';
import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import { decrypt } from '../core/encryption';
import { OutboundError } from '../core/http';
import { log } from '../core/log';
import { outbound } from '../core/outbound';
import { randomFactor } from '../core/random';
import { UnderWay } from '../core/under-way';
import { measuredAttempt } from './measured';
import type { DeliveryStatus } from './models';
import { takePlace } from './places';
import { forgetDelivery } from './purging';
import { signedHeaders } from './signing';

/** Bytes that are read of an answer, and characters of it that are kept. */
const ANSWER_BYTES_MAX = 65_536;
const SNIPPET_CHARACTERS = 1_000;

/** A delivery as an attempt needs it: everything is read anew, so that a changed URL or secret counts at once. */
export interface DueDelivery {
  id: string;
  projectId: string;
  webhookId: string;
  status: DeliveryStatus;
  createdAt: Date;
  /** Attempts counted so far. */
  attempts: number;
  nextAttemptAt: Date | null;
  /** Until then the process that committed the delivery has it for itself. */
  claimedUntil: Date | null;
  eventId: string;
  eventType: string;
  body: string;
  url: string;
  active: boolean;
  /** Null when it cannot be decrypted. */
  secret: string | null;
}

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

interface DueRow {
  id: string;
  project_id: string;
  webhook_id: string;
  status: DeliveryStatus;
  created_at: Date;
  attempts: number;
  next_attempt_at: Date | null;
  claimed_until: Date | null;
  event_id: string;
  event_type: string;
  body: string;
  url: string;
  active: boolean;
  secret_key_id: string;
  secret_data: Buffer;
}

const SELECT_DUE = `
  select d.id, d.project_id, d.webhook_id, d.status, d.created_at, d.attempts, d.next_attempt_at, d.claimed_until, d.event_id, d.event_type,
    e.body, w.url, w.active, w.secret_key_id, w.secret_data
  from webhook_deliveries d join events e on e.id = d.event_id join webhooks w on w.id = d.webhook_id where d.id = $1`;

const MARK_SEEN = `
  with seen as (update webhook_deliveries set run_seen_at = $2 where id = $1 and run_seen_at is null)`;

/**
 * Reads a delivery with its webhook as both stand now; null when it is gone.
 * @param seenBy `run` also marks that the delivery's run has begun, in the same statement
 */
export async function readDelivery(id: string, seenBy: 'run' | 'process'): Promise<DueDelivery | null> {
  const row =
    seenBy === 'run'
      ? await queryOne<DueRow>(MARK_SEEN + SELECT_DUE, [id, clock.now()])
      : await queryOne<DueRow>(SELECT_DUE, [id]);
  if (row === null) return null;
  const secret = { keyId: row.secret_key_id, data: row.secret_data };
  return {
    id: row.id,
    projectId: row.project_id,
    webhookId: row.webhook_id,
    status: row.status,
    createdAt: row.created_at,
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    claimedUntil: row.claimed_until,
    eventId: row.event_id,
    eventType: row.event_type,
    body: row.body,
    url: row.url,
    active: row.active,
    secret: decrypt(secret, { table: 'webhooks', column: 'secret', rowId: row.webhook_id }),
  };
}

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
  const { secret } = delivery;
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
 * One statement. What settles a delivery holds its event: a purge either came before, and is seen by its mark, or comes after
 * and finds the delivery settled. On a purged event nothing is written here.
 */
const withEvent = (write: string): string => `
  with held as (select purged from events where id = $1 for update),
  ${write}
  select (select purged from held) as purged, exists (select 1 from moved) as moved`;

const RECORD_ATTEMPT = withEvent(`moved as (
    update webhook_deliveries
    set status = $4, status_code = $5, attempts = $6::integer, next_attempt_at = $7, last_attempt_at = $8, response_body = $9,
      claimed_until = null, updated_at = $10
    from held where id = $2 and status = 'pending' and attempts = $3 and not (held.purged and $4 <> 'pending')
    returning id),
  counted as (
    insert into webhook_delivery_attempts (delivery_id, number, started_at, duration_ms, status_code, error)
    select id, $6::integer, $8::timestamptz, $11::integer, $5::integer, $12::text from moved)`);

const SETTLE_UNSENT = withEvent(`moved as (
    update webhook_deliveries
    set status = 'failed', status_code = null, response_body = $4, next_attempt_at = null, claimed_until = null, updated_at = $5
    from held where id = $2 and status = 'pending' and attempts = $3 and not held.purged returning id)`);

/** Writes what became of an attempt; false when somebody else did before. A delivery of removed content goes with its settlement. */
async function write(delivery: DueDelivery, statement: string, binds: unknown[], settles: boolean): Promise<boolean> {
  const given = [delivery.eventId, delivery.id, delivery.attempts, ...binds];
  const found = await queryOne<{ purged: boolean | null; moved: boolean }>(statement, given);
  return found?.purged === true && settles ? forgetDelivery(delivery) : (found?.moved ?? false);
}

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
  const written = await write(
    delivery,
    RECORD_ATTEMPT,
    [
      status,
      posted.statusCode,
      number,
      nextAttemptAt,
      posted.startedAt,
      posted.text,
      posted.endedAt,
      Math.max(0, posted.endedAt.getTime() - posted.startedAt.getTime()),
      posted.error,
    ],
    nextAttemptAt === null,
  );
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
  const written = await write(delivery, SETTLE_UNSENT, [why, clock.now()], true);
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
