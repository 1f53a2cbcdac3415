/** Names kept at once; a gate's name is the caller's, so the set must not grow without end. */
const gateNamesMax = 10_000;

/**
 * Named points where an answer waits until somebody lets it go.
 * A released gate stays open until `reset`, so that the retry of a held call is not held a second time.
 */
export class Gates {
  readonly #open = new Set<string>();
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Waits for the gate. Answers false when the signal ended the wait, because the peer went away. */
  async wait(name: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.#open.has(name)) return true;
    const waiters = this.#waiting.get(name) ?? new Set<() => void>();
    this.#waiting.set(name, waiters);
    return new Promise((resolve) => {
      const settle = (released: boolean) => {
        waiters.delete(release);
        if (waiters.size === 0 && this.#waiting.get(name) === waiters) this.#waiting.delete(name);
        signal.removeEventListener('abort', abort);
        resolve(released);
      };
      const release = () => {
        settle(true);
      };
      const abort = () => {
        settle(false);
      };
      waiters.add(release);
      signal.addEventListener('abort', abort, { once: true });
    });
  }

  /** Opens the gate for those who wait and for those who come later; answers how many were waiting. Safe to repeat. */
  release(name: string): number {
    if (!this.#open.has(name) && this.#open.size >= gateNamesMax) throw new Error(`More than ${gateNamesMax} gates`);
    this.#open.add(name);
    const waiters = [...(this.#waiting.get(name) ?? [])];
    for (const waiter of waiters) waiter();
    return waiters.length;
  }

  /** Closes every gate again. Those who still wait keep waiting: their connections are the owner's to end. */
  reset(): void {
    this.#open.clear();
  }
}

/** Waits, unless the signal comes first; answers false then. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  return new Promise((resolve) => {
    const settle = (elapsed: boolean) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(elapsed);
    };
    const abort = () => {
      settle(false);
    };
    const timer = setTimeout(() => {
      settle(true);
    }, milliseconds);
    signal.addEventListener('abort', abort, { once: true });
  });
}
