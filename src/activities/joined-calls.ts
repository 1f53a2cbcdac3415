import type { Attempt } from './heartbeats';

/** How long a call whose try was replaced waits to be joined by the retry before it is given up. */
const JOIN_GRACE_MS = 5_000;

interface Running<T> {
  promise: Promise<T>;
  controller: AbortController;
  /** Tries that want the answer. */
  tries: number;
}

/** A call that may be joined. */
export interface JoinableCall<T> {
  /** What is called: two tries with one key want the same answer. */
  key: string;
  make: (abort: AbortSignal) => Promise<T>;
  /** Whether a retry can still come for the answer. */
  isWanted: () => Promise<boolean>;
}

/**
 * Calls under way in this process, by key: a retry that lands where the first try still runs joins it instead of making
 * the call again; a call that nobody wants any more is aborted.
 */
export class JoinedCalls<T> {
  private readonly running = new Map<string, Running<T>>();

  /** Makes the call, or joins the one under way. When the signal of the last try fires, the call is aborted. */
  async run({ signal, replaced }: Attempt, call: JoinableCall<T>): Promise<T> {
    const entry = this.running.get(call.key) ?? this.begin(call);
    entry.tries += 1;
    let leave = (): void => undefined;
    const left = new Promise<never>((_resolve, reject) => {
      leave = () => {
        void this.giveUp(entry, replaced() ? call.isWanted : null);
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

  /**
   * A try that was cancelled ends its call at once. One that the engine no longer knows was replaced, and leaves the call
   * to the retry for a while, or its run has ended: the row tells which.
   */
  private async giveUp(entry: Running<T>, isWanted: (() => Promise<boolean>) | null): Promise<void> {
    if (isWanted !== null && (await isWanted().catch(() => true))) {
      await new Promise((resolve) => setTimeout(resolve, JOIN_GRACE_MS).unref());
    }
    entry.tries -= 1;
    if (entry.tries === 0) entry.controller.abort();
  }

  private begin({ key, make }: JoinableCall<T>): Running<T> {
    const controller = new AbortController();
    const promise = make(controller.signal).finally(() => {
      if (this.running.get(key) === entry) this.running.delete(key);
    });
    const entry: Running<T> = { promise, tries: 0, controller };
    this.running.set(key, entry);
    promise.catch(() => undefined); // Every try sees it; with none left nobody does.
    return entry;
  }
}
