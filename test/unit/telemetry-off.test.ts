import { onCommit, withCommitActions } from '../../src/api/core/after-commit';
import { logFacts, withLogFacts } from '../../src/api/core/log-context';
import { count, observe } from '../../src/api/core/metrics';
import { clientInterceptors, inSpan, openSpan } from '../../src/api/core/tracing';

test('without a receiver there is no span, no interceptor, and one shared object that does nothing', async () => {
  const span = openSpan('GET', { kind: 'server', facts: { 'http.request.method': 'GET' } });
  expect(openSpan('POST', { kind: 'client' })).toBe(span);
  expect(clientInterceptors()).toEqual([]);
  expect(span.logFacts()).toEqual({});
  expect(await inSpan('work', { kind: 'internal' }, (inner) => Promise.resolve(inner === span))).toBe(true);
});

test('an unset span costs less than a microsecond', () => {
  const began = process.hrtime.bigint();
  for (let turn = 0; turn < 100_000; turn += 1) openSpan('GET', { kind: 'client' }).end();
  expect(Number(process.hrtime.bigint() - began) / 100_000).toBeLessThan(1_000);
});

test('counting before there is a meter does nothing', () => {
  count('runsAccepted', { resource: 'generation' });
  observe('deliveryLag', {}, 1);
});

test('log lines carry the ids around them, and those alone', () => {
  expect(logFacts()).toEqual({});
  withLogFacts({ request_id: 'req-1' }, () => {
    expect(logFacts()).toEqual({ request_id: 'req-1' });
  });
  expect(logFacts()).toEqual({});
});

describe('what waits for a commit', () => {
  const seen: string[] = [];
  beforeEach(() => seen.splice(0));
  const tx = (): object => ({});

  test('is done after it, in order, and not before', async () => {
    const result = await withCommitActions(
      async (inner: (given: object) => Promise<string>) => {
        const answer = await inner(tx());
        seen.push('commit');
        return answer;
      },
      (given) => {
        onCommit(given, () => seen.push('first'));
        onCommit(given, () => seen.push('second'));
        return Promise.resolve('result');
      },
    );
    expect([result, seen]).toEqual(['result', ['commit', 'first', 'second']]);
  });

  test('is left undone when the commit fails', async () => {
    const failing = withCommitActions(
      async (inner: (given: object) => Promise<void>) => {
        await inner(tx());
        throw new Error('commit failed');
      },
      (given) => {
        onCommit(given, () => seen.push('action'));
        return Promise.resolve();
      },
    );
    await expect(failing).rejects.toThrow('commit failed');
    expect(seen).toEqual([]);
  });
});
