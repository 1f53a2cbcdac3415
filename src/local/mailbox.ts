/** A mail as it is handed over for delivery. */
export interface OutgoingMail {
  to: string;
  subject: string;
  text: string;
  /** The sign-in code it carries; null for other mails. */
  code: string | null;
}

/** A mail that was not sent but kept, in the shape `GET /dev/mailbox` answers. */
export interface Mail extends OutgoingMail {
  created_at: string;
}

const MAILS_MAX = 200;

/** Keeps the last 200 mails in memory, in place of a mail server. Spec: the development mailbox exists in local mode only. */
export class Mailbox {
  private readonly mails: Mail[] = [];

  store(mail: OutgoingMail): void {
    this.mails.push({
      to: mail.to,
      subject: mail.subject,
      text: mail.text,
      code: mail.code,
      created_at: new Date().toISOString(),
    });
    if (this.mails.length > MAILS_MAX) this.mails.shift();
  }

  /** Mails to one address, newest first; addresses are compared without regard to case. */
  read(to: string): Mail[] {
    const address = to.toLowerCase();
    return this.mails.filter((mail) => mail.to.toLowerCase() === address).reverse();
  }
}
