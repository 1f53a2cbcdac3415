import { createHmac } from 'node:crypto';

/** Kind of every signing secret; part of the key of our own scheme, and stripped for the Standard Webhooks one. */
export const SECRET_PREFIX = 'whsec_';

/** One post, as it is signed. */
export interface Signable {
  deliveryId: string;
  eventId: string;
  eventType: string;
  /** The stored text, the same at every attempt. */
  body: string;
  /** The webhook's whole secret, prefix included. */
  secret: string;
  /** Time of this attempt, in Unix seconds. */
  atSeconds: number;
}

/**
 * Headers of one attempt, with both signatures: our own over `<t>.<body>` with the whole secret as key, and the one that
 * every Standard Webhooks library verifies. Pure; `t` is the attempt's own, so a retry is always fresh.
 * Spec: Events, Signing.
 */
export function signedHeaders({
  deliveryId,
  eventId,
  eventType,
  body,
  secret,
  atSeconds,
}: Signable): Record<string, string> {
  const t = String(atSeconds);
  const own = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex');
  const standardKey = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
  const standard = createHmac('sha256', standardKey).update(`${eventId}.${t}.${body}`).digest('base64');
  return {
    'Content-Type': 'application/json',
    'User-Agent': 'svc-webhooks/1',
    'X-Svc-Event': eventType,
    'X-Svc-Delivery': deliveryId,
    'X-Svc-Signature': `t=${t},v1=${own}`,
    'webhook-id': eventId,
    'webhook-timestamp': t,
    'webhook-signature': `v1,${standard}`,
  };
}
