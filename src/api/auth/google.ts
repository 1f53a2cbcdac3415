import { createRemoteJWKSet, customFetch, errors, jwtVerify } from 'jose';
import type { JWTPayload, JWTVerifyGetKey } from 'jose';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { ApiError, unauthorized, unavailable } from '../core/errors';
import { errorFacts, log } from '../core/log';
import { outbound } from '../core/outbound';
import { MailAddress } from './addresses';

const ISSUERS = ['https://accounts.google.com', 'accounts.google.com'];
const ALGORITHM = 'RS256';
const CLOCK_TOLERANCE_SECONDS = 60;
const KEYS_TIMEOUT_MS = 5_000;
const KEYS_BYTES_MAX = 64 * 1024;
const NAME_CHARACTERS_MAX = 200;

/** Whom an id token proves. */
export interface GooglePerson {
  /** Normalised, and proven. */
  email: string;
  /** As Google has it, fit for an account; null when there is none. */
  name: string | null;
}

/** The provider's keys cannot be had, so nothing can be said about a token. */
class KeysUnavailable extends Error {}

/**
 * Reads an id token of Google. In this order: configured; signature by a published key, issuer, audience and time; a
 * proven address. Keys that cannot be fetched are 503: the token may well be good, and a 401 would send its holder away
 * instead of letting the client try again. Repeatable; asks Google for its keys at most now and then.
 * Spec: Google.
 * @throws google_sign_in_not_configured, service_unavailable, unauthorized, email_not_verified
 */
export async function googlePerson(idToken: string): Promise<GooglePerson> {
  const { GOOGLE_CLIENT_ID: clientId, GOOGLE_JWKS_URL: keysUrl } = config();
  if (clientId === undefined) {
    throw new ApiError('google_sign_in_not_configured', 'Google sign-in is not set up here.');
  }
  const claims = await claimsOf(idToken, { clientId, keys: keysAt(keysUrl) });
  if (claims === null) throw unauthorized();
  const email = MailAddress.safeParse(claims.email);
  // A text that says "true" is no proof: id tokens carry a boolean.
  if (claims.email_verified !== true || !email.success) {
    throw new ApiError('email_not_verified', 'Google has not verified the address of this account.');
  }
  return { email: email.data, name: nameOf(claims) };
}

async function claimsOf(
  idToken: string,
  { clientId, keys }: { clientId: string; keys: JWTVerifyGetKey },
): Promise<JWTPayload | null> {
  try {
    const { payload } = await jwtVerify(idToken, keys, {
      algorithms: [ALGORITHM],
      issuer: ISSUERS,
      audience: clientId,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: clock.now(),
      requiredClaims: ['iss', 'aud', 'sub', 'exp'],
    });
    // The library takes a list of audiences; ours is to stand alone.
    return payload.aud === clientId ? payload : null;
  } catch (error) {
    if (isAboutKeys(error)) {
      log.warn({ msg: 'keys of Google sign-in not to be had', ...errorFacts(error) });
      throw unavailable();
    }
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

const isAboutKeys = (error: unknown): boolean =>
  error instanceof KeysUnavailable || error instanceof errors.JWKSInvalid || error instanceof errors.JWKSTimeout;

let cached: { url: string; keys: JWTVerifyGetKey } | undefined;

/** The published keys, kept by the library: fetched when there are none, after ten minutes, and for a key that is new. */
function keysAt(url: string): JWTVerifyGetKey {
  if (cached?.url !== url) {
    cached = {
      url,
      keys: createRemoteJWKSet(new URL(url), { timeoutDuration: KEYS_TIMEOUT_MS, [customFetch]: fetchKeys }),
    };
  }
  return cached.keys;
}

/** One GET by our own outbound client, which looks at the address it goes to. */
async function fetchKeys(url: string, { signal }: { signal: AbortSignal }): Promise<Response> {
  try {
    const answer = await outbound().request({
      url,
      method: 'GET',
      headers: { accept: 'application/json' },
      timeoutMs: KEYS_TIMEOUT_MS,
      redirects: 'never',
      responseBytesMax: KEYS_BYTES_MAX,
      onTooLarge: 'fail',
      signal,
    });
    if (answer.status !== 200) throw new KeysUnavailable(`status ${String(answer.status)}`);
    return Response.json(JSON.parse(answer.body.toString('utf8')));
  } catch (error) {
    throw new KeysUnavailable('the keys could not be fetched', { cause: error });
  }
}

/** What the database and our own limits take of the provider's name. */
function nameOf({ name }: JWTPayload): string | null {
  if (typeof name !== 'string') return null;
  const plain = name.replace(/\p{Cc}+/gu, ' ').trim();
  const fitting = plain
    .slice(0, NAME_CHARACTERS_MAX)
    .replace(/\p{Surrogate}/gu, '')
    .trim();
  return fitting === '' ? null : fitting;
}
