import nodemailer from 'nodemailer';

/** A mail of the service; `code` is the sign-in code in it, for the development mailbox, and null in other mails. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
  code: string | null;
}

/** Takes mails out of the house. `send` throws `RecipientRefused` when the address is refused for good. */
export interface Mailer {
  send(mail: Mail): Promise<void>;
}

/** The receiving server refuses the address for good: trying again is of no use. */
export class RecipientRefused extends Error {}

/** All of them together stay below the 30 s that one try of the mail activity has. */
const TIMEOUTS_MS = { dnsTimeout: 5_000, connectionTimeout: 7_000, greetingTimeout: 7_000, socketTimeout: 10_000 };

/** Sends by SMTP, one connection a mail. `url` is `smtp://` or `smtps://` with user and password, as `SMTP_URL` has it. */
export function smtpMailer(url: string, from: string): Mailer {
  const transport = nodemailer.createTransport({ url, ...TIMEOUTS_MS });
  return {
    async send({ to, subject, text }) {
      try {
        // As an object the address is taken as it stands; a text would be parsed as a list of them.
        await transport.sendMail({ from, to: { name: '', address: to }, subject, text });
      } catch (error) {
        throw isRecipientRefused(error) ? new RecipientRefused() : error;
      }
    },
  };
}

interface SmtpError {
  command?: unknown;
  responseCode?: unknown;
  response?: unknown;
}

/** An enhanced status 5.7.x speaks of policy and of the sender's rights (say, relaying), not of the mailbox. */
const POLICY = /^5\d\d[ -]5\.7\./;

/** Whether an SMTP error says for good that this recipient takes no mail: a 5xx answer to `RCPT TO`. */
export function isRecipientRefused(error: unknown): boolean {
  const { command, responseCode, response } = error as SmtpError;
  if (command !== 'RCPT TO' || typeof responseCode !== 'number') return false;
  if (responseCode < 500 || responseCode > 599) return false;
  return !(typeof response === 'string' && POLICY.test(response));
}
