/** Counts by the second, and their sum over a trailing window. Seconds are added in rising order. */
export class SecondCounts {
  private readonly counts = new Map<number, number>();
  private sum = 0;

  /** @param seconds width of the window */
  constructor(private readonly seconds: number) {}

  add(second: number, count: number): void {
    this.counts.set(second, (this.counts.get(second) ?? 0) + count);
    this.sum += count;
  }

  /** The sum of what lies in the window that ends with `now`, a second. */
  total(now: number): number {
    for (const [second, count] of this.counts) {
      if (second > now - this.seconds) break;
      this.counts.delete(second);
      this.sum -= count;
    }
    return this.sum;
  }

  entries(): [second: number, count: number][] {
    return [...this.counts];
  }
}
