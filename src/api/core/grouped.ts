interface Waiting<Item, Result> {
  item: Item;
  resolve: (result: Result | PromiseLike<Result>) => void;
  reject: (error: unknown) => void;
}

/** Items of one group; more would make those behind it wait. */
const GROUP_MAX = 100;

/**
 * Does work in groups: an item that comes alone is worked on at once, and those that come meanwhile go together after it. So
 * nobody waits for company, and under load many share one statement and one commit.
 */
export class Grouped<Item, Result> {
  readonly #work: (items: Item[]) => Promise<PromiseLike<Result>[]>;
  #waiting: Waiting<Item, Result>[] = [];
  #working = false;

  /** @param work answers one result an item, in their order; one of its own that is still to come holds nobody up */
  constructor(work: (items: Item[]) => Promise<PromiseLike<Result>[]>) {
    this.#work = work;
  }

  /** The result of one item. @throws what its work threw, or that of the whole group */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      if (!this.#working) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#working = true;
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, GROUP_MAX);
      await this.#runGroup(group);
    }
    this.#working = false;
  }

  async #runGroup(group: Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#work(group.map(({ item }) => item));
      group.forEach(({ resolve, reject }, index) => {
        const result = results[index];
        if (result === undefined) reject(new Error('no result for an item of a group'));
        else resolve(result);
      });
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
