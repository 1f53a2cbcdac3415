import { timingSafeEqual } from 'node:crypto';
import { clock, shifted } from '../core/clock';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError } from '../core/errors';
import { hmac, hmacWith, verifyingKeys } from '../core/keys';

const REMEMBERED_MS = 24 * 60 * 60 * 1000;

/** A key of its user for one request; `request` is the whole body but the key. */
export interface IdempotencyClaim {
  userId: string;
  key: string;
  request: Record<string, unknown>;
}

/** The order in which a client writes the properties says nothing. */
const canonical = (request: Record<string, unknown>): string =>
  JSON.stringify(Object.entries(request).sort(([a], [b]) => (a < b ? -1 : 1)));

/**
 * The project that a key of the last 24 hours made, or null when the key is free: it goes with its project. The project is
 * held until the transaction ends. The caller holds the lock of the
 * user's row, so no other request of that user stands between this and `rememberKey`.
 * @throws idempotency_key_reused when the key stands for another body
 */
export async function projectOfKey({ userId, key, request }: IdempotencyClaim, tx: Tx): Promise<string | null> {
  const known = await queryOne<{ project_id: string; request_hash: Buffer }>(
    `select k.project_id, k.request_hash from project_idempotency_keys k
     join projects p on p.id = k.project_id and p.deleted_at is null
     where k.user_id = $1 and k.key = $2 and k.created_at > $3 for key share of p`,
    [userId, key, shifted(clock.now(), -REMEMBERED_MS)],
    tx,
  );
  if (known === null) return null;
  const text = canonical(request);
  const same = verifyingKeys('request-hash').some((secret) =>
    timingSafeEqual(known.request_hash, hmacWith(secret, text)),
  );
  if (!same) throw new ApiError('idempotency_key_reused', 'The idempotency key stands for another request.');
  return known.project_id;
}

/** Remembers which project a key made; takes the place of a row past its 24 hours. */
export async function rememberKey(
  { userId, key, request }: IdempotencyClaim,
  projectId: string,
  tx: Tx,
): Promise<void> {
  await query(
    `insert into project_idempotency_keys (user_id, key, request_hash, project_id, created_at) values ($1, $2, $3, $4, $5)
     on conflict (user_id, key) do update
       set request_hash = excluded.request_hash, project_id = excluded.project_id, created_at = excluded.created_at`,
    [userId, key, hmac('request-hash', canonical(request)), projectId, clock.now()],
    tx,
  );
}
