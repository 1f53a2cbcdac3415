import { invitationMailId } from '../../workflows/mail.contract';
import type { MailInput } from '../../workflows/mail.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock, shifted } from '../core/clock';
import { config } from '../core/config';
import { query, queryOne } from '../core/db';
import { errorFacts, log } from '../core/log';
import { startRun } from '../core/temporal';
import type { RunInput, RunMemo } from '../core/temporal';

/** A member's row whose address is to be told. */
export interface Invitation {
  memberId: string;
  projectId: string;
}

const mailRun = ({ memberId, projectId }: Invitation, memo: RunMemo): RunInput => {
  const input: MailInput = { memberId };
  return {
    type: 'mail',
    id: invitationMailId(memberId),
    args: [input],
    labels: { resourceType: 'project_member', resourceId: memberId, projectId },
    memo,
  };
};

/** Starts the mail of a committed row. A start that fails or is unknown is no error: the sweep starts it. */
export async function startInvitation(
  invitation: Invitation,
  by: { requestId: string; principalId: string },
): Promise<void> {
  try {
    await startRun(mailRun(invitation, { ...by, trigger: 'api' }));
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', member_id: invitation.memberId, ...errorFacts(error) });
  }
}

/** What an invitation says, and to whom. */
export interface PreparedInvitation {
  email: string;
  projectName: string;
  /** Name or address of who added the row; null when the account is gone. */
  inviter: string | null;
  suppressed: boolean;
}

/**
 * What the mail of a member's row is made of; marks the row as seen by its run in the same statement. Safe to repeat.
 * @returns null when the row was removed, or its project
 */
export async function prepareInvitation(memberId: string): Promise<PreparedInvitation | null> {
  const row = await queryOne<{ email: string; name: string; inviter: string | null; suppressed: boolean }>(
    `update project_members m set run_seen_at = coalesce(m.run_seen_at, $2)
     from projects p where m.id = $1 and p.id = m.project_id and p.deleted_at is null
     returning m.email, p.name, exists (select 1 from suppressed_addresses s where s.email = m.email) as suppressed,
       (select coalesce(nullif(trim(u.name), ''), u.email) from users u where u.id = m.invited_by_user_id) as inviter`,
    [memberId, clock.now()],
  );
  if (row === null) return null;
  return { email: row.email, projectName: row.name, inviter: row.inviter, suppressed: row.suppressed };
}

async function unsent(
  olderThan: Date,
  afterId: string | null,
  limit: number,
): Promise<{ id: string; run: RunInput }[]> {
  const rows = await query<{ id: string; project_id: string }>(
    `select m.id, m.project_id from project_members m join projects p on p.id = m.project_id and p.deleted_at is null
     where m.run_seen_at is null and m.invited_by_user_id is not null and m.created_at < $1
       and ($2::text is null or m.id > $2::text)
     order by ${afterId === null ? 'm.created_at' : 'm.id'} limit $3`,
    [olderThan, afterId, limit],
  );
  return rows.map(({ id, project_id: projectId }) => ({
    id,
    run: { ...mailRun({ memberId: id, projectId }, { trigger: 'sweep' }), mayRepeat: true },
  }));
}

/** Invitations whose mail nobody began to send. A run that gave up is not repeated: the membership is there all the same. */
export const invitationSweep: SweepKind = {
  name: 'invitations',
  workflowType: 'mail',
  endsByItself: true,
  unseen: (olderThan, limit) => unsent(olderThan, null, limit).then((rows) => rows.map(({ run }) => run)),
  unsettled: (afterId, limit) =>
    unsent(shifted(clock.now(), -config().SWEEP_INTERVAL_SECONDS * 1000), afterId ?? '', limit),
};
