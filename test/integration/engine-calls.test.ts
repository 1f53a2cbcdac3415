import { closeEngine, startRun } from '../../src/api/core/temporal';

// Nothing listens there: the engine is unreachable for the whole file.
process.env.TEMPORAL_ADDRESS = '127.0.0.1:9';

const start = (id: string): Promise<unknown> =>
  startRun({
    type: 'sendMail',
    id,
    args: [],
    labels: { resourceType: 'mail', resourceId: id },
    memo: { trigger: 'tests' },
  });

describe('a connection to the engine that is closed while calls wait for their next try', () => {
  test('fails each of them by then, and throws nothing at the process', async () => {
    const calls = Promise.allSettled([start('mail/1'), start('mail/2'), start('mail/3')]);
    // The first tries have failed: nothing listens there. Each waits in a timer of the SDK.
    await new Promise((resolve) => setTimeout(resolve, 500));
    await closeEngine();
    const ended = await calls;
    expect(ended.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  }, 10_000);
});
