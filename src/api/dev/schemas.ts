import { z } from 'zod';

export const MailboxQuery = z.strictObject({
  to: z
    .string()
    .trim()
    .toLowerCase()
    .min(1)
    .meta({ description: 'Address the mails went to', example: 'ana@acme.test' }),
});

export const MailboxPage = z
  .strictObject({
    data: z
      .array(
        z.strictObject({
          to: z.string().meta({ description: 'Address' }),
          subject: z.string().meta({ description: 'Subject' }),
          text: z.string().meta({ description: 'Body' }),
          code: z.string().nullable().meta({ description: 'The sign-in code in it; null in other mails' }),
          created_at: z.iso.datetime().meta({ description: 'When it was sent' }),
        }),
      )
      .meta({ description: 'Mails to the address, newest first' }),
  })
  .meta({ id: 'MailboxPage' });
