import { inTransaction, query } from '../core/db';
import type { Tx } from '../core/db';

/**
 * Removes the events of resources whose content is removed, in the same transaction, with their settled deliveries. An
 * event that still has a pending delivery stays until that one has gone out (`forgetDelivery`). Safe to repeat.
 *
 * Locks go webhooks, events, deliveries: a webhook being deleted takes its deliveries along, and what is being sent again
 * holds its event.
 */
export async function removeEventsOf(tx: Tx, projectId: string, resourceIds: string[]): Promise<void> {
  await query('select id from webhooks where project_id = $1 order by id for key share', [projectId], tx);
  const events = await query<{ id: string }>(
    `with held as (select id from events where project_id = $1 and resource_id = any($2::text[]) order by id for update)
     update events e set purged = true from held where e.id = held.id returning e.id`,
    [projectId, resourceIds],
    tx,
  );
  const ids = events.map(({ id }) => id);
  if (ids.length === 0) return;
  await query(`delete from webhook_deliveries where event_id = any($1::text[]) and status <> 'pending'`, [ids], tx);
  await removeUndelivered(tx, ids);
}

/** Events that have no delivery any more. A statement of its own: it has to see what the one before removed. */
async function removeUndelivered(tx: Tx, eventIds: string[]): Promise<void> {
  await query(
    `delete from events e where e.id = any($1::text[])
       and not exists (select 1 from webhook_deliveries d where d.event_id = e.id)`,
    [eventIds],
    tx,
  );
}

/**
 * Removes a delivery whose attempt has settled it, where the content of its resource was removed while it was under way, and
 * the event with its last delivery. Answers whether this attempt was the one to do so. Safe to repeat.
 */
export const forgetDelivery = (delivery: { id: string; attempts: number; eventId: string }): Promise<boolean> =>
  inTransaction(async (tx) => {
    await query('select id from events where id = $1 for update', [delivery.eventId], tx);
    const gone = await query(
      `delete from webhook_deliveries where id = $1 and status = 'pending' and attempts = $2 returning id`,
      [delivery.id, delivery.attempts],
      tx,
    );
    if (gone.length > 0) await removeUndelivered(tx, [delivery.eventId]);
    return gone.length > 0;
  });
