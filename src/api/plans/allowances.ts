import { config } from '../core/config';
import { queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import type { Rung, RungName } from '../core/ladder';

/** The plan of an account, and what it allows. */
export interface Plan extends Rung {
  name: RungName;
}

/** Things that a plan caps, as a refusal names them. */
export type CappedResource = 'project' | 'runs' | 'retention';

/** The refusal of what would go over an allowance. */
export const planLimitReached = (plan: RungName, resource: CappedResource, limit: number): ApiError =>
  new ApiError('plan_limit_reached', `The plan ${plan} of the project's owner does not allow more.`, {
    details: { plan, resource, limit },
  });

/**
 * The plan of a billing owner, read anew: of a project it is its owner's, whoever asks. Spec: Plans.
 * @throws not_found when there is no such account
 */
export async function planOf(ownerUserId: string, tx?: Tx): Promise<Plan> {
  const row = await queryOne<{ plan: RungName; retention_days: number | null }>(
    'select plan, retention_days from users where id = $1',
    [ownerUserId],
    tx,
  );
  if (row === null) throw notFound();
  const rung = config().PLANS[row.plan];
  return { ...rung, name: row.plan, retention_days: row.retention_days ?? rung.retention_days };
}

/**
 * Refuses one project more than the plan allows; the caller holds the account's row, so that projects are counted one
 * after the other. Archived projects count; deleted ones do not. Spec: Plans, the ladder.
 * @throws plan_limit_reached
 */
export async function assertProjectPlace(ownerUserId: string, tx: Tx): Promise<Plan> {
  const plan = await planOf(ownerUserId, tx);
  if (plan.projects === null) return plan;
  const owned = await queryOne<{ count: number }>(
    'select count(*)::int as count from projects where owner_user_id = $1 and deleted_at is null',
    [ownerUserId],
    tx,
  );
  if ((owned?.count ?? 0) >= plan.projects) throw planLimitReached(plan.name, 'project', plan.projects);
  return plan;
}

/**
 * The days that a project keeps content: the plan's window where none are asked for, and never more. Without an end only
 * where the plan has none.
 * @throws plan_limit_reached
 */
export function retentionWithin(plan: Plan, asked: number | null | undefined): number | null {
  const ceiling = plan.retention_days;
  if (asked === undefined || ceiling === null) return asked ?? ceiling;
  if (asked === null || asked > ceiling) throw planLimitReached(plan.name, 'retention', ceiling);
  return asked;
}
