import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { planHistory } from '../plans/service';
import { presentUser } from '../users/present';
import type { UserRow } from '../users/service';
import type { AdminUserOut, PlanHistoryOut } from './schemas';

/** An account as an operator sees it. */
export const presentAdminUser = (row: UserRow): z.output<typeof AdminUserOut> => ({
  ...presentUser(row),
  plan: row.plan,
  next_plan: row.nextPlan,
  balance_usd: Number(row.balanceUsd),
  retention_days: row.retentionDays,
});

/** A page of a plan history in the shape of the API. */
export const presentPlanHistory = ({
  plan,
  nextPlan,
  rows,
  nextCursor,
}: Awaited<ReturnType<typeof planHistory>>): z.output<typeof PlanHistoryOut> => ({
  plan,
  next_plan: nextPlan,
  data: rows.map((line) => ({
    id: line.id,
    user_id: line.userId,
    plan: line.plan,
    retention_days: line.retentionDays,
    reason: line.reason,
    granted_by_user_id: line.grantedByUserId,
    effective_at: isoTime(line.effectiveAt),
    created_at: isoTime(line.createdAt),
  })),
  next_cursor: nextCursor,
});
