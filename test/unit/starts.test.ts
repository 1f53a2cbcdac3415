import { Starts } from '../../src/api/core/starts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

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
