/** Requests that may be under way to one webhook at once, in one process, over first attempts and retries together. */
const PLACES_PER_WEBHOOK = 10;

const taken = new Map<string, number>();

/** Takes one of a webhook's places. @returns what gives it back (once), or null when none is free */
export function takePlace(webhookId: string): (() => void) | null {
  const count = taken.get(webhookId) ?? 0;
  if (count >= PLACES_PER_WEBHOOK) return null;
  taken.set(webhookId, count + 1);
  let held = true;
  return () => {
    if (!held) return;
    held = false;
    const left = (taken.get(webhookId) ?? 1) - 1;
    if (left > 0) taken.set(webhookId, left);
    else taken.delete(webhookId);
  };
}
