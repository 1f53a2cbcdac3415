import { runSql } from './step';
import type { Step } from './step';

/**
 * A pending delivery has a next attempt, a settled one has none. Said by the status, the index served every statement that
 * names a pending delivery by its id as well: on a planner without figures of the table each of them read all that is pending.
 */
export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  drop index webhook_deliveries_due_idx;
  create index webhook_deliveries_due_idx on webhook_deliveries (next_attempt_at) where next_attempt_at is not null;`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  drop index webhook_deliveries_due_idx;
  create index webhook_deliveries_due_idx on webhook_deliveries (next_attempt_at) where status = 'pending';`,
  );
