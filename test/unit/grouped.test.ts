import { Grouped } from '../../src/api/core/grouped';
import { Starts } from '../../src/api/core/starts';

/** Work that ends when the test says so. */
function heldWork() {
  const groups: number[][] = [];
  const releases: ((results: Promise<number>[]) => void)[] = [];
  const grouped = new Grouped((items: number[]) => {
    groups.push(items);
    return new Promise<Promise<number>[]>((resolve) => releases.push(resolve));
  });
  return { grouped, groups, releases };
}

const doubled = (items: number[] = []): Promise<number>[] => items.map((item) => Promise.resolve(item * 2));
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('work in groups', () => {
  test('what comes alone is worked on at once; what comes meanwhile goes together after it', async () => {
    const { grouped, groups, releases } = heldWork();
    const results = [1, 2, 3].map((item) => grouped.add(item));
    await turn();
    expect(groups).toEqual([[1]]);
    releases[0]?.(doubled(groups[0]));
    await turn();
    expect(groups).toEqual([[1], [2, 3]]);
    releases[1]?.(doubled(groups[1]));
    expect(await Promise.all(results)).toEqual([2, 4, 6]);
    expect(await Promise.race([grouped.add(4), turn().then(() => 'waits')])).toBe('waits');
    expect(groups).toEqual([[1], [2, 3], [4]]);
  });

  test('a group holds a hundred at most', async () => {
    const { grouped, groups, releases } = heldWork();
    for (let item = 0; item <= 150; item++) void grouped.add(item);
    for (const [index, release] of [0, 1, 2].entries()) {
      await turn();
      releases[release]?.(doubled(groups[index]));
    }
    expect(groups.map((group) => group.length)).toEqual([1, 100, 50]);
  });

  test('what fails fails those of its group alone, and the next group is worked on', async () => {
    let fails = true;
    const grouped = new Grouped((items: number[]) => {
      if (fails) throw new Error('no');
      return Promise.resolve(doubled(items));
    });
    await expect(grouped.add(1)).rejects.toThrow('no');
    fails = false;
    expect(await grouped.add(2)).toBe(4);
  });

  test('a result that is still to come holds nobody up', async () => {
    const never = new Promise<number>(() => undefined);
    const grouped = new Grouped((items: number[]) =>
      Promise.resolve(items.map((item) => (item === 1 ? never : Promise.resolve(item)))),
    );
    void grouped.add(1);
    expect(await grouped.add(2)).toBe(2);
  });
});

describe('starts that answers do not wait for', () => {
  test('a start is not waited for, and a drain waits for it', async () => {
    const starts = new Starts(2);
    let end: (() => void) | undefined;
    await starts.begin(() => new Promise<void>((resolve) => (end = resolve)));
    const drained = starts.drain().then(() => 'drained');
    expect(await Promise.race([drained, turn().then(() => 'waits')])).toBe('waits');
    end?.();
    expect(await drained).toBe('drained');
  });

  test('beyond its places the next one is waited for', async () => {
    const starts = new Starts(2);
    const ends: (() => void)[] = [];
    const held = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    await starts.begin(held);
    await starts.begin(held);
    const third = starts.begin(held).then(() => 'made');
    expect(ends).toHaveLength(3);
    ends[1]?.();
    expect(await Promise.race([third, turn().then(() => 'waits')])).toBe('waits');
    ends[2]?.();
    expect(await third).toBe('made');
  });
});
