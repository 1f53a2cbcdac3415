import { codeMailText } from '../api/auth/code-mail';
import { prepareCode, recordBounce } from '../api/auth/codes';
import { RecipientRefused } from '../api/auth/mailer';
import type { Mailer } from '../api/auth/mailer';
import { clock } from '../api/core/clock';
import type { MailInput } from '../workflows/mail.contract';

/** Activities that send mail. The code is made here and goes into the mail only, never into a row, a log or a history. */
export const mailActivities = ({ mailer }: { mailer: Mailer }) => ({
  /**
   * Mails the sign-in code of a row, and does nothing for one that is expired, superseded or used, or whose address is
   * suppressed. A retry makes a fresh code, so the code of a try whose end is unknown stops working.
   */
  async sendCode({ codeId }: MailInput): Promise<void> {
    const prepared = await prepareCode(codeId);
    if (prepared === null) return;
    const { email, code, expiresAt } = prepared;
    try {
      await mailer.send({ to: email, code, ...codeMailText({ code, expiresAt, now: clock.now() }) });
    } catch (error) {
      if (!(error instanceof RecipientRefused)) throw error;
      await recordBounce(email);
    }
  },
});

export type MailActivities = ReturnType<typeof mailActivities>;
