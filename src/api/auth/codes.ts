import { timingSafeEqual } from 'node:crypto';
import { codeMailId } from '../../workflows/mail.contract';
import type { MailInput } from '../../workflows/mail.contract';
import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError } from '../core/errors';
import { faultPoint } from '../core/faults';
import { newId } from '../core/ids';
import { hmac, hmacWith, verifyingKeys } from '../core/keys';
import { errorFacts, log } from '../core/log';
import { randomDigits } from '../core/random';
import { takeFromWindows } from '../core/sliding-windows';
import { starts } from '../core/starts';
import { startRun } from '../core/temporal';

const CODE_DIGITS = 6;

/** The hash covers the row's id too, so that a hash tells nothing about another code. */
const hashedText = (codeId: string, code: string): string => `${codeId}${code}`;

/**
 * Accepts a request for a sign-in code: the former code of the address goes, a new row without a hash takes its place,
 * and the mail is left to the workflow. What happens depends on the address's own requests only, never on whether it
 * has an account or is suppressed. Not idempotent: each accepted call replaces the code and counts.
 * Spec: Sign-in; Limits.
 * @param email a normalised address
 * @throws too_many_requests with `Retry-After`; the live code is not touched then
 */
export async function requestCode({ email, requestId }: { email: string; requestId: string }): Promise<void> {
  const codeId = newId('code');
  await inTransaction(async (tx) => {
    await countRequest(email, tx);
    const now = clock.now();
    await query('delete from sign_in_codes where email = $1', [email], tx);
    await query(
      'insert into sign_in_codes (id, email, expires_at, created_at) values ($1, $2, $3, $4)',
      [codeId, email, shifted(now, config().AUTH_CODE_TTL_SECONDS * 1000), now],
      tx,
    );
  });
  await starts.begin(() => startMail(codeId, requestId));
}

/** Also has requests for one address wait for each other, so that the later one replaces the code of the earlier. */
async function countRequest(email: string, tx: Tx): Promise<void> {
  const windows = [
    { windowSeconds: 60, limit: config().AUTH_CODE_PER_MINUTE },
    { windowSeconds: 86_400, limit: config().AUTH_CODE_PER_DAY },
  ];
  const seconds = await takeFromWindows({ kind: 'sign-in codes', key: email, windows }, tx);
  if (seconds === null) return;
  throw new ApiError('too_many_requests', 'This address has asked for too many codes.', {
    headers: { 'Retry-After': String(seconds) },
  });
}

/** The answer does not wait for the engine, and a start that fails is made by the sweep. */
async function startMail(codeId: string, requestId: string): Promise<void> {
  const input: MailInput = { codeId };
  try {
    await faultPoint('code-committed');
    await startRun({
      type: 'mail',
      id: codeMailId(codeId),
      args: [input],
      labels: { resourceType: 'sign_in_code', resourceId: codeId },
      memo: { requestId, trigger: 'api' },
    });
  } catch (error) {
    log.warn({ msg: 'mail not started, left to the sweep', code_id: codeId, ...errorFacts(error) });
  }
}

export type Guess = 'right' | 'wrong' | 'exhausted';

interface LiveCode {
  id: string;
  hash: Buffer | null;
  guesses: number;
}

/**
 * Holds a code against the live one of an address. The row is locked, so guesses made at once are counted one by one,
 * and of two right ones only the first finds the row. A right guess deletes the code, and so does the last wrong one
 * (`exhausted`). The caller commits in every case, or the guess would not count. Spec: Sign-in code and sessions.
 * @param email a normalised address
 */
export async function guessCode({ email, code }: { email: string; code: string }, tx: Tx): Promise<Guess> {
  const live = await queryOne<LiveCode>(
    'select id, hash, guesses from sign_in_codes where email = $1 and expires_at > $2 for update',
    [email, clock.now()],
    tx,
  );
  if (live === null) return 'wrong';
  const right = isCodeOf(live, code);
  const exhausted = !right && live.guesses + 1 >= config().AUTH_CODE_MAX_GUESSES;
  if (right || exhausted) await query('delete from sign_in_codes where id = $1', [live.id], tx);
  else await query('update sign_in_codes set guesses = guesses + 1 where id = $1', [live.id], tx);
  if (right) return 'right';
  return exhausted ? 'exhausted' : 'wrong';
}

/** A row without a hash has no right code yet; its wrong guesses count all the same, as they do for everybody. */
function isCodeOf({ id, hash }: LiveCode, code: string): boolean {
  if (hash === null) return false;
  return verifyingKeys('code-hash').some((key) => timingSafeEqual(hash, hmacWith(key, hashedText(id, code))));
}

/** A code that is to be mailed; it exists in memory only. */
export interface PreparedCode {
  email: string;
  code: string;
  expiresAt: Date;
}

/**
 * Makes the code of a request and stores its hash; marks the row as seen by its run in the same statement. Repeating it
 * makes a fresh code, and the former one stops working.
 * @returns `gone` when the row was superseded or used; `unsendable` when it is expired, or its address is suppressed
 */
export async function prepareCode(codeId: string): Promise<PreparedCode | 'gone' | 'unsendable'> {
  const code = randomDigits(CODE_DIGITS);
  const row = await queryOne<{ email: string; expires_at: Date; sendable: boolean }>(
    `update sign_in_codes c set hash = case when s.sendable then $2::bytea else null end,
       run_seen_at = coalesce(c.run_seen_at, $3)
     from (select id, expires_at > $3 and email not in (select email from suppressed_addresses) as sendable
       from sign_in_codes where id = $1) s
     where c.id = s.id
     returning c.email, c.expires_at, s.sendable`,
    [codeId, hmac('code-hash', hashedText(codeId, code)), clock.now()],
  );
  if (row === null) return 'gone';
  return row.sendable ? { email: row.email, code, expiresAt: row.expires_at } : 'unsendable';
}

/** Sends no more mail to an address whose server refuses it for good. Safe to repeat; a former reason stays. */
export async function recordBounce(email: string): Promise<void> {
  await query(
    `insert into suppressed_addresses (email, reason, created_at) values ($1, 'bounce', $2) on conflict do nothing`,
    [email, clock.now()],
  );
}
