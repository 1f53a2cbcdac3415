import { hostname } from 'node:os';
import { clock } from './api/core/clock';
import { errorFacts } from './api/core/log';
import { closeEngine, engine, engineServices, queues } from './api/core/temporal';

/** A poll is held by the engine for up to a minute; the time of a poller is that of its last one. */
const FRESH_MS = 150_000;
const ANSWER_MS = 10_000;

/**
 * Whether the engine knows a worker on this machine that polls for workflows: a process that lives but has stopped to work
 * fails it. Reads only. @throws when the engine does not answer
 */
async function isPolling(): Promise<boolean> {
  const { namespace } = engine().options;
  const { pollers } = await engine().withDeadline(clock.ms() + ANSWER_MS, () =>
    engineServices().workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: queues.platform },
    }),
  );
  return pollers.some(({ identity, lastAccessTime }) => {
    const at = Number(lastAccessTime?.seconds ?? 0) * 1000;
    return identity?.endsWith(`@${hostname()}`) === true && clock.ms() - at < FRESH_MS;
  });
}

/** The health check of a worker's container, which has one worker: status 0 when it works. */
async function main(): Promise<void> {
  try {
    if (!(await isPolling())) throw new Error('No worker of this machine polls the engine.');
  } finally {
    await closeEngine();
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`${JSON.stringify(errorFacts(error))} ${error instanceof Error ? error.message : ''}\n`);
  process.exitCode = 1;
});
