import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, invalidInput, notFound } from '../core/errors';
import { getDelivery, insertRedeliveries, retainedSince } from './deliveries';
import type { DeliveryView } from './deliveries';
import { firstAttempts } from './first-attempts';
import type { DeliveryStatus } from './models';

const RECOVERED_MAX = 1_000;

const inactive = (): ApiError => new ApiError('webhook_inactive', 'The webhook is switched off.');

/**
 * Sends the stored payload of a settled delivery again, as a new delivery to the webhook's present URL under its present
 * secret; the old one stays as it is. Each call makes another one. Spec: Webhook delivery status.
 * @throws not_found, delivery_pending, webhook_inactive
 */
export async function redeliver({
  projectId,
  deliveryId,
}: {
  projectId: string;
  deliveryId: string;
}): Promise<DeliveryView> {
  const { id, view } = await inTransaction(async (tx) => {
    const former = await settledDelivery({ projectId, deliveryId }, tx);
    const [made] = await insertRedeliveries(tx, projectId, [
      { webhookId: former.webhook_id, eventId: former.event_id, eventType: former.event_type },
    ]);
    if (made === undefined) throw notFound();
    // Read before the first attempt is made: the answer is the delivery as it was recorded.
    return { id: made, view: await getDelivery({ projectId, deliveryId: made }, tx) };
  });
  firstAttempts.offerById([id]);
  return view;
}

interface FormerDelivery {
  status: DeliveryStatus;
  webhook_id: string;
  event_id: string;
  event_type: string;
}

/**
 * The locks keep the webhook's deletion, a purge and the retention from taking what the new row refers to; the webhook's
 * comes first, as in its deletion, then the event's, as in a purge.
 */
async function settledDelivery(
  { projectId, deliveryId }: { projectId: string; deliveryId: string },
  tx: Tx,
): Promise<FormerDelivery> {
  const webhook = await queryOne<{ active: boolean }>(
    `select active from webhooks
     where id = (select webhook_id from webhook_deliveries where project_id = $1 and id = $2) for key share`,
    [projectId, deliveryId],
    tx,
  );
  await query(
    `select id from events
     where id = (select event_id from webhook_deliveries where project_id = $1 and id = $2) for key share`,
    [projectId, deliveryId],
    tx,
  );
  const row = await queryOne<FormerDelivery>(
    `select status, webhook_id, event_id, event_type from webhook_deliveries
     where project_id = $1 and id = $2 and (status = 'pending' or created_at > $3) for key share`,
    [projectId, deliveryId, retainedSince()],
    tx,
  );
  if (webhook === null || row === null) throw notFound();
  if (row.status === 'pending') throw new ApiError('delivery_pending', 'The delivery has not settled yet.');
  if (!webhook.active) throw inactive();
  return row;
}

/**
 * Sends again what failed since a time: one redelivery for each event that has no pending or successful delivery to this
 * webhook, oldest first, at most 1,000 a call. Safe to repeat: what is pending by then is left out.
 * @throws bad_request at `since`, not_found, webhook_inactive
 */
export async function recoverDeliveries({
  projectId,
  webhookId,
  since,
}: {
  projectId: string;
  webhookId: string;
  since: Date;
}): Promise<number> {
  const earliest = retainedSince();
  if (since < earliest)
    throw invalidInput('bad_request', 'since', 'since lies before the time for which deliveries are kept');
  const ids = await inTransaction(async (tx) => {
    // Two calls at once take turns, and the second one finds what the first made.
    const webhook = await queryOne<{ active: boolean }>(
      'select active from webhooks where id = $1 and project_id = $2 for no key update',
      [webhookId, projectId],
      tx,
    );
    if (webhook === null) throw notFound();
    if (!webhook.active) throw inactive();
    const lost = await lostEvents({ webhookId, since }, tx);
    const kept = await heldEvents(lost, tx);
    return insertRedeliveries(
      tx,
      projectId,
      lost
        .filter(({ event_id }) => kept.has(event_id))
        .map(({ event_id, event_type }) => ({ webhookId, eventId: event_id, eventType: event_type })),
    );
  });
  firstAttempts.offerById(ids);
  return ids.length;
}

/** Events whose every delivery to the webhook failed; of several failed ones the first gives the order. */
const lostEvents = ({ webhookId, since }: { webhookId: string; since: Date }, tx: Tx) =>
  query<{ event_id: string; event_type: string }>(
    `select event_id, event_type from (
       select distinct on (d.event_id) d.event_id, d.event_type, d.created_at, d.id
       from webhook_deliveries d
       where d.webhook_id = $1 and d.status = 'failed' and d.created_at >= $2
         and not exists (select 1 from webhook_deliveries other
           where other.event_id = d.event_id and other.webhook_id = d.webhook_id and other.status <> 'failed')
       order by d.event_id, d.created_at, d.id) as failed
     order by created_at, id limit $3`,
    [webhookId, since, RECOVERED_MAX],
    tx,
  );

/** Keeps events from being purged until the transaction ends; those that went meanwhile are left out. */
async function heldEvents(lost: { event_id: string }[], tx: Tx): Promise<ReadonlySet<string>> {
  const held = await query<{ id: string }>(
    'select id from events where id = any($1::text[]) order by id for key share',
    [lost.map(({ event_id }) => event_id)],
    tx,
  );
  return new Set(held.map(({ id }) => id));
}
