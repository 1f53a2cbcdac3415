import type { Attributes } from 'sequelize';
import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { notFound } from '../core/errors';
import type { EventEnvelope, NewEvent } from '../core/events';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import { selectFrom } from '../core/select';
import type { Sql } from '../core/select';
import { isoTime } from '../core/timestamps';
import type { DueDelivery } from './due';
import { Delivery, WEBHOOKS_MAX } from './models';
import type { DeliveryStatus } from './models';
import { entriesMatching } from './patterns';

const DAY_MS = 86_400_000;

/** Room beside the receiver's time for reading and recording, before anybody else may take a claimed delivery. */
const CLAIM_MARGIN_MS = 5_000;

/** A delivery together with the text that is signed and sent. */
export interface DeliveryView {
  delivery: Attributes<Delivery>;
  body: string;
}

/** One counted attempt. */
export interface DeliveryAttempt {
  number: number;
  started_at: Date;
  duration_ms: number;
  status_code: number | null;
  error: string | null;
}

/** A delivery to be recorded: which event goes to which webhook. */
export interface NewDelivery {
  webhookId: string;
  eventId: string;
  eventType: string;
}

/** Until when the process that commits a delivery has it for itself; null where the engine makes the first attempt. */
const claimUntil = (now: Date): Date | null =>
  config().DELIVERY_FIRST_ATTEMPT === 'inline'
    ? shifted(now, config().WEBHOOK_TIMEOUT_SECONDS * 1000 + CLAIM_MARGIN_MS)
    : null;

/** Records redeliveries, in the order given. @returns their ids, in that order */
export async function insertRedeliveries(tx: Tx, projectId: string, rows: NewDelivery[]): Promise<string[]> {
  const ids = rows.map(() => newId('delivery'));
  const now = clock.now();
  await query(
    `insert into webhook_deliveries (id, project_id, webhook_id, event_id, event_type, status, attempts, next_attempt_at,
       claimed_until, redelivery, created_at, updated_at)
     select row.id, $1::text, row.webhook_id, row.event_id, row.event_type, 'pending', 0, $2::timestamptz,
       $3::timestamptz, true, $2::timestamptz, $2::timestamptz
     from unnest($4::text[], $5::text[], $6::text[], $7::text[]) as row (id, webhook_id, event_id, event_type)`,
    [
      projectId,
      now,
      claimUntil(now),
      ids,
      rows.map((row) => row.webhookId),
      rows.map((row) => row.eventId),
      rows.map((row) => row.eventType),
    ],
    tx,
  );
  return ids;
}

/**
 * The event with one delivery for each subscriber, or nothing where there is none. Subscribers are held: one that were deleted
 * before the commit would fail the insert, and the change with it. Ids are made by the app, as many as a project has webhooks.
 */
const RECORD_EVENT = `
  with subscribers as (
    select id, url, secret_key_id, secret_data from webhooks
    where project_id = $1 and active and events && $2::text[] order by id for key share),
  event as (
    insert into events (id, project_id, type, resource_type, resource_id, body, causation, created_at)
    select $3, $1, $4, $5, $6, $7, $8::text[], $9::timestamptz where exists (select 1 from subscribers)),
  made as (
  insert into webhook_deliveries (id, project_id, webhook_id, event_id, event_type, status, attempts, next_attempt_at,
    claimed_until, redelivery, created_at, updated_at)
  select ($11::text[])[s.place], $1, s.id, $3, $4, 'pending', 0, $9::timestamptz, $10::timestamptz, false, $9::timestamptz,
    $9::timestamptz
  from (select id, row_number() over (order by id) as place from subscribers) s
  returning id, webhook_id)
  select made.id, s.id as webhook_id, s.url, s.secret_key_id, s.secret_data from made join subscribers s on s.id = made.webhook_id`;

interface SubscriberRow {
  id: string;
  webhook_id: string;
  url: string;
  secret_key_id: string;
  secret_data: Buffer;
}

/**
 * Records an event and one delivery for each active webhook that subscribes to it now, in the transaction of the change
 * that it tells of. An event that nobody subscribes to is not stored. Repeating it makes another event.
 * Spec: Events, rule 1; Delivery behaviour, rule 1.
 * @returns the deliveries; hand them to `firstAttempts.offer` after the commit, and only then
 */
