export interface EventuallyOptions {
  /** How long to try, 5,000 by default. */
  timeoutMs?: number;
  /** Pause between tries, 25 by default. */
  intervalMs?: number;
}

/**
 * Repeats an assertion until it passes and answers its value; throws the last error when the time is up.
 * A try under way at that moment is waited for, so its own error is the one that is thrown.
 */
export async function eventually<Value>(
  assertion: () => Value | Promise<Value>,
  { timeoutMs = 5_000, intervalMs = 25 }: EventuallyOptions = {},
): Promise<Value> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await assertion();
    } catch (error) {
      if (performance.now() + intervalMs > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}
