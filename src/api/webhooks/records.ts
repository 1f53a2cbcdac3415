import { clock } from '../core/clock';
import { isDatabaseDown, query, queryOne } from '../core/db';
import { Grouped } from '../core/grouped';
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

const recordOne = (made: MadeAttempt): Promise<boolean> =>
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

/** Waits for nobody: what another transaction holds, and what is purged, is left out. */
const RECORD_ATTEMPTS = `
  with given as (
    select * from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[], $6::integer[], $7::timestamptz[],
      $8::timestamptz[], $9::text[], $10::timestamptz[], $11::integer[], $12::text[])
      as g (event_id, id, attempts, status, status_code, number, next_attempt_at, started_at, text, ended_at, duration_ms, error)),
  held as (select id from events where id = any($1::text[]) and not purged order by id for update skip locked),
  free as (
    select d.id from webhook_deliveries d join held on held.id = d.event_id
    where d.id = any($2::text[]) and d.status = 'pending' for update of d skip locked),
  moved as (
    update webhook_deliveries d
    set status = g.status, status_code = g.status_code, attempts = g.number, next_attempt_at = g.next_attempt_at,
      last_attempt_at = g.started_at, response_body = g.text, claimed_until = null, updated_at = g.ended_at
    from given g join free on free.id = g.id where d.id = g.id and d.status = 'pending' and d.attempts = g.attempts
    returning d.id),
  counted as (
    insert into webhook_delivery_attempts (delivery_id, number, started_at, duration_ms, status_code, error)
    select g.id, g.number, g.started_at, g.duration_ms, g.status_code, g.error from given g join moved on moved.id = g.id)
  select id from moved`;

async function recordTogether(made: MadeAttempt[]): Promise<Set<string>> {
  const of = <Value>(field: (one: MadeAttempt) => Value): Value[] => made.map(field);
  const moved = await query<{ id: string }>(RECORD_ATTEMPTS, [
    of(({ delivery }) => delivery.eventId),
    of(({ delivery }) => delivery.id),
    of(({ delivery }) => delivery.attempts),
    of(({ status }) => status),
    of(({ statusCode }) => statusCode),
    of(({ number }) => number),
    of(({ nextAttemptAt }) => nextAttemptAt),
    of(({ startedAt }) => startedAt),
    of(({ text }) => text),
    of(({ endedAt }) => endedAt),
    of(({ durationMs }) => durationMs),
    of(({ error }) => error),
  ]);
  return new Set(moved.map(({ id }) => id));
}

/** One by one where a statement of their own has to decide: what is held elsewhere, purged, or was recorded before. */
async function recordAttempts(made: MadeAttempt[]): Promise<Promise<boolean>[]> {
  if (made.length === 1) return made.map(recordOne);
  const moved = await recordTogether(made).catch((error: unknown) => {
    if (isDatabaseDown(error)) throw error;
    return new Set<string>();
  });
  return made.map((one) => (moved.has(one.delivery.id) ? Promise.resolve(true) : recordOne(one)));
}

/**
 * Records one attempt; answers false when somebody else did before. Attempts that end while others are being recorded are
 * recorded together, in one statement and one commit.
 */
export const recordedAttempts = new Grouped(recordAttempts);
