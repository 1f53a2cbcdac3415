/** A mail in the development mailbox, in the shape of the API. */
export interface Mail {
  to: string;
  subject: string;
  text: string;
  /** The sign-in code in it; null in other mails. */
  code: string | null;
  created_at: string;
}

/** Reads the mails to an address, newest first. */
export type MailboxReader = (to: string) => Promise<Mail[]>;

let current: MailboxReader | null = null;

/** Hands in the reader of the mailbox; local mode does. Until then there is no mailbox. */
export function setMailboxReader(reader: MailboxReader): void {
  current = reader;
}

/** The reader that was handed in, or null. */
export const mailboxReader = (): MailboxReader | null => current;
