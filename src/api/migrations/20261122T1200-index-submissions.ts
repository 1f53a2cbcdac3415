import { runSql } from './step';
import type { Step } from './step';

/** A settlement removes what was submitted and not taken, and a deletion everything of a run. */
export const up = ({ context }: Step): Promise<void> =>
  runSql(context, 'create index generation_submissions_generation_idx on generation_submissions (generation_id);');

export const down = ({ context }: Step): Promise<void> =>
  runSql(context, 'drop index generation_submissions_generation_idx;');
