import { readFileSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import { DeterminismViolationError } from '@temporalio/workflow';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { bundleCode } from '../support/workflow-run';

Runtime.install({ logger: new DefaultLogger('ERROR') });

const folder = resolve(__dirname, 'histories');

/** Histories that were recorded from real runs and are kept: a change of a workflow that cannot go on with them fails here. */
const saved = readdirSync(folder).filter((name) => name.endsWith('.json'));

const replay = (name: string, code: string): Promise<void> =>
  Worker.runReplayHistory(
    { workflowBundle: { code } },
    historyFromJSON(JSON.parse(readFileSync(resolve(folder, name), 'utf8'))),
    name.replace(/\.json$/, ''),
  );

test.each(saved)('%s replays', async (name) => {
  await replay(name, bundleCode());
});

test('all of them replay with the interceptor of tracing, though none was recorded with them', async () => {
  const code = bundleCode({ traced: true });
  for (const name of saved) await replay(name, code);
}, 120_000);

test('every type of workflow, and each way in which a generation ends or waits, has a history', () => {
  const kinds = [
    'generation-finished',
    'generation-tools',
    'generation-paused',
    'generation-resumed',
    'generation-failed',
    'generation-cancelled',
    'generation-streamed',
    'generation-stream-lost',
    'generation-scratch',
    'delivery-success',
    'delivery-failed',
    'mail',
    'mail-invitation',
    'sweepStarts',
    'sweepLost',
    'sweepExpired',
    'retain',
    'tracePurge',
    // Of the first builds, of those with zero retention, and of those with tools of agents: each goes through more tables.
    'reencryption',
    'reencryption-contents',
    'reencryption-agents',
    'agentDeletion',
    'projectDeletion',
    'projectPause',
  ];
  expect(saved.map((name) => name.replace(/\.json$/, '')).sort()).toEqual(kinds.sort());
});

test('a copy of the workflow with two awaits swapped does not replay', async () => {
  const code = bundleCode();
  // The pause waits before it is committed: the same commands in another order.
  const swapped = code.replace(
    /if \(!\(await recordPause\(\{ generationId, pause \}\)\)\)\s*return;([\s\S]{0,80}?)await \(0, workflow_1\.condition\)\((\(\) => progress\.taken !== undefined \|\| progress\.moved)\);/,
    'await (0, workflow_1.condition)($2);$1await recordPause({ generationId, pause });',
  );
  expect(swapped).not.toBe(code);
  await expect(replay('generation-resumed.json', swapped)).rejects.toThrow(DeterminismViolationError);
});
