/** What the workflow `mail` is started with: the row whose mail it sends. */
export interface MailInput {
  codeId: string;
}

/** The workflow's id, derived from the row, so that a second start changes nothing. */
export const codeMailId = (codeId: string): string => `mail/${codeId}`;
