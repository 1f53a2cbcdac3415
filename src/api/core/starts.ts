/** Starts under way in this process that nobody waits for; the engine answers as many within the deadline of a start. */
const UNDER_WAY_MAX = 32;

/**
 * Starts of runs that answers do not wait for: their rows are committed, so what is lost with the process is made by the sweep.
 * Spec: engine rules, start.
 */
export class Starts {
  readonly #underWay = new Set<Promise<void>>();
  readonly #places: number;

  constructor(places: number) {
    this.#places = places;
  }

  /**
   * Begins a start and returns at once. Where every place is taken it returns when the start is made, so that requests are
   * accepted no faster than the engine takes their runs.
   * @param start never throws, and ends within its own deadline
   */
  async begin(start: () => Promise<unknown>): Promise<void> {
    const full = this.#underWay.size >= this.#places;
    const done: Promise<void> = start().then(() => {
      this.#underWay.delete(done);
    });
    this.#underWay.add(done);
    if (full) await done;
  }

  /** Waits for those under way; for the end of a process, before the engine's client is closed. Safe to repeat. */
  async drain(): Promise<void> {
    await Promise.all(this.#underWay);
  }
}

/** The starts of this process. */
export const starts = new Starts(UNDER_WAY_MAX);
