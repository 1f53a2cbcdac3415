import { PLATFORM_ADMIN } from '../core/access';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { invariant, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { User } from './models';

/**
 * The account of a proven address, made when there is none; an address of `ADMIN_EMAILS` gets the platform role `admin`.
 * Safe to repeat. Spec: User; Sign-in, rule 1.
 * @param email a normalised address
 * @param name fills a name that is empty, and never replaces one
 * @returns the user's id
 */
export async function openAccount(
  { email, name = null }: { email: string; name?: string | null },
  tx: Tx,
): Promise<string> {
  const roles = config().ADMIN_EMAILS.includes(email) ? [PLATFORM_ADMIN] : [];
  const row = await queryOne<{ id: string }>(
    `insert into users (id, email, name, email_verified, roles, created_at, updated_at)
     values ($1, $2, $5, true, $3, $4, $4)
     on conflict (email) do update set email_verified = true, updated_at = excluded.updated_at,
       name = coalesce(users.name, excluded.name),
       roles = case when users.roles @> excluded.roles then users.roles else users.roles || excluded.roles end
     returning id`,
    [newId('user'), email, roles, clock.now(), name],
    tx,
  );
  invariant(row !== null, 'an upsert gives its row back');
  return row.id;
}

/** One account. @throws not_found */
export async function getUser(userId: string): Promise<User> {
  const user = await User.findByPk(userId);
  if (user === null) throw notFound();
  return user;
}

/**
 * Changes what a person may change of the own account; what is not given stays. Safe to repeat. Spec: Own account.
 * @param name 1 to 200 characters, or null for none
 * @throws not_found
 */
export async function updateUser({
  userId,
  name,
}: {
  userId: string;
  name?: string | null | undefined;
}): Promise<User> {
  if (name !== undefined) await User.update({ name, updatedAt: clock.now() }, { where: { id: userId } });
  return getUser(userId);
}