export async function recordEvent(tx: Tx, event: NewEvent): Promise<DueDelivery[]> {
  const { projectId, type, resourceType, resourceId } = event;
  const eventId = newId('event');
  const now = clock.now();
  const claimedUntil = claimUntil(now);
  const body = bodyOf(event, eventId, now);
  const rows = await query<SubscriberRow>(
    RECORD_EVENT,
    [
      projectId,
      entriesMatching(type),
      eventId,
      type,
      resourceType,
      resourceId,
      body,
      event.causation ?? [],
      now,
      claimedUntil,
      Array.from({ length: WEBHOOKS_MAX }, () => newId('delivery')),
    ],
    tx,
  );
  return rows.map((row) => ({
    id: row.id,
    projectId,
    webhookId: row.webhook_id,
    status: 'pending',
    createdAt: now,
    attempts: 0,
    nextAttemptAt: now,
    claimedUntil,
    eventId,
    eventType: type,
    body,
    url: row.url,
    active: true,
    secret: { keyId: row.secret_key_id, data: row.secret_data },
  }));
}

function bodyOf(event: NewEvent, eventId: string, now: Date): string {
  const envelope: EventEnvelope = {
    id: eventId,
    type: event.type,
    project_id: event.projectId,
    resource_type: event.resourceType,
    resource_id: event.resourceId,
    data: event.data,
    created_at: isoTime(now),
  };
  return JSON.stringify(envelope);
}

/** Settled deliveries that were recorded before this are no longer to be seen, whether their rows are gone or not. */
export const retainedSince = (): Date => shifted(clock.now(), -config().DELIVERY_RETENTION_DAYS * DAY_MS);

const retained: Sql = (bind) => `status = 'pending' or created_at > ${bind(retainedSince())}`;

/** @throws not_found, for one past its retention too */
export async function getDelivery(
  { projectId, deliveryId }: { projectId: string; deliveryId: string },
  tx?: Tx,
): Promise<DeliveryView> {
  const [delivery] = await selectFrom(Delivery, { id: deliveryId, projectId, and: [retained] }).rows(() => '', tx);
  if (delivery === undefined) throw notFound();
  const event = await queryOne<{ body: string }>('select body from events where id = $1', [delivery.eventId], tx);
  if (event === null) throw notFound(); // The event goes with its project, its webhook's deliveries with the webhook.
  return { delivery, body: event.body };
}

/** The counted attempts of a delivery, first one first. @throws not_found */
export async function listAttempts(name: { projectId: string; deliveryId: string }): Promise<DeliveryAttempt[]> {
  const { delivery } = await getDelivery(name);
  return query<DeliveryAttempt>(
    `select number, started_at, duration_ms, status_code, error
     from webhook_delivery_attempts where delivery_id = $1 order by number`,
    [delivery.id],
  );
}

export interface DeliveryFilters {
  webhookId?: string | undefined;
  status?: DeliveryStatus | undefined;
  eventType?: string | undefined;
  eventId?: string | undefined;
}

/** One page of a project's deliveries, newest first; filters combine. @throws bad_request at `query.cursor` */
export async function listDeliveries({
  projectId,
  filters,
  limit,
  cursor,
}: {
  projectId: string;
  filters: DeliveryFilters;
  limit: number;
  cursor: string | undefined;
}): Promise<{ rows: DeliveryView[]; nextCursor: string | null }> {
  const given = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >;
  const { rows, nextCursor } = await listByCursor(Delivery, {
    where: { projectId, ...given, and: [retained] },
    limit,
    cursor,
    scope: { route: 'listDeliveries', projectId, ...given },
  });
  const events = await query<{ id: string; body: string }>('select id, body from events where id = any($1::text[])', [
    [...new Set(rows.map((row) => row.eventId))],
  ]);
  const bodies = new Map(events.map(({ id, body }) => [id, body]));
  const views = rows.flatMap((delivery) => {
    const body = bodies.get(delivery.eventId);
    return body === undefined ? [] : [{ delivery, body }];
  });
  return { rows: views, nextCursor };
}
