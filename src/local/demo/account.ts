import { randomBytes } from 'node:crypto';
import { unwrap } from '@agent-platform/sdk';
import type { Client } from '@agent-platform/sdk';
import { z } from 'zod';
import { clientOf, poll } from './api-client';
import type { Account, Stage } from './stage';

const MAIL_MS = 20_000;

const Mailbox = z.object({ data: z.array(z.object({ code: z.string().nullable() })) });

/** The code of the newest mail in the mailbox of local mode. */
async function mailedCode(baseUrl: string, email: string): Promise<string | undefined> {
  const response = await fetch(`${baseUrl}/dev/mailbox?to=${encodeURIComponent(email)}`);
  return Mailbox.parse(await response.json()).data[0]?.code ?? undefined;
}

/** Signs a new person in with the code that is mailed to them. */
export async function signIn({ report, local }: Stage): Promise<{ session: Client; email: string }> {
  // A new address each time: codes to one address are limited, and so are the projects of one account.
  const email = `demo-${randomBytes(4).toString('hex')}@example.com`;
  const anyone = clientOf(local.baseUrl);
  report.fact('address', email);
  await unwrap(anyone.POST('/v1/auth/code', { body: { email } }));
  const code = await poll(() => mailedCode(local.baseUrl, email), {
    timeoutMs: MAIL_MS,
    goal: 'the mail with the code',
  });
  report.fact('mailed code', code);
  const session = await unwrap(anyone.POST('/v1/auth/code/verify', { body: { email, code } }));
  report.fact('session until', session.expires_at);
  return { session: clientOf(local.baseUrl, session.access_token), email };
}

/** Makes a project, and in it the API key that does the rest. */
export async function makeProject({ report, local }: Stage, session: Client, email: string): Promise<Account> {
  const project = await unwrap(session.POST('/v1/projects', { body: { name: 'demo' } }));
  report.fact('project', project.id);
  const made = await unwrap(session.POST('/v1/api-keys', { body: { name: 'demo', project_id: project.id } }));
  report.fact('API key', `${made.id} (${made.key_prefix}…), used from here on`);
  return {
    api: clientOf(local.baseUrl, made.key),
    email,
    apiKey: made.key,
    projectId: project.id,
    at: `/v1/projects/${project.id}`,
  };
}
