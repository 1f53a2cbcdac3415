import { UnderWay } from '../../src/api/core/under-way';

const never = new AbortController().signal;

/** A call that ends when it is told to, or when it is aborted. */
function call() {
  let end: (text: string) => void = () => undefined;
  let begun = 0;
  const begin = (signal: AbortSignal): Promise<string> => {
    begun += 1;
    return new Promise((resolve) => {
      end = resolve;
      signal.addEventListener('abort', () => {
        resolve('aborted');
      });
    });
  };
  return {
    begin,
    end: (text: string) => {
      end(text);
    },
    begun: () => begun,
  };
}

test('a second call with the same key joins the first', async () => {
  const underWay = new UnderWay<string>();
  const { begin, end, begun } = call();
  const both = Promise.all([underWay.join('a', never, begin), underWay.join('a', never, begin)]);
  end('done');
  expect(await both).toEqual(['done', 'done']);
  expect(begun()).toBe(1);
});

test('calls with other keys, and later ones, are calls of their own', async () => {
  const underWay = new UnderWay<string>();
  const begin = jest.fn((_signal: AbortSignal) => Promise.resolve('done'));
  await Promise.all([underWay.join('a', never, begin), underWay.join('b', never, begin)]);
  await underWay.join('a', never, begin);
  expect(begin).toHaveBeenCalledTimes(3);
});

test('the call is aborted when everybody has left, and not before', async () => {
  const underWay = new UnderWay<string>();
  const { begin } = call();
  const first = new AbortController();
  const second = new AbortController();
  const results = Promise.all([underWay.join('a', first.signal, begin), underWay.join('a', second.signal, begin)]);
  const ended = jest.fn();
  void results.then(ended);
  first.abort();
  await new Promise(setImmediate);
  expect(ended).not.toHaveBeenCalled();
  second.abort();
  expect(await results).toEqual(['aborted', 'aborted']);
});

test('a failed call fails for everybody and leaves the key free', async () => {
  const underWay = new UnderWay<string>();
  const failing = (): Promise<string> => Promise.reject(new Error('broken'));
  const both = await Promise.allSettled([underWay.join('a', never, failing), underWay.join('a', never, failing)]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await expect(underWay.join('a', never, () => Promise.resolve('done'))).resolves.toBe('done');
});
