import { faultPoint } from '../api/core/faults';
import { lowerPlan } from '../api/plans/service';
import { accountsToTurn, closeMonth, turnOf, unturnedMonths } from '../api/plans/turns';
import type { AccountPage, TurnAccountInput, TurnPosition } from '../workflows/billing.contract';

const ACCOUNTS_A_PAGE = 100;

/** Activities of the turn of the month. All are safe to repeat. */
export const billingActivities = () => ({
  /** The oldest month that is over and not turned, from its beginning; null when there is none. */
  async nextTurn({ overAtMs }: { overAtMs: number }): Promise<TurnPosition | null> {
    const [month] = await unturnedMonths(1, new Date(overAtMs));
    return month === undefined ? null : { month, after: '' };
  },

  /** The next accounts that the turn of a month has something to do for. */
  async turnPage({ month, after }: TurnPosition): Promise<AccountPage> {
    const userIds = await accountsToTurn(month, after, ACCOUNTS_A_PAGE);
    return { userIds, more: userIds.length === ACCOUNTS_A_PAGE };
  },

  /** One step of the turn for one account; answers whether it changed anything. */
  async turnAccount({ userId, month }: TurnAccountInput): Promise<boolean> {
    const moved = await lowerPlan(userId, turnOf(month));
    await faultPoint('account-turned');
    return moved;
  },

  /** Notes that a month is turned. */
  async closeTurn({ month }: { month: string }): Promise<void> {
    await closeMonth(month);
  },
});
