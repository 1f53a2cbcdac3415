import { createHash, createPrivateKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { clock } from './clock';
import { outbound } from './outbound';

/** Where every token request goes, whatever a key file says. An object, so that tests can put their own server here. */
export const googleTokenEndpoint = { url: 'https://oauth2.googleapis.com/token' };

/** What the token is for; also the assertion's audience, as Google asks for it. */
const AUDIENCE = 'https://oauth2.googleapis.com/token';
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const ASSERTION_SECONDS = 3600;
/** A token is not used in its last minute: it has to last for the call that it is fetched for. */
const MARGIN_MS = 60_000;
const TOKEN_SECONDS_MAX = 3600;
const REQUEST_MS = 10_000;
const ANSWER_BYTES_MAX = 64 * 1024;
const TOKENS_MAX = 1_000;
/** A tenant's key costs us the time to sign with it: no larger ones than Google makes. */
const KEY_BITS = { min: 2048, max: 4096 };

/** A key file that cannot be used; the message says why and holds nothing of it. */
export class GoogleKeyError extends Error {}

/** Google refused the key, or answered what is no token. */
export class GoogleTokenError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** What was answered, as it came. */
    readonly answered: { body: string; retryAfter?: string | undefined },
  ) {
    super(message);
  }
}

export interface ServiceAccount {
  clientEmail: string;
  /** Null when the file names none. */
  projectId: string | null;
  privateKeyId: string | null;
  privateKey: KeyObject;
}

const KeyFile = z.object({
  type: z.literal('service_account'),
  client_email: z.string().min(3).max(320),
  private_key: z.string().min(1),
  private_key_id: z.string().max(256).optional(),
  project_id: z.string().max(256).optional(),
});
const TokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number().positive().optional() });
const TokenRefusal = z.object({ error: z.string().optional(), error_description: z.string().optional() });

interface CachedToken {
  token: string;
  expiresAtMs: number;
}

/** Access tokens only, by the digest of what they were asked with: no key is kept. */
const tokens = new LRUCache<string, CachedToken>({ max: TOKENS_MAX });

/**
 * Reads a service account's key file. Nothing in it but the account's name, its key and its project is looked at.
 * @throws GoogleKeyError for another kind of file (`type` other than `service_account`), or a key that cannot sign
 */
export function serviceAccountOf(keyFile: string): ServiceAccount {
  const parsed = KeyFile.safeParse(jsonOf(keyFile));
  if (!parsed.success) throw new GoogleKeyError('not the key file of a service account');
  const { client_email: clientEmail, private_key_id: keyId, project_id: projectId, private_key: pem } = parsed.data;
  return {
    clientEmail,
    projectId: projectId ?? null,
    privateKeyId: keyId ?? null,
    privateKey: privateKeyOf(pem),
  };
}

/**
 * An access token for a service account: signed here, asked for with our outbound client at Google's fixed address, and
 * kept in this process until shortly before it expires. Repeatable.
 * @param keyFile the key file's text
 * @param scopes OAuth scopes, full URLs
 * @throws GoogleKeyError, GoogleTokenError, OutboundError
 * Spec: Providers, secret shapes; Tools, `gcp_service_account`.
 */
export async function googleAccessToken(asked: {
  keyFile: string;
  scopes: readonly string[];
  signal?: AbortSignal;
}): Promise<string> {
  const scope = asked.scopes.join(' ');
  const id = createHash('sha256').update(`${googleTokenEndpoint.url}\n${scope}\n${asked.keyFile}`).digest('base64');
  const kept = tokens.get(id);
  if (kept !== undefined && kept.expiresAtMs - MARGIN_MS > clock.ms()) return kept.token;
  tokens.delete(id);
  const assertion = await assertionOf(serviceAccountOf(asked.keyFile), scope);
  const fresh = await requestToken(assertion, asked.signal);
  tokens.set(id, fresh);
  return fresh.token;
}

async function assertionOf(account: ServiceAccount, scope: string): Promise<string> {
  const now = Math.floor(clock.ms() / 1000);
  const header = account.privateKeyId === null ? {} : { kid: account.privateKeyId };
  return new SignJWT({ scope })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', ...header })
    .setIssuer(account.clientEmail)
    .setAudience(AUDIENCE)
    .setIssuedAt(now)
    .setExpirationTime(now + ASSERTION_SECONDS)
    .sign(account.privateKey);
}

async function requestToken(assertion: string, signal: AbortSignal | undefined): Promise<CachedToken> {
  const askedAtMs = clock.ms();
  const answer = await outbound().request({
    url: googleTokenEndpoint.url,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    body: new URLSearchParams({ grant_type: GRANT, assertion }).toString(),
    timeoutMs: REQUEST_MS,
    redirects: 'never',
    responseBytesMax: ANSWER_BYTES_MAX,
    onTooLarge: 'fail',
    ...(signal === undefined ? {} : { signal }),
  });
  const body = answer.body.toString('utf8');
  if (answer.status !== 200) throw refusalOf(answer.status, body, answer.headers['retry-after']);
  const parsed = TokenAnswer.safeParse(jsonOf(body));
  if (!parsed.success) throw new GoogleTokenError(answer.status, 'the token answer could not be read', { body });
  const seconds = Math.min(parsed.data.expires_in ?? TOKEN_SECONDS_MAX, TOKEN_SECONDS_MAX);
  return { token: parsed.data.access_token, expiresAtMs: askedAtMs + seconds * 1000 };
}

function refusalOf(status: number, body: string, retryAfter: string | undefined): GoogleTokenError {
  const { error, error_description: description } = TokenRefusal.safeParse(jsonOf(body)).data ?? {};
  const said = [error, description].filter((text) => text !== undefined).join(': ');
  return new GoogleTokenError(status, said === '' ? 'the token request was refused' : said, { body, retryAfter });
}

function privateKeyOf(pem: string): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: pem, format: 'pem' });
  } catch {
    throw new GoogleKeyError('the private key cannot be read');
  }
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (key.asymmetricKeyType !== 'rsa' || bits < KEY_BITS.min || bits > KEY_BITS.max) {
    throw new GoogleKeyError(`the private key must be RSA of ${String(KEY_BITS.min)} to ${String(KEY_BITS.max)} bits`);
  }
  return key;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
