import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';
import { batch } from './options';
import type { LostCounts, RemovalInput, StartCounts, SweepInput } from './sweeps.contract';

const { compareRuns, removeRows, startUnseen } = proxyActivities<Activities>(batch);

/** Ends a removal that goes on for ever; the next day's takes up the rest. */
const PIECES_MAX = 1_000;

/** Starts the runs of rows whose start was lost. Kinds go side by side, so that one that hangs stops no other. */
export async function sweepStarts({ kinds }: SweepInput): Promise<StartCounts> {
  const counts = await Promise.all(kinds.map((kind) => startUnseen({ kind })));
  return { started: sum(counts.map(({ started }) => started)) };
}

/** Compares unsettled rows of every state with the engine's list of open runs. */
export async function sweepLost({ kinds }: SweepInput): Promise<LostCounts> {
  const counts = await Promise.all(kinds.map((kind) => compareRuns({ kind })));
  return {
    started: sum(counts.map(({ started }) => started)),
    signalled: sum(counts.map(({ signalled }) => signalled)),
  };
}

/** Removes rows that are past their end. */
export const sweepExpired = (input: RemovalInput): Promise<number> => removeAll(input);

/** Removes records that are past their retention. */
export const retain = (input: RemovalInput): Promise<number> => removeAll(input);

/** In the order of the tables: rows that others refer to go after them. */
async function removeAll({ tables }: RemovalInput): Promise<number> {
  let removed = 0;
  for (const table of tables) {
    let after: string | null = '';
    for (let piece = 0; after !== null && piece < PIECES_MAX; piece += 1) {
      const done: { removed: number; after: string | null } = await removeRows({ table, after });
      removed += done.removed;
      after = done.after;
    }
  }
  return removed;
}

const sum = (numbers: number[]): number => numbers.reduce((total, number) => total + number, 0);
