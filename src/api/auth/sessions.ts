import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query } from '../core/db';
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
  const refreshToken = REFRESH_TOKEN_PREFIX + randomBase64Url(REFRESH_TOKEN_BYTES);
  const now = clock.now();
  const expiresAt = shifted(now, sessionSeconds() * 1000);
  await query(
    'insert into session_families (id, user_id, expires_at, created_at) values ($1, $2, $3, $4)',
    [familyId, userId, expiresAt, now],
    tx,
  );
  await query(
    'insert into refresh_tokens (hash, family_id, expires_at, created_at) values ($1, $2, $3, $4)',
    [digestOfSecret(refreshToken), familyId, expiresAt, now],
    tx,
  );
  return { familyId, userId, refreshToken };
}
