import { continueAsNew, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { MonthTurnInput, TurnCounts, TurnPosition } from './billing.contract';
import { database } from './options';

const { closeTurn, nextTurn, turnAccount, turnPage } = proxyActivities<Activities>(database);

/**
 * Turns every month that is over and not turned yet, the oldest first: page by page of accounts, one activity for each
 * account and step. Each of them is safe to repeat, so that a turn may be cut anywhere, and two may run at once.
 */
export async function monthTurn({ at }: MonthTurnInput): Promise<TurnCounts> {
  const counts: TurnCounts = { months: 0, downgrades: 0 };
  // The engine's clock says that the month is over; a worker's own may be behind.
  const overAt = { overAtMs: workflowInfo().startTime.getTime() };
  let position: TurnPosition | null = at ?? (await nextTurn(overAt));
  while (position !== null) {
    const { month } = position;
    const { userIds, more } = await turnPage(position);
    const moved = await Promise.all(userIds.map((userId) => turnAccount({ userId, month, step: 'downgrade' })));
    counts.downgrades += moved.filter(Boolean).length;
    if (more) {
      position = { month, after: userIds.at(-1) ?? '' };
    } else {
      await closeTurn({ month });
      counts.months += 1;
      position = await nextTurn(overAt);
    }
    if (position !== null && workflowInfo().continueAsNewSuggested)
      await continueAsNew<typeof monthTurn>({ at: position });
  }
  return counts;
}
