/**
 * Starts under way in this process; who comes beside them waits for a place, so that requests are accepted no faster than the
 * engine takes their runs.
 */
const UNDER_WAY_MAX = 1_000;

/**
 * Starts of runs that answers do not wait for: their rows are committed, so what is lost with the process is made by the sweep.
 * Spec: engine rules, start.
 */
class Starts {
  readonly #underWay = new Set<Promise<void>>();

  /**
   * Begins a start and returns at once, or as soon as there is a place for it.
   * @param start never throws, and ends within its own deadline
   */
  async begin(start: () => Promise<unknown>): Promise<void> {
    while (this.#underWay.size >= UNDER_WAY_MAX) await Promise.race(this.#underWay);
    const done: Promise<void> = start().then(() => {
      this.#underWay.delete(done);
    });
    this.#underWay.add(done);
  }

  /** Waits for those under way; for the end of a process, before the engine's client is closed. Safe to repeat. */
  async drain(): Promise<void> {
    await Promise.all(this.#underWay);
  }
}

/** The starts of this process. */
export const starts = new Starts();
