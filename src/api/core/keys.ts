import { createHmac, hkdfSync } from 'node:crypto';
import { config } from './config';

/** What a derived key is for; every server-side key comes from `JWT_SECRET` by HKDF-SHA256 with the purpose as info. */
export type KeyPurpose = 'session-token' | 'code-hash' | 'cursor' | 'request-hash';

const derived = new Map<string, Buffer>();

function derive(secret: string, purpose: KeyPurpose): Buffer {
  const name = `${purpose}/${secret}`;
  let key = derived.get(name);
  if (key === undefined) {
    key = Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), `svc:${purpose}`, 32));
    derived.set(name, key);
  }
  return key;
}

/** The key that signs now. */
export const signingKey = (purpose: KeyPurpose): Buffer => derive(config().JWT_SECRET, purpose);

/** Every key that may still verify: the present one first, then those of `JWT_SECRETS_PREVIOUS`. */
export const verifyingKeys = (purpose: KeyPurpose): Buffer[] =>
  [config().JWT_SECRET, ...config().JWT_SECRETS_PREVIOUS].map((secret) => derive(secret, purpose));

/** HMAC-SHA256 of a text under the present key of that purpose. */
export const hmac = (purpose: KeyPurpose, text: string): Buffer => hmacWith(signingKey(purpose), text);

/** HMAC-SHA256 of a text under a given key. */
export const hmacWith = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
