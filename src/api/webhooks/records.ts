import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import type { DueDelivery } from './due';
import type { DeliveryStatus } from './models';
import { forgetDelivery } from './purging';

/** An attempt that was made, as it is recorded. */
interface MadeAttempt {
  delivery: DueDelivery;
  /** What it makes of the delivery. */
  status: DeliveryStatus;
  statusCode: number | null;
  number: number;
  nextAttemptAt: Date | null;
  startedAt: Date;
  endedAt: Date;
  durationMs: number;
  /** Beginning of the answer's body, or the transport error. */
  text: string;
  error: string | null;
}

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

/** Records one attempt; false when somebody else did before. Safe to repeat. */
export const recordMade = (made: MadeAttempt): Promise<boolean> =>
  write(
    made.delivery,
    RECORD_ATTEMPT,
    [
      made.status,
      made.statusCode,
      made.number,
      made.nextAttemptAt,
      made.startedAt,
      made.text,
      made.endedAt,
      made.durationMs,
      made.error,
    ],
    made.nextAttemptAt === null,
  );

/** Settles a delivery that cannot be sent; no attempt is counted. False when somebody else did before. */
export const recordUnsent = (delivery: DueDelivery, why: 'webhook_inactive' | 'secret_unavailable'): Promise<boolean> =>
  write(delivery, SETTLE_UNSENT, [why, clock.now()], true);
