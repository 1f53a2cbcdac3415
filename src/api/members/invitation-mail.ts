const SHOWN_CHARACTERS_MAX = 254;

/** Names are other people's words: on one line and of a bounded length, so that they cannot pose as text of the mail. */
function shown(name: string): string {
  const line = name.replace(/[\s\p{Cc}\p{Cf}]+/gu, ' ').trim();
  const characters = Array.from(line);
  return characters.length <= SHOWN_CHARACTERS_MAX ? line : `${characters.slice(0, SHOWN_CHARACTERS_MAX).join('')}…`;
}

/** Subject and text of the mail that tells an address who added it to which project. Pure. Spec: Members, rule 4. */
export function invitationMailText({
  inviter,
  projectName,
  baseUrl,
}: {
  /** Name or address; null when nobody knows any more. */
  inviter: string | null;
  projectName: string;
  /** Where to sign in: `PUBLIC_BASE_URL`. */
  baseUrl: string;
}): { subject: string; text: string } {
  const who = inviter === null ? 'Somebody' : shown(inviter);
  const project = shown(projectName);
  return {
    subject: `You were added to the project "${project}"`,
    text: `${who} added this address to the project "${project}".\n\nSign in with this address to use it: ${baseUrl}\n\nIf you do not know what this is about, you need not do anything.\n`,
  };
}
