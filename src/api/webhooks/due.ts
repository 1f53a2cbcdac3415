import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import type { Encrypted } from '../core/encryption';
import type { DeliveryStatus } from './models';

/** A delivery as an attempt needs it, with its webhook as that stood when it was recorded or read. */
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
  secret: Encrypted;
}

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
    secret: { keyId: row.secret_key_id, data: row.secret_data },
  };
}
