import { PLATFORM_ADMIN } from '../core/access';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { invariant, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { User } from './models';

/**
 * The account of a proven address, made when there is none; an address of `ADMIN_EMAILS` gets the platform role `admin`.
 * Safe to repeat. Spec: User; Sign-in, rule 1.
 * @param email a normalised address
 * @returns the user's id
 */
export async function openAccount(email: string, tx: Tx): Promise<string> {
  const roles = config().ADMIN_EMAILS.includes(email) ? [PLATFORM_ADMIN] : [];
  const row = await queryOne<{ id: string }>(
    `insert into users (id, email, name, email_verified, roles, created_at, updated_at)
     values ($1, $2, null, true, $3, $4, $4)
     on conflict (email) do update set email_verified = true, updated_at = excluded.updated_at,
       roles = case when users.roles @> excluded.roles then users.roles else users.roles || excluded.roles end
     returning id`,
    [newId('user'), email, roles, clock.now()],
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
