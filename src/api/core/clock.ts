/** The one place where production code asks for the time. Milliseconds, because JavaScript dates and our columns carry no more. */
export const clock = {
  /** Now, as a date. */
  now: (): Date => new Date(),
  /** Now, in milliseconds since the epoch. */
  ms: (): number => Date.now(),
};

/** A date `milliseconds` after `from` (before it, when negative). */
export const shifted = (from: Date, milliseconds: number): Date => new Date(from.getTime() + milliseconds);
