import type { Attributes } from 'sequelize';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { nextMonthStart } from '../core/cycle';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { notFound } from '../core/errors';
import { newId } from '../core/ids';
import { compareRungs } from '../core/ladder';
import type { RungName } from '../core/ladder';
import { listByCursor } from '../core/pages';
import { PlanLine } from './models';

export { assertProjectPlace, planOf, retentionWithin } from './allowances';

interface AccountPlan {
  plan: RungName;
  next_plan: RungName | null;
  next_plan_at: Date | null;
  next_plan_reason: string | null;
  next_plan_granted_by_user_id: string | null;
}

export interface PlanGrant {
  userId: string;
  plan: RungName;
  reason: string | null;
  /** Of the highest rung only. */
  retentionDays: number | null;
  grantedByUserId: string | null;
}

/** Whoever changes a plan holds the account's row, so that changes follow one another. */
async function heldAccount(userId: string, tx: Tx): Promise<AccountPlan> {
  const row = await queryOne<AccountPlan>(
    `select plan, next_plan, next_plan_at, next_plan_reason, next_plan_granted_by_user_id
     from users where id = $1 for no key update`,
    [userId],
    tx,
  );
  if (row === null) throw notFound();
  return row;
}

/**
 * Grants a plan: a higher or the same rung at once, with a history line; a lower one waits for the turn of the month and
 * takes the place of one that waits already. A grant that is not lower calls a waiting one off. Not idempotent: each
 * grant at once writes a line. Spec: Plans, plan changes.
 * @throws not_found
 */
export async function grantPlan(grant: PlanGrant): Promise<void> {
  await inTransaction(async (tx) => {
    const account = await heldAccount(grant.userId, tx);
    const now = clock.now();
    if (compareRungs(grant.plan, account.plan) < 0) await postpone(grant, now, tx);
    else await enter(grant, now, tx);
  });
}

async function postpone({ userId, plan, reason, grantedByUserId }: PlanGrant, now: Date, tx: Tx): Promise<void> {
  await query(
    `update users set next_plan = $2, next_plan_at = $3, next_plan_reason = $4, next_plan_granted_by_user_id = $5,
       updated_at = $6 where id = $1`,
    [userId, plan, nextMonthStart(now), reason, grantedByUserId, now],
    tx,
  );
}

/** Writes the line and the account's columns; lines of an account never share a moment, so that the newest is the plan. */
async function enter(grant: PlanGrant, effectiveAt: Date, tx: Tx): Promise<void> {
  const { userId, plan, reason, retentionDays, grantedByUserId } = grant;
  const now = clock.now();
  await query(
    `insert into plan_lines (id, user_id, plan, retention_days, reason, granted_by_user_id, effective_at, created_at)
     select $1, $2, $3, $4::integer, $5, $6, $7::timestamptz,
       greatest($8::timestamptz, max(created_at) + interval '1 millisecond') from plan_lines where user_id = $2`,
    [newId('planLine'), userId, plan, retentionDays, reason, grantedByUserId, effectiveAt, now],
    tx,
  );
  await query(
    `update users set plan = $2, retention_days = $3::integer, next_plan = null, next_plan_at = null,
       next_plan_reason = null, next_plan_granted_by_user_id = null, updated_at = $4 where id = $1`,
    [userId, plan, retentionDays, now],
    tx,
  );
}

/**
 * Moves an account to the lower plan that waits for it, if its moment has come: the history line, the plan, and the
 * retention of its projects, which is lowered to the new ceiling. Safe to repeat, and beside grants: the account's row is
 * held and what waits is read anew. Spec: Plans, at the turn.
 * @param turnedAt the first moment of the month that begins
 * @returns whether something was moved
 */
export async function lowerPlan(userId: string, turnedAt: Date): Promise<boolean> {
  return inTransaction(async (tx) => {
    const account = await heldAccount(userId, tx);
    const { next_plan: plan, next_plan_at: due } = account;
    if (plan === null || due === null || due > turnedAt) return false;
    const { next_plan_reason: reason, next_plan_granted_by_user_id: grantedByUserId } = account;
    await enter({ userId, plan, reason, retentionDays: null, grantedByUserId }, due, tx);
    await query(
      `update projects set trace_content_retention_days = $2::integer, updated_at = $3
       where owner_user_id = $1 and $2::integer is not null
         and (trace_content_retention_days is null or trace_content_retention_days > $2::integer)`,
      [userId, config().PLANS[plan].retention_days, clock.now()],
      tx,
    );
    return true;
  });
}

/** One page of an account's plan history, newest first, with where it stands. @throws not_found; bad_request at `query.cursor` */
export async function planHistory(
  userId: string,
  page: { limit: number; cursor: string | undefined },
): Promise<{ plan: RungName; nextPlan: RungName | null; rows: Attributes<PlanLine>[]; nextCursor: string | null }> {
  const account = await queryOne<AccountPlan>('select plan, next_plan from users where id = $1', [userId]);
  if (account === null) throw notFound();
  const lines = await listByCursor(PlanLine, {
    where: { userId },
    ...page,
    scope: { route: 'listPlanLines', user_id: userId },
  });
  return { plan: account.plan, nextPlan: account.next_plan, ...lines };
}
