import { inTransaction } from '../core/db';
import { ApiError } from '../core/errors';
import { activateWaitingMemberships } from '../projects/service';
import { openAccount } from '../users/service';
import { guessCode, settleMailStarts } from './codes';
import { flushKeyUse } from './key-use';
import { openSession } from './sessions';
import type { OpenedSession } from './sessions';
import { signSessionToken } from './tokens';

export { requestCode } from './codes';
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
    const userId = await openAccount(email, tx);
    await activateWaitingMemberships({ userId, email }, tx);
    return openSession(userId, tx);
  });
  // Thrown out here, because a throw inside would take the count of the guess back.
  if (outcome === 'exhausted') throw new ApiError('too_many_attempts', 'Too many wrong codes; ask for a new one.');
  if (outcome === 'wrong') throw new ApiError('invalid_code', 'The code is wrong or has expired.');
  const { token, expiresAt } = await signSessionToken(outcome);
  return { accessToken: token, refreshToken: outcome.refreshToken, expiresAt };
}

/**
 * Ends what answers did not wait for: starts of mails, and uses of keys that are still to be written. A process calls it
 * after its last request and before it closes database and engine. Safe to repeat; takes a few seconds at most.
 */
export async function drainAuth(): Promise<void> {
  await Promise.all([settleMailStarts(), flushKeyUse()]);
}
