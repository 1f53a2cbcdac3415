import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { PausePageInput, PausePageResult } from '../../src/workflows/projects.contract';
import { freshId, withWorker } from '../support/workflow-run';

Runtime.install({ logger: new DefaultLogger('ERROR') });

const place = (id: string): PausePageResult['place'] => ({
  changedAt: '2026-10-01T12:00:00.000Z',
  after: { kind: 'runs', id },
});

test('a pause asks for pages until row and world agree, and again when it was told of a change meanwhile', async () => {
  const asked: (PausePageInput['place'] | 'told')[] = [];
  const pages: PausePageResult[] = [
    { changed: 100, place: place('a') },
    { changed: 3, place: null },
    { changed: 1, place: null },
  ];
  const workflowId = `pause/${freshId()}`;
  let tell: () => Promise<unknown> = () => Promise.resolve();
  const pausePage = async (input: PausePageInput): Promise<PausePageResult> => {
    asked.push(input.place);
    if (asked.length === 2) await tell();
    return pages.shift() ?? { changed: 0, place: null };
  };
  const result = await withWorker({ pausePage }, async (client) => {
    tell = () => client.workflow.getHandle(workflowId).signal('changed');
    return client.workflow.execute('projectPause', {
      taskQueue: 'platform',
      workflowId,
      workflowExecutionTimeout: '30s',
      args: [{ projectId: 'proj_1' }],
    });
  });
  expect(result).toEqual({ changed: 104 });
  expect(asked).toEqual([null, place('a'), null]);
});
