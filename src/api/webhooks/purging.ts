import { query } from '../core/db';
import type { Tx } from '../core/db';

/**
 * Removes the events of resources whose content is removed, in the same transaction, with their settled deliveries. An
 * event that still has a pending delivery stays until that one has gone out (`forgetPurged`). Safe to repeat.
 *
 * Locks go webhooks, events, deliveries: a webhook being deleted takes its deliveries along, and what is being sent again
 * holds its event.
 */
export async function removeEventsOf(tx: Tx, projectId: string, resourceIds: string[]): Promise<void> {
  await query('select id from webhooks where project_id = $1 order by id for key share', [projectId], tx);
  const events = await query<{ id: string }>(
    'select id from events where project_id = $1 and resource_id = any($2::text[]) order by id for update',
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
 * Holds the event of a delivery that is about to settle: a purge either came before, and is seen by `forgetPurged`, or
 * comes after and finds the delivery settled.
 */
export async function holdEvent(tx: Tx, eventId: string): Promise<void> {
  await query('select id from events where id = $1 for update', [eventId], tx);
}

/**
 * Removes a delivery that has just settled when the content of its resource was removed while it was under way, and the
 * event with its last delivery. In the transaction of the settlement, after `holdEvent`.
 *
 * Generations import this area, so their rows are asked by statement. Those whose content is never stored
 * (`zero_retention`) were not purged: their events hold none.
 */
export async function forgetPurged(
  tx: Tx,
  { deliveryId, eventId }: { deliveryId: string; eventId: string },
): Promise<void> {
  const gone = await query(
    `delete from webhook_deliveries d using events e, generations g
     where d.id = $1 and e.id = $2 and g.project_id = e.project_id and g.id = e.resource_id
       and g.content_redacted_at is not null and g.content_redacted_by_principal_id is distinct from 'zero_retention'
     returning d.id`,
    [deliveryId, eventId],
    tx,
  );
  if (gone.length > 0) await removeUndelivered(tx, [eventId]);
}
