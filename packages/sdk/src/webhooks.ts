import { WebhookVerificationError } from './errors';
import type { WebhookEvent } from './types';

/** Headers of a request as servers give them: `Headers`, or Node's own object. */
export type HeadersLike =
  { get: (name: string) => string | null } | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How far the time of the signature may be from ours, in seconds; 300 by default. */
  toleranceSeconds?: number;
  /** Unix time in milliseconds, for tests. */
  now?: () => number;
}

const SECRET_PREFIX = 'whsec_';
const encoder = new TextEncoder();

function header(headers: HeadersLike, name: string): string | null {
  if (typeof headers.get === 'function') return (headers as { get: (name: string) => string | null }).get(name);
  const found = Object.entries(headers as Record<string, string | readonly string[] | undefined>).find(
    ([key]) => key.toLowerCase() === name,
  );
  const value = found?.[1];
  return value === undefined ? null : typeof value === 'string' ? value : value.join(' ');
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

const hmacKey = (bytes: Uint8Array<ArrayBuffer>) =>
  crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);

async function keyOf(secret: string): ReturnType<typeof hmacKey> {
  const bytes = secret.startsWith(SECRET_PREFIX) ? fromBase64(secret.slice(SECRET_PREFIX.length)) : null;
  if (bytes === null || bytes.length === 0) {
    throw new WebhookVerificationError('secret', 'A secret is the text whsec_… that the webhook was made with.');
  }
  return hmacKey(bytes);
}

/** The signatures of the version that is known; there may be several while a secret is changed. */
const signaturesIn = (value: string): Uint8Array<ArrayBuffer>[] =>
  value
    .split(' ')
    .filter((part) => part.startsWith('v1,'))
    .map((part) => fromBase64(part.slice('v1,'.length)))
    .filter((bytes) => bytes !== null);

function checkTime(text: string, { toleranceSeconds = 300, now = Date.now }: VerifyOptions): void {
  if (!/^\d{1,12}$/.test(text)) throw new WebhookVerificationError('headers', 'webhook-timestamp is no Unix time.');
  if (Math.abs(now() / 1000 - Number(text)) > toleranceSeconds) {
    throw new WebhookVerificationError('timestamp', 'The delivery is too old, or the clocks are apart.');
  }
}

function bytesOf(payload: string | Uint8Array | ArrayBuffer): Uint8Array {
  if (typeof payload === 'string') return encoder.encode(payload);
  return payload instanceof ArrayBuffer ? new Uint8Array(payload) : payload;
}

function joined(head: string, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const start = encoder.encode(head);
  const all = new Uint8Array(start.length + payload.length);
  all.set(start);
  all.set(payload, start.length);
  return all;
}

/**
 * Verifies a delivery and answers its event. Compares in constant time, refuses old posts, and takes any of several secrets
 * (while one is being changed) against any of several signatures. An event may come twice: its `id` is the same each time.
 * @param payload the raw body, before anything parsed it: other bytes have another signature
 * @throws WebhookVerificationError
 */
export async function verifyWebhook(
  payload: string | Uint8Array | ArrayBuffer,
  headers: HeadersLike,
  secrets: string | readonly string[],
  options: VerifyOptions = {},
): Promise<WebhookEvent> {
  const [id, time, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    header(headers, name),
  );
  if (id == null || time == null || signature == null) {
    throw new WebhookVerificationError('headers', 'webhook-id, webhook-timestamp or webhook-signature is missing.');
  }
  checkTime(time, options);
  const keys = await Promise.all((typeof secrets === 'string' ? [secrets] : secrets).map(keyOf));
  if (keys.length === 0) throw new WebhookVerificationError('secret', 'No secret was given.');
  const bytes = bytesOf(payload);
  const signed = joined(`${id}.${time}.`, bytes);
  const pairs = signaturesIn(signature).flatMap((given) => keys.map((key) => ({ key, given })));
  const matches = await Promise.all(pairs.map(({ key, given }) => crypto.subtle.verify('HMAC', key, given, signed)));
  if (!matches.includes(true)) {
    throw new WebhookVerificationError('signature', 'No signature matches body and secret.');
  }
  return eventOf(bytes, id);
}

function eventOf(bytes: Uint8Array, id: string): WebhookEvent {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as WebhookEvent;
    if (event.id === id) return event;
  } catch {
    // Said below.
  }
  throw new WebhookVerificationError('payload', 'The body is not the event that its headers name.');
}
