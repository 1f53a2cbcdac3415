import { z } from 'zod';
import { config } from '../core/config';
import { eventTypes } from '../core/events';
import { idOf } from '../core/ids';
import { egressPolicy } from '../core/outbound';
import { CursorQuery, cursorPage } from '../core/pages';
import { isSubscribable } from './patterns';

const URL_LENGTH_MAX = 2_048;
const DESCRIPTION_LENGTH_MAX = 500;
const EVENTS_MAX = 50;
const FILTER_LENGTH_MAX = 255;

/** The database takes any text but one with this character. */
const storable = (text: string): boolean => !text.includes('\u0000');

const url = z
  .string()
  .max(URL_LENGTH_MAX)
  .superRefine((text, context) => {
    if (text.length > URL_LENGTH_MAX) return; // Said already.
    const verdict = egressPolicy().checkUrl(text, { allowHttp: config().WEBHOOK_ALLOW_HTTP });
    if (!verdict.ok) context.addIssue({ code: 'custom', message: verdict.reason });
  })
  .meta({
    description: 'HTTPS endpoint that receives POSTs; its host must be public',
    example: 'https://example.com/hook',
  });

const events = z
  .array(
    z
      .string()
      .refine(isSubscribable, 'must be an event of the catalog, `<resource>.*` or `*`')
      .meta({ description: 'An event of the catalog, `<resource>.*` or `*`', example: 'generation.*' }),
  )
  .min(1)
  .max(EVENTS_MAX)
  .meta({ description: 'What the endpoint subscribes to; duplicates are dropped, the order is kept' });

const description = z
  .string()
  .max(DESCRIPTION_LENGTH_MAX)
  .refine(storable, 'must not hold the character U+0000')
  .nullable()
  .meta({ description: 'Label' });

const active = z.boolean().meta({ description: 'Whether events become deliveries; switching off keeps the history' });

export const WebhookCreate = z
  .strictObject({
    url,
    events,
    description: description.default(null),
    active: active.default(true),
  })
  .meta({ id: 'WebhookCreate' });

export const WebhookUpdate = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    description: description.optional(),
    active: active.optional(),
  })
  .meta({ id: 'WebhookUpdate' });

export const WebhookPath = z.object({ webhook_id: idOf('webhook') });
export const DeliveryPath = z.object({ delivery_id: idOf('delivery') });

const webhookFields = {
  id: idOf('webhook'),
  project_id: z.string().meta({ description: 'The project that owns it' }),
  url: z.string().meta({ description: 'HTTPS endpoint that receives POSTs' }),
  events: z.array(z.string()).meta({ description: 'Exact event types, `<resource>.*` wildcards, or `*`' }),
  description: z.string().nullable().meta({ description: 'Label' }),
  active: z.boolean().meta({ description: 'Whether events become deliveries' }),
  created_at: z.iso.datetime().meta({ description: 'When it was registered' }),
  updated_at: z.iso.datetime().meta({ description: 'When it was last changed' }),
};

export const WebhookOut = z.strictObject(webhookFields).meta({ id: 'Webhook' });

export const WebhookWithSecret = z
  .strictObject({
    ...webhookFields,
    secret: z.string().meta({ description: 'Signing secret; shown here only and not readable later' }),
  })
  .meta({ id: 'WebhookWithSecret' });

export const WebhookPage = cursorPage(WebhookOut).meta({ id: 'WebhookPage' });

const EventEnvelopeOut = z
  .strictObject({
    id: idOf('event'),
    type: z.enum(eventTypes).meta({ description: 'Name of the event' }),
    project_id: z.string().meta({ description: 'The project in which it happened' }),
    resource_type: z.string().meta({ description: 'Kind of the resource that changed' }),
    resource_id: z.string().meta({ description: 'The resource that changed' }),
    data: z
      .record(z.string(), z.unknown())
      .meta({ description: 'The resource as its own API returned it at the event' }),
    created_at: z.iso.datetime().meta({ description: 'When it happened' }),
  })
  .meta({ id: 'EventEnvelope' });

const statuses = ['pending', 'success', 'failed'] as const;

export const DeliveryOut = z
  .strictObject({
    id: idOf('delivery'),
    project_id: z.string().meta({ description: 'The project that owns it' }),
    webhook_id: idOf('webhook'),
    event_id: z.string().meta({ description: 'The event, shared by every delivery and redelivery of it' }),
    event_type: z.string().meta({ description: 'Sent as header `X-Svc-Event`' }),
    payload: EventEnvelopeOut.meta({ description: 'The envelope that is signed and sent' }),
    status: z.enum(statuses).meta({ description: 'Pending until an attempt succeeds or the last one failed' }),
    status_code: z.int().nullable().meta({ description: 'Status of the last answer; null when there was none' }),
    attempts: z.int().meta({ description: 'Attempts made so far' }),
    next_attempt_at: z.iso
      .datetime()
      .nullable()
      .meta({ description: 'Planned time of the next one; null once settled' }),
    last_attempt_at: z.iso.datetime().nullable().meta({ description: 'When the last one began' }),
    response_body: z.string().nullable().meta({ description: 'Beginning of the last answer, or the transport error' }),
    created_at: z.iso.datetime().meta({ description: 'When the delivery was recorded' }),
    updated_at: z.iso.datetime().meta({ description: 'When the delivery last changed' }),
  })
  .meta({ id: 'WebhookDelivery' });

export const DeliveryPage = cursorPage(DeliveryOut).meta({ id: 'WebhookDeliveryPage' });

const filter = z
  .string()
  .min(1)
  .max(FILTER_LENGTH_MAX)
  .refine(storable, 'must not hold the character U+0000')
  .optional();

export const DeliveryQuery = CursorQuery.extend({
  webhook_id: filter.meta({ description: 'Deliveries to this endpoint' }),
  status: z.enum(statuses).optional().meta({ description: 'Deliveries in this state' }),
  event_type: filter.meta({ description: 'Deliveries of exactly this event type' }),
  event_id: filter.meta({ description: 'Deliveries of this event' }),
});

const AttemptOut = z
  .strictObject({
    number: z.int().meta({ description: 'From 1' }),
    started_at: z.iso.datetime().meta({ description: 'When the request was made' }),
    duration_ms: z.int().meta({ description: 'Milliseconds until the whole answer, or the error' }),
    status_code: z.int().nullable().meta({ description: 'Status of the answer; null when there was none' }),
    error: z.string().nullable().meta({ description: 'The transport error; null when there was an answer' }),
  })
  .meta({ id: 'WebhookDeliveryAttempt' });

export const AttemptPage = z
  .strictObject({
    data: z.array(AttemptOut).meta({ description: 'The counted attempts, first one first' }),
    next_cursor: z.null().meta({ description: 'Always null: a delivery has at most five attempts' }),
  })
  .meta({ id: 'WebhookDeliveryAttemptPage' });

export const Recovery = z
  .strictObject({
    since: z.iso
      .datetime({ offset: true })
      .meta({ description: 'Failed deliveries from then on; at most as long ago as deliveries are kept' }),
  })
  .meta({ id: 'WebhookRecovery' });

export const RecoveryOut = z
  .strictObject({ count: z.int().meta({ description: 'Redeliveries made, at most 1,000 a call' }) })
  .meta({ id: 'WebhookRecoveryResult' });
