import { clock } from './api/core/clock';
import { closeDatabase } from './api/core/db';
import { closeEngine, engine, startRun } from './api/core/temporal';
import { SWEEP_KINDS } from './workflows/sweeps.contract';
import type { LostCounts, SweepInput } from './workflows/sweeps.contract';

/**
 * Compares rows and runs once by hand, as `sweep/lost` does hourly, and waits for the end; the work is the worker's.
 * Safe to repeat. @throws when the engine does not answer or the run does not succeed
 */
export async function reconcile(): Promise<LostCounts> {
  const name = `manual-${clock.now().toISOString()}`;
  const id = `sweep/lost/${name}`;
  const input: SweepInput = { kinds: SWEEP_KINDS };
  await startRun({
    type: 'sweepLost',
    id,
    args: [input],
    labels: { resourceType: 'sweep', resourceId: name },
    memo: { trigger: 'manual' },
  });
  return (await engine().workflow.getHandle(id).result()) as LostCounts;
}

async function main(): Promise<void> {
  try {
    const { started, signalled } = await reconcile();
    process.stdout.write(`started ${String(started)} runs, told ${String(signalled)} runs to look at their row\n`);
  } finally {
    await closeEngine();
    await closeDatabase();
  }
}

if (require.main === module) {
  main().catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });
}
