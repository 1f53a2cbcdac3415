/** What the workflow `mail` is started with: the row whose mail it sends, one of the two. */
export interface MailInput {
  codeId?: string;
  /** A member's row: the mail tells its address who added it. */
  memberId?: string;
}

export interface CodeMailInput {
  codeId: string;
}

export interface InvitationMailInput {
  memberId: string;
}

/** The workflow's id, derived from the row, so that a second start changes nothing. */
export const codeMailId = (codeId: string): string => `mail/${codeId}`;
export const invitationMailId = (memberId: string): string => `mail/${memberId}`;
