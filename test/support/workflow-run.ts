import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';

/** Path of the bundle that the build made. */
export const bundlePath = resolve(__dirname, '../../dist/workflow-bundle.js');

/** The one that is loaded while traces are written. */
const tracedBundlePath = resolve(__dirname, '../../dist/workflow-bundle-traced.js');

/** A bundle's code; a test may change it to show that a replay notices. */
export function bundleCode({ traced = false } = {}): string {
  const path = traced ? tracedBundlePath : bundlePath;
  if (!existsSync(path)) throw new Error('The workflow bundle is missing: run `npm run build` first');
  return readFileSync(path, 'utf8');
}

/** A worker with the real workflows and activities that a test hands in, on the queues that the workflows name. */
export async function withWorker<T>(activities: object, run: (client: Client) => Promise<T>): Promise<T> {
  const address = process.env.TEMPORAL_ADDRESS ?? '';
  // A namespace of its own: the queues' names are fixed, and a real worker of another file may poll the others.
  const namespace = 'test-4';
  const native = await NativeConnection.connect({ address });
  const connection = await Connection.connect({ address });
  const common = { connection: native, namespace, activities };
  const workers = await Promise.all([
    Worker.create({ ...common, taskQueue: 'platform', workflowBundle: { codePath: bundlePath } }),
    Worker.create({ ...common, taskQueue: 'calls', maxHeartbeatThrottleInterval: '200ms' }),
    Worker.create({ ...common, taskQueue: 'deliveries' }),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  try {
    return await run(new Client({ connection, namespace }));
  } finally {
    for (const worker of workers) worker.shutdown();
    await running;
    await connection.close();
    await native.close();
  }
}

export const freshId = (): string => `gen_${randomUUID()}`;
