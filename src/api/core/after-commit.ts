/** What is to be done once a transaction has committed, by transaction. */
const waiting = new WeakMap<object, (() => void)[]>();

/**
 * Runs `begin` with what it does in its transaction, and once that has committed everything that `onCommit` was given. A
 * transaction that rolls back, or whose commit fails, does none of it.
 */
export async function withCommitActions<Tx extends object, T>(
  begin: (inner: (tx: Tx) => Promise<T>) => Promise<T>,
  inner: (tx: Tx) => Promise<T>,
): Promise<T> {
  const actions: (() => void)[] = [];
  const result = await begin((tx) => {
    waiting.set(tx, actions);
    return inner(tx);
  });
  for (const action of actions) action();
  return result;
}

/** Does something after the commit of that transaction, for counters: it may not throw, and is lost with the process. */
export function onCommit(tx: object, action: () => void): void {
  waiting.get(tx)?.push(action);
}
