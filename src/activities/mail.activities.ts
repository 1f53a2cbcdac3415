import { codeMailText } from '../api/auth/code-mail';
import { prepareCode, recordBounce } from '../api/auth/codes';
import { RecipientRefused } from '../api/auth/mailer';
import type { Mail, Mailer } from '../api/auth/mailer';
import { clock } from '../api/core/clock';
import { config } from '../api/core/config';
import { invitationMailText } from '../api/members/invitation-mail';
import { prepareInvitation } from '../api/members/invitations';
import type { CodeMailInput, InvitationMailInput } from '../workflows/mail.contract';
import { rowGone } from './failures';

/** Activities that send mail. The code is made here and goes into the mail only, never into a row, a log or a history. */
export const mailActivities = ({ mailer }: { mailer: Mailer }) => ({
  /**
   * Mails the sign-in code of a row, and does nothing for one that is expired or whose address is suppressed. A retry
   * makes a fresh code, so the code of a try whose end is unknown stops working.
   * @throws ROW_GONE when the code was superseded or used
   */
  async sendCode({ codeId }: CodeMailInput): Promise<void> {
    const prepared = await prepareCode(codeId);
    if (prepared === 'gone') throw rowGone();
    if (prepared === 'unsendable') return;
    const { email, code, expiresAt } = prepared;
    await sendOrSuppress(mailer, { to: email, code, ...codeMailText({ code, expiresAt, now: clock.now() }) });
  },

  /**
   * Tells an address that it was added to a project; a suppressed one is told nothing, which is success. A try whose end
   * is unknown is made again, and the mail may come twice. Spec: Members, rule 4.
   * @throws ROW_GONE when the member or the project was removed
   */
  async sendInvitation({ memberId }: InvitationMailInput): Promise<void> {
    const prepared = await prepareInvitation(memberId);
    if (prepared === null) throw rowGone();
    const { email, suppressed, inviter, projectName } = prepared;
    if (suppressed) return;
    const text = invitationMailText({ inviter, projectName, baseUrl: config().PUBLIC_BASE_URL });
    await sendOrSuppress(mailer, { to: email, code: null, ...text });
  },
});

/** An address that its server refuses for good gets no more mail. */
async function sendOrSuppress(mailer: Mailer, mail: Mail): Promise<void> {
  try {
    await mailer.send(mail);
  } catch (error) {
    if (!(error instanceof RecipientRefused)) throw error;
    await recordBounce(mail.to);
  }
}

export type MailActivities = ReturnType<typeof mailActivities>;
