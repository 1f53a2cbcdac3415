import { unwrap } from '@agent-platform/sdk';
import { clientOf, poll } from './demo/api-client';
import type { Local } from './supervisor';

const MAIL_MS = 30_000;

/**
 * Signs a person in with the code that is mailed to them. For tools that start the service themselves; one sign-in an
 * address, since the newest mail is taken.
 * @returns the session token
 */
export async function signInByMail(
  { baseUrl, mailbox }: Pick<Local, 'baseUrl' | 'mailbox'>,
  email: string,
): Promise<string> {
  const anyone = clientOf(baseUrl);
  await unwrap(anyone.POST('/v1/auth/code', { body: { email } }));
  const code = await poll(() => mailbox(email)[0]?.code ?? undefined, {
    timeoutMs: MAIL_MS,
    goal: 'the mail with the code',
  });
  return (await unwrap(anyone.POST('/v1/auth/code/verify', { body: { email, code } }))).access_token;
}
