import { MONTH_TURN, monthTurnId } from '../../workflows/billing.contract';
import type { MonthTurnInput } from '../../workflows/billing.contract';
import { clock } from '../core/clock';
import { monthBefore, monthOf, nextMonthStart, monthStart } from '../core/cycle';
import { query, queryOne } from '../core/db';
import { errorFacts, log } from '../core/log';
import { startRun } from '../core/temporal';

/** The turn of a month happens at the first moment of the next one. */
export const turnOf = (month: string): Date => nextMonthStart(monthStart(month));

/**
 * Months that are over and whose turn is not done, oldest first, at most `limit`: from the first account on, or from the
 * last one that was turned. Spec: Plans, durability.
 * @param reached a moment that has come by another clock than ours
 */
export async function unturnedMonths(limit: number, reached?: Date): Promise<string[]> {
  const row = await queryOne<{ turned: string | null; first: Date | null }>(
    'select (select max(month) from month_turns) as turned, (select min(created_at) from users) as first',
  );
  const now = clock.now();
  const over = monthBefore(monthOf(reached !== undefined && reached > now ? reached : now));
  const months: string[] = [];
  let month = firstUnturned(row?.turned ?? null, row?.first ?? null);
  while (month !== null && month <= over && months.length < limit) {
    months.push(month);
    month = monthOf(turnOf(month));
  }
  return months;
}

function firstUnturned(turned: string | null, first: Date | null): string | null {
  if (turned !== null) return monthOf(turnOf(turned));
  return first === null ? null : monthOf(first);
}

/** Ids of accounts that the turn of a month has something to do for, after one, in their order. */
export async function accountsToTurn(month: string, after: string, limit: number): Promise<string[]> {
  const rows = await query<{ id: string }>(
    `select id from users where next_plan is not null and next_plan_at <= $1 and id > $2 order by id limit $3`,
    [turnOf(month), after, limit],
  );
  return rows.map(({ id }) => id);
}

/** Writes down that a month is turned. Safe to repeat. */
export async function closeMonth(month: string): Promise<void> {
  await query('insert into month_turns (month, turned_at) values ($1, $2) on conflict do nothing', [
    month,
    clock.now(),
  ]);
}

/**
 * Starts the turn of what was left unturned while nothing ran; called when a worker starts, safe to repeat. The Schedule
 * makes the others. A start that fails is made by the next worker that starts, or by the Schedule.
 */
export async function startMissedTurn(): Promise<void> {
  const [month] = await unturnedMonths(1);
  if (month === undefined) return;
  const input: MonthTurnInput = {};
  try {
    await startRun({
      type: MONTH_TURN,
      id: monthTurnId(month),
      args: [input],
      labels: { resourceType: 'month_turn', resourceId: month },
      memo: { trigger: 'worker' },
      mayRepeat: true,
    });
  } catch (error) {
    log.warn({ msg: 'turn of the month not started', month, ...errorFacts(error) });
  }
}
