import { createHash } from 'node:crypto';
import { SignJWT, importPKCS8 } from 'jose';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { clock } from './clock';
import { OutboundError } from './http';
import { outbound } from './outbound';

/** The address that tokens are meant for, whatever a key file says of its own. */
const AUDIENCE = 'https://oauth2.googleapis.com/token';
const ASKED_SECONDS = 3600;
/** A token is not used in its last minute: a call takes its time. */
const SPARE_SECONDS = 60;
const TIMEOUT_MS = 30_000;
const ANSWER_BYTES_MAX = 64 * 1024;
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** Where tokens are asked for; only tests replace it. */
export const googleTokenEndpoint = { url: AUDIENCE };

/** No token: the key file cannot be used (`status` null), or the endpoint refused it. */
export class GoogleTokenError extends Error {
  constructor(
    message: string,
    readonly status: number | null = null,
    readonly body: string | null = null,
  ) {
    super(message);
  }
}

const KeyFile = z.object({
  type: z.literal('service_account'),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
});

const Answer = z.object({ access_token: z.string().min(1), expires_in: z.number().positive().optional() });

const kept = new LRUCache<string, { token: string; untilMs: number }>({ max: 500 });

export interface AccessTokenRequest {
  /** Text of the JSON key file. */
  keyFile: string;
  scopes: string[];
  signal?: AbortSignal;
}

/**
 * An access token of a Google service account, kept until a minute before it ends. Safe to repeat.
 * @throws GoogleTokenError; OutboundError of kind `egress_blocked` or `aborted`
 */
export async function accessToken({ keyFile, scopes, signal }: AccessTokenRequest): Promise<string> {
  const key = createHash('sha256')
    .update(JSON.stringify([keyFile, scopes, googleTokenEndpoint.url]))
    .digest('base64');
  const held = kept.get(key);
  if (held !== undefined && held.untilMs > clock.ms()) return held.token;
  const fresh = await askFor(await assertionOf(keyFile, scopes), signal);
  const seconds = (fresh.expires_in ?? ASKED_SECONDS) - SPARE_SECONDS;
  if (seconds > 0) kept.set(key, { token: fresh.access_token, untilMs: clock.ms() + seconds * 1000 });
  return fresh.access_token;
}

async function assertionOf(keyFile: string, scopes: string[]): Promise<string> {
  const parsed = KeyFile.safeParse(jsonOf(keyFile));
  if (!parsed.success) throw new GoogleTokenError('The key file is none of a service account.');
  const { client_email: email, private_key: pem, private_key_id: keyId } = parsed.data;
  const privateKey = await importPKCS8(pem, 'RS256').catch(() => {
    throw new GoogleTokenError('The private key of the key file cannot be read.');
  });
  const nowSeconds = Math.floor(clock.ms() / 1000);
  return new SignJWT({ scope: scopes.join(' ') })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', ...(keyId === undefined ? {} : { kid: keyId }) })
    .setIssuer(email)
    .setAudience(AUDIENCE)
    .setIssuedAt(nowSeconds)
    .setExpirationTime(nowSeconds + ASKED_SECONDS)
    .sign(privateKey);
}

async function askFor(assertion: string, signal: AbortSignal | undefined): Promise<z.output<typeof Answer>> {
  const { status, body } = await outbound()
    .request({
      url: googleTokenEndpoint.url,
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'application/json' },
      body: new URLSearchParams({ grant_type: GRANT, assertion }).toString(),
      timeoutMs: TIMEOUT_MS,
      responseBytesMax: ANSWER_BYTES_MAX,
      onTooLarge: 'truncate',
      redirects: 'never',
      ...(signal === undefined ? {} : { signal }),
    })
    .catch((error: unknown) => {
      const passesOn = !(error instanceof OutboundError) || error.kind === 'egress_blocked' || error.kind === 'aborted';
      throw passesOn ? error : new GoogleTokenError(`The token endpoint could not be asked: ${error.detail}.`);
    });
  const text = body.toString();
  const answer = Answer.safeParse(jsonOf(text));
  if (status !== 200 || !answer.success) {
    throw new GoogleTokenError(`The token endpoint answered ${String(status)}.`, status, text);
  }
  return answer.data;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
