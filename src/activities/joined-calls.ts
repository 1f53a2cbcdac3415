import type { Attempt } from './heartbeats';

/** How long a call whose try was replaced waits to be joined by the retry before it is given up. */
const JOIN_GRACE_MS = 5_000;

interface Running<T> {
  promise: Promise<T>;
  controller: AbortController;
  /** Tries that want the answer. */
  tries: number;
}

/**
 * Calls under way in this process, by key: a retry that lands where the first try still runs joins it instead of making
 * the call again; a call that nobody wants any more is aborted.
 */
export class JoinedCalls<T> {
  private readonly running = new Map<string, Running<T>>();

  /** Makes the call, or joins the one under way. When the signal of the last try fires, the call is aborted. */
  async run(key: string, { signal, replaced }: Attempt, call: (abort: AbortSignal) => Promise<T>): Promise<T> {
    const entry = this.running.get(key) ?? this.begin(key, call);
    entry.tries += 1;
    let leave = (): void => undefined;
    const left = new Promise<never>((_resolve, reject) => {
      leave = () => {
        this.giveUp(entry, replaced());
        reject(signal.reason as Error);
      };
    });
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([entry.promise, left]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** A try that was replaced leaves its call to the retry for a while; one that was cancelled ends it at once. */
  private giveUp(entry: Running<T>, replaced: boolean): void {
    const drop = (): void => {
      entry.tries -= 1;
      if (entry.tries === 0) entry.controller.abort();
    };
    if (replaced) setTimeout(drop, JOIN_GRACE_MS).unref();
    else drop();
  }

  private begin(key: string, call: (abort: AbortSignal) => Promise<T>): Running<T> {
    const controller = new AbortController();
    const promise = call(controller.signal).finally(() => {
      if (this.running.get(key) === entry) this.running.delete(key);
    });
    const entry: Running<T> = { promise, tries: 0, controller };
    this.running.set(key, entry);
    promise.catch(() => undefined); // Every try sees it; with none left nobody does.
    return entry;
  }
}
