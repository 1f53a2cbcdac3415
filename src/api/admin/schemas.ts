import { z } from 'zod';
import { MailAddress } from '../auth/addresses';
import { PLATFORM_ADMIN } from '../core/access';
import { idOf } from '../core/ids';
import { rungs } from '../core/ladder';
import { CursorQuery } from '../core/pages';
import { userFields } from '../users/fields';

const RETENTION_DAYS_MAX = 3_650;
const plan = z.enum(rungs);

export const AdminUserOut = z
  .strictObject({
    ...userFields,
    plan: plan.meta({ description: 'Rung of the ladder' }),
    next_plan: plan.nullable().meta({ description: 'The lower rung that waits for the turn of the month' }),
    balance_usd: z.number().meta({ description: 'Credit balance, US dollars' }),
    retention_days: z.int().nullable().meta({ description: 'Retention ceiling of the contract; enterprise only' }),
  })
  .meta({ id: 'AdminUser' });

export const UserParams = z.strictObject({ user_id: idOf('user') });

export const AdminUserQuery = CursorQuery.extend({
  email: MailAddress.optional().meta({ description: 'A whole address, in any case', example: 'ana@acme.test' }),
});

export const RolesUpdate = z
  .strictObject({
    roles: z
      .array(z.literal(PLATFORM_ADMIN))
      .max(100)
      .meta({ description: 'Takes the place of all roles', example: [PLATFORM_ADMIN] }),
  })
  .meta({ id: 'RolesUpdate' });

export const PlanGrantBody = z
  .strictObject({
    plan: plan.meta({
      description: 'Rung of the ladder; a lower one counts from the turn of the month',
      example: 'pro',
    }),
    reason: z.string().min(1).max(500).nullable().optional().meta({ description: 'Why; kept in the history' }),
    retention_days: z
      .int()
      .min(1)
      .max(RETENTION_DAYS_MAX)
      .optional()
      .meta({ description: 'Retention ceiling of the contract; with `enterprise`, and only then' }),
  })
  .refine((given) => given.plan !== 'enterprise' || given.retention_days !== undefined, {
    path: ['retention_days'],
    message: 'is required for the plan enterprise',
  })
  .refine((given) => given.plan === 'enterprise' || given.retention_days === undefined, {
    path: ['retention_days'],
    message: 'is for the plan enterprise only',
  })
  .meta({ id: 'PlanGrant' });

const PlanLineOut = z
  .strictObject({
    id: z.string().meta({ description: 'Identifier with the prefix `pln_`', example: 'pln_V1StGXR8Z5jdHi6B' }),
    user_id: z.string().meta({ description: 'The account' }),
    plan: plan.meta({ description: 'The plan from then on' }),
    retention_days: z.int().nullable().meta({ description: 'Retention ceiling of the contract; enterprise only' }),
    reason: z.string().nullable().meta({ description: 'Why it was granted' }),
    granted_by_user_id: z.string().nullable().meta({ description: 'The operator who granted it' }),
    effective_at: z.iso.datetime().meta({ description: 'From when it counts' }),
    created_at: z.iso.datetime().meta({ description: 'When the line was written' }),
  })
  .meta({ id: 'PlanLine' });

export const PlanHistoryOut = z
  .strictObject({
    plan: plan.meta({ description: 'The plan now' }),
    next_plan: plan.nullable().meta({ description: 'The lower rung that waits for the turn of the month' }),
    data: z.array(PlanLineOut).meta({ description: 'The lines of this page, newest first' }),
    next_cursor: z.string().nullable().meta({ description: 'Cursor of the next page; null on the last one' }),
  })
  .meta({ id: 'PlanHistory' });
