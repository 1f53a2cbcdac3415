import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import type { EventEnvelope } from '../core/events';
import { isoTime, isoTimeOrNull } from '../core/timestamps';
import type { DeliveryAttempt, DeliveryView } from './deliveries';
import type { Webhook } from './models';
import type { AttemptPage, DeliveryOut, WebhookOut, WebhookWithSecret } from './schemas';

export const presentWebhook = (row: Attributes<Webhook>): z.output<typeof WebhookOut> => ({
  id: row.id,
  project_id: row.projectId,
  url: row.url,
  events: row.events,
  description: row.description,
  active: row.active,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** For the two answers that show the secret: create and rotate. */
export const presentWebhookWithSecret = ({
  webhook,
  secret,
}: {
  webhook: Webhook;
  secret: string;
}): z.output<typeof WebhookWithSecret> => ({ ...presentWebhook(webhook), secret });

export const presentDelivery = ({ delivery, body }: DeliveryView): z.output<typeof DeliveryOut> => ({
  id: delivery.id,
  project_id: delivery.projectId,
  webhook_id: delivery.webhookId,
  event_id: delivery.eventId,
  event_type: delivery.eventType,
  payload: JSON.parse(body) as EventEnvelope,
  status: delivery.status,
  status_code: delivery.statusCode,
  attempts: delivery.attempts,
  next_attempt_at: isoTimeOrNull(delivery.nextAttemptAt),
  last_attempt_at: isoTimeOrNull(delivery.lastAttemptAt),
  response_body: delivery.responseBody,
  created_at: isoTime(delivery.createdAt),
  updated_at: isoTime(delivery.updatedAt),
});

export const presentAttempts = (attempts: DeliveryAttempt[]): z.output<typeof AttemptPage> => ({
  data: attempts.map((attempt) => ({
    number: attempt.number,
    started_at: isoTime(attempt.started_at),
    duration_ms: attempt.duration_ms,
    status_code: attempt.status_code,
    error: attempt.error,
  })),
  next_cursor: null,
});
