import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { WorkerOptions } from '@temporalio/worker';
import { createActivities } from './activities';
import { generationActivities } from './activities/generations.activities';
import { CodesOnly, Labelled } from './activities/interceptor';
import type { Mailer } from './api/auth/mailer';
import { config } from './api/core/config';
import { engineConnection, queues } from './api/core/temporal';
import { workerTracing } from './telemetry-traces';
import type { WorkerTracing } from './telemetry-traces';

export interface RunningWorkers {
  /** Takes no new work and lets running calls end, up to the grace time. */
  stop: () => Promise<void>;
  /** Resolves when the workers have ended, rejects when one of them failed. */
  ended: Promise<void>;
}

/** Of errors the codes alone get out of the innermost one, so that a span holds no more than a history does. */
const interceptorsOf = (tracing: WorkerTracing | undefined): WorkerOptions['interceptors'] => ({
  activity: [
    ...(tracing?.activityInterceptors ?? []),
    () => ({ inbound: new Labelled() }),
    () => ({ inbound: new CodesOnly() }),
  ],
});

/** A bundle that the build made; under jest the code runs from its sources, and the bundle lies in `dist` all the same. */
function bundlePath(name: string): string {
  const candidates = [join(__dirname, name), resolve(__dirname, '../dist', name)];
  const found = candidates.find((path) => existsSync(path));
  if (found === undefined) throw new Error('The workflow bundle is missing: run `npm run build` first');
  return found;
}

/**
 * Starts the three workers of a process: workflows and database work on `platform`, model and tool calls on `calls`,
 * deliveries and mail on `deliveries`. Each has slots of its own, so that slow providers stop no settlement and no delivery.
 */
export async function startWorkers({ mailer }: { mailer: Mailer }): Promise<RunningWorkers> {
  const { options, namespace } = engineConnection();
  const connection = await NativeConnection.connect(options);
  const activities = createActivities({ mailer });
  const tracing = workerTracing();
  const common: WorkerOptions = {
    connection,
    namespace,
    activities,
    taskQueue: queues.platform,
    shutdownGraceTime: config().DRAIN_SECONDS * 1000,
    interceptors: interceptorsOf(tracing),
  };
  const workers = await Promise.all([
    Worker.create({
      ...common,
      workflowBundle: {
        codePath: bundlePath(tracing === undefined ? 'workflow-bundle.js' : 'workflow-bundle-traced.js'),
      },
      ...(tracing === undefined ? {} : { sinks: tracing.sinks }),
      maxCachedWorkflows: 500,
      // A killed worker's cached runs go to the others after this; they would stand still for the default of 10 s.
      stickyQueueScheduleToStartTimeout: 3_000,
      maxConcurrentActivityTaskExecutions: 100,
    }),
    Worker.create({
      ...common,
      taskQueue: queues.calls,
      maxConcurrentActivityTaskExecutions: config().CALL_SLOTS,
      maxHeartbeatThrottleInterval: Math.min(5_000, (config().CALL_HEARTBEAT_SECONDS * 1000) / 3),
    }),
    Worker.create({
      ...common,
      taskQueue: queues.deliveries,
      maxConcurrentActivityTaskExecutions: config().DELIVERY_SLOTS,
      maxHeartbeatThrottleInterval: 1_000,
    }),
  ]);
  return runningOf(workers, connection);
}

/**
 * Starts the worker by which an API process makes the model steps of the runs that it streams: activities only, on a queue of
 * its own, so that what the model says is in this process's memory.
 */
export async function startStreamWorker(taskQueue: string): Promise<RunningWorkers> {
  const { options, namespace } = engineConnection();
  const connection = await NativeConnection.connect(options);
  const { runModelStep } = generationActivities();
  const worker = await Worker.create({
    connection,
    namespace,
    activities: { runModelStep },
    taskQueue,
    shutdownGraceTime: config().DRAIN_SECONDS * 1000,
    maxConcurrentActivityTaskExecutions: config().STREAMS_MAX,
    maxHeartbeatThrottleInterval: 1_000,
    interceptors: interceptorsOf(workerTracing()),
  });
  return runningOf([worker], connection);
}

function runningOf(workers: Worker[], connection: NativeConnection): RunningWorkers {
  const ended = Promise.all(workers.map((worker) => worker.run())).then(() => undefined);
  ended.catch(() => undefined); // Whoever waits for `ended` sees it; nobody has to.
  return {
    ended,
    stop: async () => {
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
      await ended.catch(() => undefined);
      await connection.close();
    },
  };
}
