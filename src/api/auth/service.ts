import { clock } from '../core/clock';
import { inTransaction } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, unauthorized } from '../core/errors';
import { activateWaitingMemberships } from '../projects/service';
import { openAccount } from '../users/service';
import { guessCode } from './codes';
import { googlePerson } from './google';
import { openSession, revoke, rotate } from './sessions';
import type { OpenedSession } from './sessions';
import { familyNamedBy, signSessionToken } from './tokens';

export { requestCode } from './codes';
export { flushKeyUse } from './key-use';
export { digestOfSecret, newApiKeySecret } from './secrets';

/** A session as its holder gets it. */
export interface IssuedSession {
  accessToken: string;
  refreshToken: string;
  expiresAt: Date;
}

/**
 * Signs in by a mailed code. The right code is deleted in the transaction that opens the session, so that shown twice
 * at once it opens one; the first success of an address makes its account and activates memberships that wait for it.
 * Spec: Sign-in, rule 1; Sign-in code and sessions.
 * @param email a normalised address
 * @throws invalid_code when the code is wrong, expired or was never asked for; too_many_attempts when this wrong guess
 *   was the last one
 */
export async function verifyCode({ email, code }: { email: string; code: string }): Promise<IssuedSession> {
  const outcome = await inTransaction(async (tx): Promise<OpenedSession | 'wrong' | 'exhausted'> => {
    const guess = await guessCode({ email, code }, tx);
    if (guess !== 'right') return guess;
    return signIn({ email }, tx);
  });
  // Thrown out here, because a throw inside would take the count of the guess back.
  if (outcome === 'exhausted') throw new ApiError('too_many_attempts', 'Too many wrong codes; ask for a new one.');
  if (outcome === 'wrong') throw new ApiError('invalid_code', 'The code is wrong or has expired.');
  return issued(outcome);
}

/**
 * Signs in by an id token of Google; the account is that of its address, made when there is none. Each call opens
 * another session. Spec: Google.
 * @throws google_sign_in_not_configured, service_unavailable, unauthorized, email_not_verified
 */
export async function signInWithGoogle(idToken: string): Promise<IssuedSession> {
  const person = await googlePerson(idToken);
  return issued(await inTransaction((tx) => signIn(person, tx)));
}

/** What every way of signing in comes to, once the address is proven. */
async function signIn({ email, name }: { email: string; name?: string | null }, tx: Tx): Promise<OpenedSession> {
  const userId = await openAccount({ email, ...(name === undefined ? {} : { name }) }, tx);
  await activateWaitingMemberships({ userId, email }, tx);
  return openSession(userId, tx);
}

async function issued(session: OpenedSession): Promise<IssuedSession> {
  const { token, expiresAt } = await signSessionToken(session);
  return { accessToken: token, refreshToken: session.refreshToken, expiresAt };
}

/**
 * Goes on with a session by a refresh token. Repeating it is safe within `REFRESH_REUSE_GRACE`: a client whose answer
 * was lost shows the same token again. Spec: Refresh and revoke.
 * @param token as it was shown; undefined when there was none
 * @throws unauthorized for a token that is missing, unknown, expired, revoked, or spent too long ago, which also ends
 *   its session
 */
export async function refreshSession(token: string | undefined): Promise<IssuedSession> {
  if (token === undefined) throw unauthorized();
  const shownAt = clock.now();
  const outcome = await inTransaction((tx) => rotate({ token, shownAt }, tx));
  // Thrown out here, because a throw inside would take the end of the family back.
  if (outcome === 'refused') throw unauthorized();
  return issued(outcome);
}

/** What came with a logout. */
export interface LogoutInput {
  bearer: string | undefined;
  refreshTokens: string[];
  all: boolean;
}

/**
 * Ends the sessions that were shown, with `all` every session of their persons; API keys stay. A credential that names no
 * live session ends nothing and is no error: the person is signed out then. An API key names none, so that nobody who
 * holds one for a machine signs its person out. Safe to repeat. Spec: Refresh and revoke.
 * @throws unauthorized when nothing was shown at all
 */
export async function logOut({ bearer, refreshTokens, all }: LogoutInput): Promise<void> {
  if (bearer === undefined && refreshTokens.length === 0) throw unauthorized();
  const familyId = bearer === undefined ? null : await familyNamedBy(bearer);
  await revoke({ familyIds: familyId === null ? [] : [familyId], refreshTokens }, all);
}
