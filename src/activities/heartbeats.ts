import { Context, activityInfo, heartbeat } from '@temporalio/activity';

/** This try of an activity. */
export interface Attempt {
  signal: AbortSignal;
  /** Whether the signal fired because another try has this one's place, and not because the work was cancelled. */
  replaced: () => boolean;
}

const BEAT_MS = 1_000;
/** How long a call whose try was replaced waits to be joined by the retry before it is given up. */
const JOIN_GRACE_MS = 5_000;

/**
 * Runs `fn` while telling the engine every second that this try is alive; the start counts as the first beat, and most tries
 * need no other. The signal fires when the engine takes the try
 * back: cancelled, replaced by another one, or the worker's grace time is over.
 */
export async function withHeartbeats<T>(fn: (attempt: Attempt) => Promise<T>): Promise<T> {
  const context = Context.current();
  const replaced = (): boolean => {
    const details = context.cancellationDetails;
    return details !== undefined && (details.notFound || details.timedOut);
  };
  const beat = setInterval(() => {
    heartbeat();
  }, BEAT_MS);
  try {
    return await fn({ signal: context.cancellationSignal, replaced });
  } finally {
    clearInterval(beat);
  }
}

/** Whether this is not the engine's first try of the activity. */
export const isRepeated = (): boolean => activityInfo().attempt > 1;

/** Whether this is a process's own queue, where the engine makes one attempt and the workflow sees to the next. */
export const isOneAttempt = (): boolean => activityInfo().taskQueue.startsWith('api-');

/**
 * When a try leaves the call it made or joined. A try that was cancelled leaves at once. One that the engine no longer
 * knows was replaced, and leaves after a while, so that the retry can join; or its work has ended, as `isWanted` tells.
 */
export function leaving(
  { signal, replaced }: Attempt,
  isWanted: () => Promise<boolean> = () => Promise.resolve(true),
): AbortSignal {
  const left = new AbortController();
  const leave = async (): Promise<void> => {
    const delayMs = replaced() && (await isWanted().catch(() => true)) ? JOIN_GRACE_MS : 0;
    if (delayMs === 0) left.abort();
    else setTimeout(() => left.abort(), delayMs).unref();
  };
  if (signal.aborted) void leave();
  else signal.addEventListener('abort', () => void leave(), { once: true });
  return left.signal;
}
