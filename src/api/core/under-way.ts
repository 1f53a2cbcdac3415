/** One call with everybody who waits for it. */
interface Shared<Result> {
  result: Promise<Result>;
  abort: AbortController;
  waiting: number;
}

/**
 * Calls under way, by key: a second one with the same key joins the first, since a retry may land in the process where
 * the first try still runs. The call is aborted once everybody who waits for it has left.
 */
export class UnderWay<Result> {
  readonly #calls = new Map<string, Shared<Result>>();

  /** Joins the call of that key, or begins it; `leave` is the signal of this one caller. */
  async join(key: string, leave: AbortSignal, begin: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const call = this.#calls.get(key) ?? this.#begin(key, begin);
    call.waiting += 1;
    const left = (): void => {
      call.waiting -= 1;
      if (call.waiting === 0) call.abort.abort();
    };
    if (leave.aborted) left();
    else leave.addEventListener('abort', left, { once: true });
    try {
      return await call.result;
    } finally {
      leave.removeEventListener('abort', left);
    }
  }

  #begin(key: string, begin: (signal: AbortSignal) => Promise<Result>): Shared<Result> {
    const abort = new AbortController();
    const result = begin(abort.signal).finally(() => this.#calls.delete(key));
    const call = { result, abort, waiting: 0 };
    this.#calls.set(key, call);
    return call;
  }
}
