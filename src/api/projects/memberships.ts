import type { Role } from '../core/access';
import { clock } from '../core/clock';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { newId } from '../core/ids';

/**
 * Lets one transaction at a time ask whether an address has an account and act on the answer: without it an address that
 * is added while it signs in for the first time would wait for a sign-in that has been.
 */
export async function lockAddress(email: string, tx: Tx): Promise<void> {
  await query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`membership ${email}`], tx);
}

/**
 * Gives an account the memberships that were granted to its address before it signed in; called with the account's row
 * written. Safe to repeat. Spec: Sign-in, rule 1.
 */
export async function activateWaitingMemberships(
  { userId, email }: { userId: string; email: string },
  tx: Tx,
): Promise<void> {
  await lockAddress(email, tx);
  await query(
    'update project_members set user_id = $1, updated_at = $3 where email = $2 and user_id is null',
    [userId, email, clock.now()],
    tx,
  );
}

/** Writes the membership of a project's founder, its one owner. */
export async function addFoundingMember(
  { projectId, userId, now }: { projectId: string; userId: string; now: Date },
  tx: Tx,
): Promise<void> {
  await query(
    `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at)
     select $1, $2, id, email, 'owner', $4, $4 from users where id = $3`,
    [newId('member'), projectId, userId, now],
    tx,
  );
}

/** The user's role in a project; null when the user is no member, or there is no such project. */
export async function roleIn(
  { projectId, userId }: { projectId: string; userId: string },
  tx?: Tx,
): Promise<Role | null> {
  const row = await queryOne<{ role: Role }>(
    `select m.role from project_members m join projects p on p.id = m.project_id and p.deleted_at is null
     where m.project_id = $1 and m.user_id = $2`,
    [projectId, userId],
    tx,
  );
  return row?.role ?? null;
}

/**
 * The user's role in a live project, held until the transaction ends: neither the membership nor the project goes
 * meanwhile. Null when the user is no member, or there is no such project.
 */
export async function heldRoleIn(
  { projectId, userId }: { projectId: string; userId: string },
  tx: Tx,
): Promise<Role | null> {
  const row = await queryOne<{ role: Role }>(
    `select m.role from project_members m join projects p on p.id = m.project_id and p.deleted_at is null
     where m.project_id = $1 and m.user_id = $2 for share`,
    [projectId, userId],
    tx,
  );
  return row?.role ?? null;
}

/** The user's roles in those projects, by project id; projects that the user is no member of are left out. */
export async function rolesIn({
  projectIds,
  userId,
}: {
  projectIds: string[];
  userId: string;
}): Promise<Map<string, Role>> {
  const rows = await query<{ project_id: string; role: Role }>(
    'select project_id, role from project_members where user_id = $1 and project_id = any($2)',
    [userId, projectIds],
  );
  return new Map(rows.map(({ project_id, role }) => [project_id, role]));
}
