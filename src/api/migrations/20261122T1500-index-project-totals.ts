import { runSql } from './step';
import type { Step } from './step';

/**
 * What a page of a project's generations counts, read from as little as possible: entries of one project share a page of the
 * index by the hundred, where those of `generations_project_idx` are each told apart by time and id.
 */
export const up = ({ context }: Step): Promise<void> =>
  runSql(context, `create index generations_total_idx on generations (project_id);`);

export const down = ({ context }: Step): Promise<void> => runSql(context, `drop index generations_total_idx;`);
