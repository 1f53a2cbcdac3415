import { leaving } from '../../src/activities/heartbeats';
import type { Attempt } from '../../src/activities/heartbeats';
import { UnderWay } from '../../src/api/core/under-way';

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

/** A call that answers when the test says so, and fails when it is aborted. */
function heldCall() {
  const made: { abort: AbortSignal; answer: (value: string) => void }[] = [];
  const make = (abort: AbortSignal): Promise<string> =>
    new Promise((answer, reject) => {
      made.push({ abort, answer });
      abort.addEventListener('abort', () => {
        reject(new Error('aborted'));
      });
    });
  return { made, make };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : '');

const wanted = (value: boolean) => () => Promise.resolve(value);

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('a retry joins the call of the try that it replaces: one call, one answer', async () => {
  const calls = new UnderWay<string>();
  const { made, make } = heldCall();
  const first = attempt();
  void calls.join('gen_1:1', leaving(first, wanted(true)), make);
  first.takeBack(true);
  await jest.advanceTimersByTimeAsync(1_000);
  const second = calls.join('gen_1:1', leaving(attempt()), make);
  await jest.advanceTimersByTimeAsync(60_000);
  expect(made).toHaveLength(1);
  expect(made[0]!.abort.aborted).toBe(false);
  made[0]!.answer('paid once');
  await expect(second).resolves.toBe('paid once');
});

test('a replaced try that nobody joins gives its call up after a while', async () => {
  const calls = new UnderWay<string>();
  const { made, make } = heldCall();
  const first = attempt();
  const lost = calls.join('gen_1:1', leaving(first), make).catch(messageOf);
  first.takeBack(true);
  await jest.advanceTimersByTimeAsync(4_000);
  expect(made[0]!.abort.aborted).toBe(false);
  await jest.advanceTimersByTimeAsync(2_000);
  await expect(lost).resolves.toBe('aborted');
});

test.each([
  ['was cancelled', { replaced: false, isWanted: true }],
  ['is no longer known because its run has ended', { replaced: true, isWanted: false }],
])('a try that %s gives its call up at once', async (_name, { replaced, isWanted }) => {
  const calls = new UnderWay<string>();
  const { make } = heldCall();
  const first = attempt();
  const lost = calls.join('gen_1:1', leaving(first, wanted(isWanted)), make).catch(messageOf);
  first.takeBack(replaced);
  await jest.advanceTimersByTimeAsync(1);
  await expect(lost).resolves.toBe('aborted');
});

test('a try that is taken back before it begins leaves at once too', async () => {
  const first = attempt();
  first.takeBack(false);
  const signal = leaving(first);
  await jest.advanceTimersByTimeAsync(1);
  expect(signal.aborted).toBe(true);
});
