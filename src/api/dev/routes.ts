import { noCredential } from '../core/access';
import { config } from '../core/config';
import { notFound } from '../core/errors';
import { MAILBOX_PATH, route } from '../core/route';
import type { Route } from '../core/route';
import { mailboxReader } from './mailbox';
import { MailboxPage, MailboxQuery } from './schemas';

/** Routes of local mode; there are none outside it, since the mailbox lets anybody sign in as anyone. */
export function devRoutes(): Route[] {
  if (!config().localMode) return [];
  return [
    route({
      method: 'get',
      path: MAILBOX_PATH,
      id: 'readMailbox',
      summary: 'Mails of the development mailbox',
      needs: noCredential,
      action: 'dev:ReadMailbox',
      inputCode: 'bad_request',
      query: MailboxQuery,
      answers: { 200: MailboxPage },
      fails: ['not_found'],
      handle: async ({ query }) => {
        const read = mailboxReader();
        if (read === null) throw notFound();
        return { status: 200, body: { data: await read(query.to) } };
      },
    }),
  ];
}
