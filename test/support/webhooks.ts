import { inTransaction, query, queryOne } from '../../src/api/core/db';
import type { EventType } from '../../src/api/core/events';
import { recordEvent } from '../../src/api/webhooks/deliveries';
import type { DueDelivery } from '../../src/api/webhooks/due';
import { firstAttempts } from '../../src/api/webhooks/first-attempts';

/** Columns of a delivery that tests look at, those that no caller sees included. */
export interface DeliveryColumns {
  id: string;
  event_id: string;
  status: string;
  attempts: number;
  status_code: number | null;
  response_body: string | null;
  next_attempt_at: Date | null;
  last_attempt_at: Date | null;
  claimed_until: Date | null;
  run_seen_at: Date | null;
  created_at: Date;
}

export const deliveryRow = async (id: string): Promise<DeliveryColumns> => {
  const row = await queryOne<DeliveryColumns>('select * from webhook_deliveries where id = $1', [id]);
  if (row === null) throw new Error(`no delivery ${id}`);
  return row;
};

const record = (projectId: string, type: EventType): Promise<DueDelivery[]> =>
  inTransaction((tx) =>
    recordEvent(tx, {
      projectId,
      type,
      resourceType: 'project',
      resourceId: projectId,
      data: { project_id: projectId, paused_at: '2026-10-01T12:00:00.000Z', pause_reason: 'Grüße "manual"' },
    }),
  );

const idsOf = (deliveries: DueDelivery[]): string[] => deliveries.map(({ id }) => id);

/** Commits an event as an area does, without the first attempts: as if the process died right after the commit. */
export const recordOnly = async (projectId: string, type: EventType = 'project.paused'): Promise<string[]> =>
  idsOf(await record(projectId, type));

/** Commits an event and begins the first attempts. @returns the ids of its deliveries */
export async function emit(projectId: string, type: EventType = 'project.paused'): Promise<string[]> {
  const deliveries = await record(projectId, type);
  firstAttempts.offer(deliveries);
  return idsOf(deliveries);
}

/** Changes columns of a delivery behind the service's back. */
export async function alterDelivery(id: string, assignments: string, bind: unknown[] = []): Promise<void> {
  await query(`update webhook_deliveries set ${assignments} where id = $1`, [id, ...bind]);
}
