/** Why a deadline's signal fired: its time was over, or its caller left. */
export type DeadlineKind = 'timeout' | 'aborted';

/**
 * A signal that fires after a time or with the caller's own. `end` must be called when nobody waits any more: a signal whose
 * time is still to come holds everything that listens to it until then.
 * @param reasonOf what the signal says; an error by default
 */
export function deadline(
  timeoutMs: number,
  caller: AbortSignal | undefined,
  reasonOf: (kind: DeadlineKind) => Error = (kind) => new Error(kind),
): { signal: AbortSignal; end: () => void } {
  const controller = new AbortController();
  const onAbort = (): void => {
    controller.abort(reasonOf('aborted'));
  };
  const timer = setTimeout(() => {
    controller.abort(reasonOf('timeout'));
  }, timeoutMs);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    end: () => {
      clearTimeout(timer);
      caller?.removeEventListener('abort', onAbort);
    },
  };
}
