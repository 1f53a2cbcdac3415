import { createHash } from 'node:crypto';
import { SignJWT, errors, jwtVerify } from 'jose';
import type { JWTHeaderParameters, JWTPayload } from 'jose';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { signingKey, verifyingKeys } from '../core/keys';
import { randomBase64Url } from '../core/random';

const ALGORITHM = 'HS256';
const TYPE = 'JWT';
const AUDIENCE = 'svc:session';
const CLOCK_TOLERANCE_SECONDS = 30;
const JTI_BYTES = 12;

/** What a session token proves: a person, by a session family. */
export interface SessionClaims {
  userId: string;
  familyId: string;
}

/** A key is named by a digest of itself, so that a rotation of secrets needs no list of names. */
const keyIdOf = (key: Buffer): string => createHash('sha256').update('kid').update(key).digest('hex').slice(0, 8);

/**
 * Makes the access token of a session. It carries no role, plan or address: those are read anew at each request.
 * Spec: Authentication; the life is `ACCESS_TOKEN_TTL_SECONDS`.
 */
export async function signSessionToken({
  userId,
  familyId,
}: SessionClaims): Promise<{ token: string; expiresAt: Date }> {
  const key = signingKey('session-token');
  const issuedAt = Math.floor(clock.ms() / 1000);
  const expiresAt = issuedAt + Math.ceil(config().ACCESS_TOKEN_TTL_SECONDS);
  const token = await new SignJWT({ sid: familyId })
    .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid: keyIdOf(key) })
    .setIssuer(config().PUBLIC_BASE_URL)
    .setAudience(AUDIENCE)
    .setSubject(userId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt)
    .setJti(randomBase64Url(JTI_BYTES))
    .sign(key);
  return { token, expiresAt: new Date(expiresAt * 1000) };
}

/** What a session token proves, or null when it is not one of ours, or not any more. Whether its family lives is not asked. */
export const verifySessionToken = (token: string): Promise<SessionClaims | null> =>
  verify(token, CLOCK_TOLERANCE_SECONDS);

/**
 * The family that a session token names, be its own time over or not: whoever comes back to log out after a while has
 * no other. Of no use but to end that family. Null when it is not one of ours.
 */
export const familyNamedBy = async (token: string): Promise<string | null> =>
  (await verify(token, anyAge()))?.familyId ?? null;

/** A tolerance that takes in every time since the epoch. */
const anyAge = (): number => clock.ms() / 1000;

async function verify(token: string, clockTolerance: number): Promise<SessionClaims | null> {
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keyNamedBy, {
      algorithms: [ALGORITHM],
      issuer: config().PUBLIC_BASE_URL,
      audience: AUDIENCE,
      clockTolerance,
      currentDate: clock.now(),
      requiredClaims: ['iss', 'aud', 'sub', 'sid', 'iat', 'exp', 'jti'],
    });
    return protectedHeader.typ === TYPE ? claimsOf(payload) : null;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

/** The verifying key that the header names. */
function keyNamedBy(header: JWTHeaderParameters): Buffer {
  const key = verifyingKeys('session-token').find((candidate) => keyIdOf(candidate) === header.kid);
  if (key === undefined) throw new errors.JWSInvalid('unknown key');
  return key;
}

/** The library takes a list of audiences, and a time of issue that is still to come; we take neither. */
function claimsOf({ aud, sub, sid, iat }: JWTPayload): SessionClaims | null {
  if (aud !== AUDIENCE || sub === undefined || typeof sid !== 'string' || iat === undefined) return null;
  if (iat > clock.ms() / 1000 + CLOCK_TOLERANCE_SECONDS) return null;
  return { userId: sub, familyId: sid };
}
