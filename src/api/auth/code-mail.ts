const MINUTE_MS = 60_000;

/** Subject and text of the mail that carries a sign-in code; the life it states is what is left of it when it is sent. */
export function codeMailText({ code, expiresAt, now }: { code: string; expiresAt: Date; now: Date }): {
  subject: string;
  text: string;
} {
  const minutes = Math.max(1, Math.floor((expiresAt.getTime() - now.getTime()) / MINUTE_MS));
  const life = minutes === 1 ? 'one minute' : `${String(minutes)} minutes`;
  return {
    subject: 'Your sign-in code',
    text: `Your sign-in code is ${code}. It is good for ${life} and for one sign-in.\n\nIf you did not ask for it, you need not do anything.\n`,
  };
}
