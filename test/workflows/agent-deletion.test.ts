import { ApplicationFailure } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { DeleteBatchResult } from '../../src/workflows/deletions.contract';
import { freshId, withWorker } from '../support/workflow-run';

Runtime.install({ logger: new DefaultLogger('ERROR') });

/** Runs a deletion whose batches come to what a test scripts; answers its result and what the batches were asked. */
async function deletion(batches: (DeleteBatchResult | Error)[]): Promise<{ result: unknown; asked: unknown[] }> {
  const asked: unknown[] = [];
  const deleteBatch = (input: unknown): Promise<DeleteBatchResult> => {
    asked.push(input);
    const next = batches.shift();
    if (next === undefined) throw ApplicationFailure.nonRetryable('UNASKED', 'UNASKED');
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  };
  const result = await withWorker({ deleteBatch }, (client) =>
    client.workflow.execute('agentDeletion', {
      taskQueue: 'platform',
      workflowId: `delete/${freshId()}`,
      workflowExecutionTimeout: '30s',
      args: [{ agentId: 'agent_1' }],
    }),
  );
  return { result, asked };
}

const page = { kind: 'agent', id: 'agent_1' };

test('a deletion asks for batches until none is left, and answers what went', async () => {
  const { result, asked } = await deletion([
    { generations: 1_000, traces: 0, more: true },
    { generations: 5, traces: 995, more: true },
    { generations: 0, traces: 10, more: false },
  ]);
  expect(result).toEqual({ generations: 1_005, traces: 1_005 });
  expect(asked).toEqual([page, page, page]);
});

test('a batch that failed is asked for again', async () => {
  const { result, asked } = await deletion([
    ApplicationFailure.retryable('service_unavailable', 'service_unavailable'),
    { generations: 2, traces: 2, more: false },
  ]);
  expect(result).toEqual({ generations: 2, traces: 2 });
  expect(asked).toHaveLength(2);
});

test('a deletion whose row is gone has come to its end', async () => {
  const { result, asked } = await deletion([ApplicationFailure.nonRetryable('ROW_GONE', 'ROW_GONE')]);
  expect(result).toEqual({ generations: 0, traces: 0 });
  expect(asked).toHaveLength(1);
});
