import type { Attributes } from 'sequelize';
import { narrowRole, roleAllows } from '../core/access';
import type { Role } from '../core/access';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { inTransaction, query } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, invalidInput, invariant, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import { takeFromWindows, WIDEST_WINDOW_SECONDS } from '../core/sliding-windows';
import { heldRoleIn, lockAddress } from '../projects/service';
import { accountIdOf, accountsOf } from '../users/service';
import type { Account } from '../users/service';
import { startInvitation } from './invitations';
import { ProjectMember } from './models';

/** A member with the account behind it; null while nobody signed in, or when the account is gone. */
export interface SeenMember {
  member: Attributes<ProjectMember>;
  account: Account | null;
}

/** The role that may add and remove members of that role. Spec: Members, "Who may what". */
const roleOver = (role: Role): Role => (role === 'member' ? 'admin' : 'owner');

export interface AddMemberInput {
  projectId: string;
  /** Who adds. */
  userId: string;
  /** Normalised. */
  email: string;
  role: 'admin' | 'member';
}

/**
 * Adds an address to a project, at once; an address that has no account yet waits for its first sign-in. The address is
 * told by mail, whose failure takes nothing back. Not idempotent: the same address again is refused. Spec: Members,
 * rules 3, 4, 7 and 8.
 * @throws access_denied with `details.required_role`; already_member; rate_limited with `Retry-After`; not_found when
 *   the caller's membership or the project ended meanwhile
 */
export async function addMember(
  { projectId, userId, email, role }: AddMemberInput,
  by: { requestId: string; principalId: string },
): Promise<SeenMember> {
  const added = await inTransaction(async (tx) => {
    // First, since a sign-in with the address waits for it too: one of the two sees what the other did.
    await lockAddress(email, tx);
    const held = await heldRoleIn({ projectId, userId }, tx);
    if (held === null) throw notFound();
    if (!roleAllows(held, roleOver(role))) throw narrowRole(roleOver(role));
    const member = await insertMember({ projectId, userId, email, role }, tx);
    await countInvitation(userId, tx);
    return member;
  });
  await startInvitation({ memberId: added.id, projectId }, by);
  return seen(added);
}

/** The unique index decides between two at once. */
async function insertMember({ projectId, userId, email, role }: AddMemberInput, tx: Tx): Promise<ProjectMember> {
  const id = newId('member');
  const made = await query<{ id: string }>(
    `insert into project_members (id, project_id, user_id, email, role, invited_by_user_id, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, $7, $7) on conflict do nothing returning id`,
    [id, projectId, await accountIdOf(email, tx), email, role, userId, clock.now()],
    tx,
  );
  if (made.length === 0) throw new ApiError('already_member', 'The address is a member of the project already.');
  const member = await ProjectMember.findByPk(id, { transaction: tx });
  invariant(member !== null, 'a row that was just written is there');
  return member;
}

/** Counted in the transaction of the add, so that what is refused or rolled back counts nothing. */
async function countInvitation(userId: string, tx: Tx): Promise<void> {
  const limit = config().INVITES_PER_DAY;
  const windows = [{ windowSeconds: WIDEST_WINDOW_SECONDS, limit }];
  const seconds = await takeFromWindows({ kind: 'invitations', key: userId, windows }, tx);
  if (seconds === null) return;
  throw new ApiError('rate_limited', `One person adds at most ${String(limit)} members in 24 hours.`, {
    headers: { 'Retry-After': String(seconds) },
  });
}

/** A member's row, and who wants to change or remove it. */
export interface ActOnMember {
  projectId: string;
  /** Who acts. */
  userId: string;
  memberId: string;
}

interface LockedRow {
  id: string;
  user_id: string | null;
  role: Role;
}

/**
 * The row and the one of who acts, both locked, in one order: a role that changes at the same time counts before or after.
 * @throws not_found when who acts is no member any more; bad_request when the row is the owner's
 */
async function lockedRows(
  { projectId, userId, memberId }: ActOnMember,
  tx: Tx,
): Promise<{ actor: LockedRow; target: LockedRow | undefined }> {
  const rows = await query<LockedRow>(
    `select id, user_id, role from project_members where project_id = $1 and (id = $2 or user_id = $3)
     order by id for update`,
    [projectId, memberId, userId],
    tx,
  );
  const actor = rows.find((row) => row.user_id === userId);
  if (actor === undefined) throw notFound();
  const target = rows.find((row) => row.id === memberId);
  if (target?.role === 'owner') {
    throw invalidInput('bad_request', 'member_id', "The owner's membership can be neither changed nor removed.");
  }
  return { actor, target };
}

/**
 * Gives a member another role, which counts from the member's next request on. Safe to repeat. Spec: Members, rule 1.
 * @throws bad_request on the owner's row; access_denied with `details.required_role`; not_found
 */
export async function changeRole({ role, ...who }: ActOnMember & { role: 'admin' | 'member' }): Promise<SeenMember> {
  const changed = await inTransaction(async (tx) => {
    const { actor, target } = await lockedRows(who, tx);
    if (!roleAllows(actor.role, 'owner')) throw narrowRole('owner');
    if (target === undefined) throw notFound();
    const [, [row]] = await ProjectMember.update(
      { role, updatedAt: clock.now() },
      { where: { id: target.id }, returning: true, transaction: tx },
    );
    invariant(row !== undefined, 'a locked row is there');
    return row;
  });
  return seen(changed);
}

/**
 * Removes a member, or lets one leave; a pending row is withdrawn. From the next request on the person finds the project no
 * more, by session or key. Spec: Members, rules 5 and 6.
 * @throws bad_request on the owner's row; access_denied with `details.required_role`; not_found
 */
export async function removeMember(who: ActOnMember): Promise<void> {
  await inTransaction(async (tx) => {
    const { actor, target } = await lockedRows(who, tx);
    if (target === undefined) throw notFound();
    const needed = roleOver(target.role);
    if (target.id !== actor.id && !roleAllows(actor.role, needed)) throw narrowRole(needed);
    await ProjectMember.destroy({ where: { id: target.id }, transaction: tx });
  });
}

/** One member of a project. @throws not_found */
export async function getMember({ projectId, memberId }: { projectId: string; memberId: string }): Promise<SeenMember> {
  const member = await ProjectMember.findOne({ where: { id: memberId, projectId } });
  if (member === null) throw notFound();
  return seen(member);
}

export interface ListMembersInput {
  projectId: string;
  limit: number;
  cursor: string | undefined;
}

/** The members of a project, oldest first. @throws bad_request at `query.cursor` */
export async function listMembers({
  projectId,
  limit,
  cursor,
}: ListMembersInput): Promise<{ rows: SeenMember[]; nextCursor: string | null }> {
  const { rows, nextCursor } = await listByCursor(ProjectMember, {
    where: { projectId },
    limit,
    cursor,
    scope: { route: 'listMembers', project_id: projectId },
    first: 'oldest',
  });
  return { rows: await withAccounts(rows), nextCursor };
}

async function withAccounts(members: Attributes<ProjectMember>[]): Promise<SeenMember[]> {
  const accounts = await accountsOf(members.flatMap(({ userId }) => userId ?? []));
  return members.map((member) => ({ member, account: accounts.get(member.userId ?? '') ?? null }));
}

async function seen(member: ProjectMember): Promise<SeenMember> {
  const [found] = await withAccounts([member]);
  return found ?? { member, account: null };
}
