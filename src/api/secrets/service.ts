import { clock } from '../core/clock';
import { inTransaction, query } from '../core/db';
import type { Tx } from '../core/db';
import { decrypt, encrypt } from '../core/encryption';
import type { Place } from '../core/encryption';
import { ApiError, notFound } from '../core/errors';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { dependentsOf, unlinkProviders } from './dependents';
import { Secret } from './models';

const placeOf = (secretId: string): Place => ({ table: 'secrets', column: 'value', rowId: secretId });

export interface SecretChange {
  name?: string | undefined;
  value?: string | undefined;
}

/** Stores a new secret; its value is encrypted before it reaches the database. Not repeatable: each call makes one. */
export async function createSecret(input: { projectId: string; name: string; value: string }): Promise<Secret> {
  const id = newId('secret');
  const now = clock.now();
  const { keyId, data } = encrypt(input.value, placeOf(id));
  return Secret.create({
    id,
    projectId: input.projectId,
    name: input.name,
    valueKeyId: keyId,
    valueData: data,
    createdAt: now,
    updatedAt: now,
  });
}

/**
 * Changes the name or replaces the value; a new value is used from the next call on. Repeatable.
 * @throws not_found
 */
export async function updateSecret(projectId: string, secretId: string, change: SecretChange): Promise<Secret> {
  if (change.name === undefined && change.value === undefined) return getSecret(projectId, secretId);
  const value = change.value === undefined ? null : encrypt(change.value, placeOf(secretId));
  const [changed] = await Secret.update(
    {
      ...(change.name === undefined ? {} : { name: change.name }),
      ...(value === null ? {} : { valueKeyId: value.keyId, valueData: value.data }),
      updatedAt: clock.now(),
    },
    { where: { projectId, id: secretId } },
  );
  if (changed === 0) throw notFound();
  return getSecret(projectId, secretId);
}

/**
 * Deletes a secret. With `force` the providers that use it lose the link and tools keep their token and fail when called.
 * The row is locked first, so that a provider or tool being written with it is either counted or refused.
 * @throws not_found, SECRET_HAS_DEPENDENTS
 */
export async function deleteSecret(projectId: string, secretId: string, force: boolean): Promise<void> {
  await inTransaction(async (tx) => {
    const secret = await Secret.findOne({
      where: { projectId, id: secretId },
      transaction: tx,
      lock: tx.LOCK.UPDATE,
    });
    if (secret === null) throw notFound();
    const used = await dependentsOf(projectId, secretId, tx);
    if (!force && used.aiProviderCount + used.toolCount > 0) {
      throw new ApiError('SECRET_HAS_DEPENDENTS', 'AI providers or tools use this secret.', {
        meta: {
          ai_provider_ids: used.aiProviderIds,
          ai_provider_count: used.aiProviderCount,
          tool_ids: used.toolIds,
          tool_count: used.toolCount,
        },
      });
    }
    await unlinkProviders({ projectId, secretId, at: clock.now() }, tx);
    await secret.destroy({ transaction: tx });
  });
}

/** One secret of the project, without its value. @throws not_found */
export async function getSecret(projectId: string, secretId: string): Promise<Secret> {
  const secret = await Secret.findOne({ where: { projectId, id: secretId } });
  if (secret === null) throw notFound();
  return secret;
}

/** A page of the project's secrets, newest first, without their values. */
export const listSecrets = (projectId: string, page: { limit: number; offset: number }) =>
  listByOffset(Secret, { where: { projectId }, ...page });

/**
 * The values of the named secrets, read anew at every call. A secret that is gone, of another project or unreadable with
 * the keys at hand is absent from the answer. The values may go into one outgoing call and nowhere else.
 */
export async function secretValues(projectId: string, secretIds: string[], tx?: Tx): Promise<Map<string, string>> {
  const asked = known(secretIds);
  if (asked.length === 0) return new Map();
  const rows = await query<{ id: string } & StoredSecret>(
    'select id, value_key_id, value_data from secrets where project_id = $1 and id = any($2)',
    [projectId, asked],
    tx,
  );
  const values = new Map<string, string>();
  for (const row of rows) {
    const value = openSecret(row.id, row);
    if (value !== null) values.set(row.id, value);
  }
  return values;
}

/** The columns of a secret that hold its value; null where a join found none. */
export interface StoredSecret {
  value_key_id: string | null;
  value_data: Buffer | null;
}

/** The value of a secret out of its columns; null when there is none, or no key at hand opens it. */
export const openSecret = (id: string, { value_key_id: keyId, value_data: data }: StoredSecret): string | null =>
  keyId === null || data === null ? null : decrypt({ keyId, data }, placeOf(id));

/** The value of one secret; null when it is gone, of another project or unreadable with the keys at hand. */
export async function secretValue(projectId: string, secretId: string, tx?: Tx): Promise<string | null> {
  return (await secretValues(projectId, [secretId], tx)).get(secretId) ?? null;
}

/**
 * Which of the named secrets the project does not have, in the order given. Inside a transaction the found ones are held
 * until it ends, so that none of them is deleted while the row that names it is written.
 */
export async function missingSecrets(projectId: string, secretIds: string[], tx?: Tx): Promise<string[]> {
  const asked = known(secretIds);
  const lock = tx === undefined ? '' : ' order by id for key share';
  const rows =
    asked.length === 0
      ? []
      : await query<{ id: string }>(
          `select id from secrets where project_id = $1 and id = any($2)${lock}`,
          [projectId, asked],
          tx,
        );
  const found = new Set(rows.map(({ id }) => id));
  return secretIds.filter((id) => !found.has(id));
}

/** Texts that have no form of an identifier name nothing, and must not reach the database. */
const known = (ids: string[]): string[] => ids.filter((id) => isId('secret', id));
