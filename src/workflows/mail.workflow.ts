import { proxyActivities } from '@temporalio/workflow';
import type { MailActivities } from '../activities/mail.activities';
import type { MailInput } from './mail.contract';
import { codeMail } from './options';

const { sendCode } = proxyActivities<MailActivities>(codeMail);

/** Sends one mail. When every try fails the run fails, which operators see; the code expires, and its owner asks anew. */
export async function mail({ codeId }: MailInput): Promise<void> {
  await sendCode({ codeId });
}
