import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { newId } from '../core/ids';
import { randomBase64Url } from '../core/random';
import { digestOfSecret } from './secrets';

const REFRESH_TOKEN_PREFIX = 'svc_rt_';
/** 43 characters of base64url. */
const REFRESH_TOKEN_BYTES = 32;
const DAY_SECONDS = 86_400;

/** How long a refresh token lives, and the cookie that carries it. */
export const sessionSeconds = (): number => config().SESSION_TTL_DAYS * DAY_SECONDS;

export interface OpenedSession {
  familyId: string;
  userId: string;
  /** In the clear only here; the row holds its digest. */
  refreshToken: string;
}

/** Opens a session family with its first refresh token, in the caller's transaction. Each call opens another one. */
export async function openSession(userId: string, tx: Tx): Promise<OpenedSession> {
  const familyId = newId('sessionFamily');
  const now = clock.now();
  await query(
    'insert into session_families (id, user_id, expires_at, created_at) values ($1, $2, $3, $4)',
    [familyId, userId, endOf(now), now],
    tx,
  );
  return { familyId, userId, refreshToken: await addToken(familyId, now, tx) };
}

const endOf = (now: Date): Date => shifted(now, sessionSeconds() * 1000);

async function addToken(familyId: string, now: Date, tx: Tx): Promise<string> {
  const refreshToken = REFRESH_TOKEN_PREFIX + randomBase64Url(REFRESH_TOKEN_BYTES);
  await query(
    'insert into refresh_tokens (hash, family_id, expires_at, created_at) values ($1, $2, $3, $4)',
    [digestOfSecret(refreshToken), familyId, endOf(now), now],
    tx,
  );
  return refreshToken;
}

/** What showing a refresh token comes to. */
export type Rotation = OpenedSession | 'refused';

interface Family {
  id: string;
  user_id: string;
  live: boolean;
}

/**
 * Spends a refresh token for another one of its family, whose life starts again. The family's row is the lock, so
 * tokens shown at once are judged one after the other. A token that was spent longer ago than `REFRESH_REUSE_GRACE` is
 * in two hands: it ends the family, newest token and access tokens included. The caller commits in every case, or that
 * end would be undone. Not repeatable: each call within the grace makes one more token.
 * Spec: Refresh and revoke.
 * @param shownAt when the request came, so that waiting for the lock makes no token stale
 */
export async function rotate({ token, shownAt }: { token: string; shownAt: Date }, tx: Tx): Promise<Rotation> {
  const hash = digestOfSecret(token);
  const family = await queryOne<Family>(
    `select id, user_id, revoked_at is null and expires_at > $2 as live from session_families
     where id = (select family_id from refresh_tokens where hash = $1) for update`,
    [hash, shownAt],
    tx,
  );
  if (family === null || !family.live) return 'refused';
  // Read after the lock is held: another request may have spent it meanwhile.
  const row = await queryOne<{ spent_at: Date | null }>(
    'select spent_at from refresh_tokens where hash = $1 and expires_at > $2',
    [hash, shownAt],
    tx,
  );
  if (row === null) return 'refused';
  const now = clock.now();
  if (row.spent_at !== null && row.spent_at < shifted(shownAt, -config().REFRESH_REUSE_GRACE * 1000)) {
    await query('update session_families set revoked_at = $2 where id = $1', [family.id, now], tx);
    return 'refused';
  }
  await query('update refresh_tokens set spent_at = coalesce(spent_at, $2) where hash = $1', [hash, now], tx);
  await query('update session_families set expires_at = $2 where id = $1', [family.id, endOf(now)], tx);
  return { familyId: family.id, userId: family.user_id, refreshToken: await addToken(family.id, now, tx) };
}

/** Families that a logout ends, by what was shown. */
export interface ShownSessions {
  familyIds: string[];
  refreshTokens: string[];
}

/**
 * Ends the live families that were shown, and with `all` every family of their users. What names no live family ends
 * none: a token of a session that is over has no say about others. Access tokens of the families stop with it, since
 * each request reads the family. Safe to repeat. Spec: Refresh and revoke.
 */
export async function revoke({ familyIds, refreshTokens }: ShownSessions, all: boolean): Promise<void> {
  const now = clock.now();
  const shown = `f.revoked_at is null and f.expires_at > $3 and (f.id = any($1::text[])
    or f.id in (select t.family_id from refresh_tokens t where t.hash = any($2::bytea[])))`;
  // In the order of their ids, so that two logouts of one person at once do not wait for each other in a ring.
  const which = all
    ? `s.user_id in (select f.user_id from session_families f where ${shown})`
    : `s.id in (select f.id from session_families f where ${shown})`;
  await query(
    `update session_families set revoked_at = $3 where id in (
       select s.id from session_families s where ${which} and s.revoked_at is null and s.expires_at > $3 order by s.id for update)`,
    [familyIds, refreshTokens.map(digestOfSecret), now],
  );
}
