import type { Attributes } from 'sequelize';
import { digestOfSecret, newApiKeySecret } from '../auth/service';
import type { Caller } from '../core/access';
import { clock } from '../core/clock';
import { inTransaction } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import { heldRoleIn } from '../projects/service';
import { holdAccount } from '../users/service';
import { ApiKey } from './models';

const LIVE_KEYS_MAX = 100;
const SHOWN_CHARACTERS = 12;

/** A key with its secret, which is in the clear only here and in the one answer that gives it away. */
export interface KeyWithSecret {
  apiKey: ApiKey;
  secret: string;
}

/** A key of a user; a key of anybody else is as good as none. */
export interface KeyOfUser {
  userId: string;
  apiKeyId: string;
}

const storedOf = (secret: string): { keyHash: Buffer; keyPrefix: string } => ({
  keyHash: digestOfSecret(secret),
  keyPrefix: secret.slice(0, SHOWN_CHARACTERS),
});

/**
 * Makes a key of the user, for one project or for all of them. Not idempotent.
 * @throws not_found when the project is none of the user's; api_key_limit_reached with `details.limit`
 */
export async function createApiKey({
  userId,
  projectId,
  name,
}: {
  userId: string;
  projectId: string | null;
  name: string;
}): Promise<KeyWithSecret> {
  const secret = newApiKeySecret();
  const apiKey = await inTransaction(async (tx) => {
    // The user's row is the lock under which keys are counted, or two requests at once would both find the last place.
    await holdAccount(userId, tx);
    if (projectId !== null && (await heldRoleIn({ projectId, userId }, tx)) === null) throw notFound();
    const held = await ApiKey.count({ where: { userId }, transaction: tx });
    if (held >= LIVE_KEYS_MAX) {
      throw new ApiError('api_key_limit_reached', `A user holds at most ${String(LIVE_KEYS_MAX)} API keys.`, {
        details: { limit: LIVE_KEYS_MAX },
      });
    }
    const now = clock.now();
    const values = { id: newId('apiKey'), userId, projectId, name, lastUsedAt: null, createdAt: now, updatedAt: now };
    return ApiKey.create({ ...values, ...storedOf(secret) }, { transaction: tx });
  });
  return { apiKey, secret };
}

/** Changes the name of a key. @throws not_found */
export async function renameApiKey({ userId, apiKeyId, name }: KeyOfUser & { name: string }): Promise<ApiKey> {
  return updateKey({ userId, apiKeyId }, { name });
}

/**
 * Gives a key a new secret; the old one stops at once, id, name and scope stay. Each call makes another secret.
 * @throws not_found
 */
export async function rotateApiKey(key: KeyOfUser): Promise<KeyWithSecret> {
  const secret = newApiKeySecret();
  return { apiKey: await updateKey(key, storedOf(secret)), secret };
}

async function updateKey(
  { userId, apiKeyId }: KeyOfUser,
  change: { name: string } | { keyHash: Buffer; keyPrefix: string },
): Promise<ApiKey> {
  const [, rows] = await ApiKey.update(
    { ...change, updatedAt: clock.now() },
    { where: { id: apiKeyId, userId }, returning: true },
  );
  const row = rows[0];
  if (row === undefined) throw notFound();
  return row;
}

/**
 * Revokes a key: its row goes, and with it every further request. A project-scoped key may revoke itself only.
 * @throws access_denied; not_found
 */
export async function revokeApiKey({ caller, apiKeyId }: { caller: Caller; apiKeyId: string }): Promise<void> {
  if (caller.scopeProjectId !== null && caller.credentialId !== apiKeyId) {
    throw new ApiError('access_denied', 'A project-scoped key may revoke itself only.');
  }
  const gone = await ApiKey.destroy({ where: { id: apiKeyId, userId: caller.userId } });
  if (gone === 0) throw notFound();
}

/** One key of the user. @throws not_found */
export async function getApiKey({ userId, apiKeyId }: KeyOfUser): Promise<ApiKey> {
  const row = await ApiKey.findOne({ where: { id: apiKeyId, userId } });
  if (row === null) throw notFound();
  return row;
}

export interface ListApiKeysInput {
  userId: string;
  /** Only keys scoped to that project. */
  projectId: string | undefined;
  limit: number;
  cursor: string | undefined;
}

/** The user's keys, newest first. @throws bad_request at `query.cursor` */
export async function listApiKeys({
  userId,
  projectId,
  limit,
  cursor,
}: ListApiKeysInput): Promise<{ rows: Attributes<ApiKey>[]; nextCursor: string | null }> {
  return listByCursor(ApiKey, {
    where: { userId, ...(projectId === undefined ? {} : { projectId }) },
    limit,
    cursor,
    scope: { route: 'listApiKeys', user_id: userId, project_id: projectId },
  });
}
