import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { MemberOut } from './schemas';
import type { SeenMember } from './service';

type Status = z.output<typeof MemberOut>['status'];

/** Nobody has signed in yet: `pending`. The account is gone: null. */
function statusOf({ member, account }: SeenMember): Status {
  if (member.userId === null) return 'pending';
  if (account === null) return null;
  return account.emailVerified ? 'active' : 'pending';
}

/** A member in the shape of the API. */
export const presentMember = (seen: SeenMember): z.output<typeof MemberOut> => ({
  id: seen.member.id,
  project_id: seen.member.projectId,
  user_id: seen.member.userId,
  email: seen.member.email,
  name: seen.account?.name ?? null,
  status: statusOf(seen),
  role: seen.member.role,
  invited_by_user_id: seen.member.invitedByUserId,
  created_at: isoTime(seen.member.createdAt),
  updated_at: isoTime(seen.member.updatedAt),
});
