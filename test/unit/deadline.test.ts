import { deadline } from '../../src/api/core/deadline';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** A signal that tells how many listen to it. */
function caller() {
  const controller = new AbortController();
  const { signal } = controller;
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  jest.spyOn(signal, 'addEventListener').mockImplementation((...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  });
  jest.spyOn(signal, 'removeEventListener').mockImplementation((...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  });
  return { controller, signal, listeners: () => listeners };
}

describe('a deadline', () => {
  test('fires when its time is over, and says so', () => {
    const { signal } = deadline(1_000, undefined);
    jest.advanceTimersByTime(999);
    expect(signal.aborted).toBe(false);
    jest.advanceTimersByTime(1);
    expect(signal.reason).toEqual(new Error('timeout'));
  });

  test('fires with its caller, then and before', () => {
    const leaving = new AbortController();
    const { signal } = deadline(1_000, leaving.signal);
    leaving.abort();
    expect(signal.reason).toEqual(new Error('aborted'));
    expect(deadline(1_000, leaving.signal).signal.reason).toEqual(new Error('aborted'));
  });

  test('gives the reason that it is told to', () => {
    const { signal } = deadline(5, undefined, (kind) => new TypeError(`by ${kind}`));
    jest.advanceTimersByTime(5);
    expect(signal.reason).toEqual(new TypeError('by timeout'));
  });

  test('holds nothing and fires no more once it has ended: ten minutes of waiters would be a memory full of them', () => {
    const { controller, signal: leave, listeners } = caller();
    const { signal, end } = deadline(600_000, leave);
    expect([jest.getTimerCount(), listeners()]).toEqual([1, 1]);
    end();
    expect([jest.getTimerCount(), listeners()]).toEqual([0, 0]);
    controller.abort();
    expect(signal.aborted).toBe(false);
  });
});
