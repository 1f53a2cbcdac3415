import type { Attempt } from '../../src/activities/heartbeats';
import { JoinedCalls } from '../../src/activities/joined-calls';

/** A try that a test can take back. */
function attempt(): Attempt & { takeBack: (replaced: boolean) => void } {
  const controller = new AbortController();
  let wasReplaced = false;
  return {
    signal: controller.signal,
    replaced: () => wasReplaced,
    takeBack: (replaced) => {
      wasReplaced = replaced;
      controller.abort(new Error('taken back'));
    },
  };
}

/** A call that answers when the test says so. */
function heldCall(key: string, wanted = true) {
  const made: { abort: AbortSignal; answer: (value: string) => void }[] = [];
  const make = (abort: AbortSignal): Promise<string> =>
    new Promise((answer, reject) => {
      made.push({ abort, answer });
      abort.addEventListener('abort', () => reject(new Error('aborted')));
    });
  return { made, joinable: { key, make, isWanted: () => Promise.resolve(wanted) } };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('a retry joins the call of the try that it replaces: one call, one answer', async () => {
  const calls = new JoinedCalls<string>();
  const { made, joinable } = heldCall('gen_1:1');
  const first = attempt();
  const lost = calls.run(first, joinable);
  first.takeBack(true);
  await expect(lost).rejects.toThrow('taken back');
  await jest.advanceTimersByTimeAsync(1_000);
  const second = calls.run(attempt(), joinable);
  await jest.advanceTimersByTimeAsync(60_000);
  expect(made).toHaveLength(1);
  expect(made[0]!.abort.aborted).toBe(false);
  made[0]!.answer('paid once');
  await expect(second).resolves.toBe('paid once');
});

test('a replaced try that nobody joins aborts its call after a while', async () => {
  const calls = new JoinedCalls<string>();
  const { made, joinable } = heldCall('gen_1:1');
  const first = attempt();
  const lost = calls.run(first, joinable);
  first.takeBack(true);
  await expect(lost).rejects.toThrow('taken back');
  await jest.advanceTimersByTimeAsync(4_000);
  expect(made[0]!.abort.aborted).toBe(false);
  await jest.advanceTimersByTimeAsync(2_000);
  expect(made[0]!.abort.aborted).toBe(true);
});

test('a cancelled try aborts its call at once, and so does one whose run has ended', async () => {
  for (const { replaced, wanted } of [
    { replaced: false, wanted: true },
    { replaced: true, wanted: false },
  ]) {
    const calls = new JoinedCalls<string>();
    const { made, joinable } = heldCall('gen_1:1', wanted);
    const first = attempt();
    const lost = calls.run(first, joinable);
    first.takeBack(replaced);
    await expect(lost).rejects.toThrow('taken back');
    await jest.advanceTimersByTimeAsync(1);
    expect(made[0]!.abort.aborted).toBe(true);
  }
});

test('calls of other steps are calls of their own, and an answered one is made anew', async () => {
  const calls = new JoinedCalls<string>();
  const one = heldCall('gen_1:1');
  const two = heldCall('gen_1:2');
  const answers = [calls.run(attempt(), one.joinable), calls.run(attempt(), two.joinable)];
  one.made[0]!.answer('a');
  two.made[0]!.answer('b');
  await expect(Promise.all(answers)).resolves.toEqual(['a', 'b']);
  void calls.run(attempt(), one.joinable);
  expect(one.made).toHaveLength(2);
});
