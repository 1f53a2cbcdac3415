import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { DemoClient, poll } from './api-client';
import type { Account, Stage } from './stage';

const MAIL_MS = 20_000;

const CodeRequested = z.object({ expires_in: z.number() });
const Mailbox = z.object({ data: z.array(z.object({ code: z.string().nullable() })) });
const Session = z.object({ access_token: z.string(), expires_at: z.string() });
const Made = z.object({ id: z.string() });
const MadeKey = Made.extend({ key: z.string(), key_prefix: z.string() });

/** Signs a new person in with the code that is mailed to them. */
export async function signIn({ report, local }: Stage): Promise<{ session: DemoClient; email: string }> {
  // A new address each time: codes to one address are limited, and so are the projects of one account.
  const email = `demo-${randomBytes(4).toString('hex')}@example.com`;
  const anyone = new DemoClient(local.baseUrl, null);
  report.fact('address', email);
  await anyone.post({ path: '/v1/auth/code', body: { email }, answer: CodeRequested });
  const read = { path: `/dev/mailbox?to=${encodeURIComponent(email)}`, answer: Mailbox };
  const code = await poll(async () => (await anyone.get(read)).data[0]?.code ?? undefined, {
    timeoutMs: MAIL_MS,
    goal: 'the mail with the code',
  });
  report.fact('mailed code', code);
  const session = await anyone.post({ path: '/v1/auth/code/verify', body: { email, code }, answer: Session });
  report.fact('session until', session.expires_at);
  return { session: anyone.as(session.access_token), email };
}

/** Makes a project, and in it the API key that does the rest. */
export async function makeProject({ report }: Stage, session: DemoClient, email: string): Promise<Account> {
  const project = await session.post({ path: '/v1/projects', body: { name: 'demo' }, answer: Made });
  report.fact('project', project.id);
  const made = await session.post({
    path: '/v1/api-keys',
    body: { name: 'demo', project_id: project.id },
    answer: MadeKey,
  });
  report.fact('API key', `${made.id} (${made.key_prefix}…), used from here on`);
  return {
    api: session.as(made.key),
    email,
    apiKey: made.key,
    projectId: project.id,
    at: `/v1/projects/${project.id}`,
  };
}
