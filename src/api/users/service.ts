import type { Attributes } from 'sequelize';
import { PLATFORM_ADMIN } from '../core/access';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { invalidInput, invariant, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import { User } from './models';

export type UserRow = Attributes<User>;

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

/** Holds an account's row to the end of the transaction: what is counted by account is counted by one at a time. */
export async function holdAccount(userId: string, tx: Tx): Promise<void> {
  await query('select 1 from users where id = $1 for no key update', [userId], tx);
}

/** One account. @throws not_found */
export async function getUser(userId: string): Promise<User> {
  const user = await User.findByPk(userId);
  if (user === null) throw notFound();
  return user;
}

/**
 * Accounts, newest first, or the one of an address.
 * @param email a normalised address
 * @throws bad_request at `query.cursor`
 */
export async function listUsers({
  email,
  limit,
  cursor,
}: {
  email: string | undefined;
  limit: number;
  cursor: string | undefined;
}): Promise<{ rows: Attributes<User>[]; nextCursor: string | null }> {
  return listByCursor(User, {
    where: email === undefined ? {} : { email },
    limit,
    cursor,
    scope: { route: 'listUsers', email },
  });
}

/**
 * Replaces the platform roles of an account; they count from its person's next request on. Safe to repeat.
 * Spec: Operator routes, rule 1.
 * @throws not_found; bad_request when an operator takes the role from themselves
 */
export async function replaceRoles({
  userId,
  roles,
  byUserId,
}: {
  userId: string;
  roles: string[];
  byUserId: string;
}): Promise<User> {
  if (userId === byUserId && !roles.includes(PLATFORM_ADMIN)) {
    throw invalidInput('bad_request', 'roles', 'must hold admin: an operator does not take the role from themselves');
  }
  const [, rows] = await User.update(
    { roles: [...new Set(roles)], updatedAt: clock.now() },
    { where: { id: userId }, returning: true },
  );
  const user = rows[0];
  if (user === undefined) throw notFound();
  return user;
}

/** What a member's row shows of the account behind it. */
export interface Account {
  name: string | null;
  /** True once its person has signed in. */
  emailVerified: boolean;
}

/** Those accounts by user id; one that is gone is left out. */
export async function accountsOf(userIds: string[]): Promise<Map<string, Account>> {
  const rows = await query<{ id: string; name: string | null; email_verified: boolean }>(
    'select id, name, email_verified from users where id = any($1)',
    [userIds],
  );
  return new Map(rows.map(({ id, name, email_verified: emailVerified }) => [id, { name, emailVerified }]));
}

/** The account of an address, or null. @param email a normalised address */
export async function accountIdOf(email: string, tx: Tx): Promise<string | null> {
  const row = await queryOne<{ id: string }>('select id from users where email = $1', [email], tx);
  return row?.id ?? null;
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
