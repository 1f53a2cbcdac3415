import { proxyActivities } from '@temporalio/workflow';
import type { MailActivities } from '../activities/mail.activities';
import type { MailInput } from './mail.contract';
import { codeMail, invitationMail } from './options';
import { isRowGone } from './row-gone';

const { sendCode } = proxyActivities<MailActivities>(codeMail);
const { sendInvitation } = proxyActivities<MailActivities>(invitationMail);

/**
 * Sends one mail. When every try fails the run fails, which operators see: a code expires, and its owner asks anew; a
 * membership stands without its mail.
 */
export async function mail({ codeId, memberId }: MailInput): Promise<void> {
  try {
    if (codeId !== undefined) await sendCode({ codeId });
    if (memberId !== undefined) await sendInvitation({ memberId });
  } catch (error) {
    // A code that was superseded or used, or a member who was removed, before the mail left needs none.
    if (!isRowGone(error)) throw error;
  }
}
