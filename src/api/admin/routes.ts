import { operatorCredential } from '../core/access';
import { cursorPage, CursorQuery, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { grantPlan, planHistory } from '../plans/service';
import { presentUser } from '../users/present';
import { UserOut } from '../users/fields';
import { getUser, listUsers, replaceRoles } from '../users/service';
import { presentAdminUser, presentPlanHistory } from './present';
import { AdminUserOut, AdminUserQuery, PlanGrantBody, PlanHistoryOut, RolesUpdate, UserParams } from './schemas';

export const adminRoutes: Route[] = [
  route({
    method: 'get',
    path: '/v1/admin/users',
    id: 'listUsers',
    summary: 'List accounts, or find the one of an address',
    needs: operatorCredential,
    action: 'admin:ListUsers',
    inputCode: 'bad_request',
    query: AdminUserQuery,
    answers: { 200: cursorPage(AdminUserOut) },
    handle: async ({ query }) => {
      const page = await listUsers({ email: query.email, limit: query.limit, cursor: query.cursor });
      return { status: 200, body: presentCursorPage(page, presentAdminUser) };
    },
  }),
  route({
    method: 'put',
    path: '/v1/admin/users/:user_id/roles',
    id: 'replaceUserRoles',
    summary: 'Replace the platform roles of an account',
    needs: operatorCredential,
    action: 'admin:ReplaceUserRoles',
    inputCode: 'bad_request',
    params: UserParams,
    body: RolesUpdate,
    answers: { 200: UserOut },
    handle: async ({ caller, params, body }) => {
      const user = await replaceRoles({ userId: params.user_id, roles: body.roles, byUserId: caller.userId });
      return { status: 200, body: presentUser(user) };
    },
  }),
  route({
    method: 'put',
    path: '/v1/admin/users/:user_id/plan',
    id: 'grantUserPlan',
    summary: 'Grant a plan: a higher one at once, a lower one from the turn of the month',
    needs: operatorCredential,
    action: 'admin:GrantUserPlan',
    inputCode: 'bad_request',
    params: UserParams,
    body: PlanGrantBody,
    answers: { 200: AdminUserOut },
    handle: async ({ caller, params: { user_id: userId }, body }) => {
      await grantPlan({
        userId,
        plan: body.plan,
        reason: body.reason ?? null,
        retentionDays: body.retention_days ?? null,
        grantedByUserId: caller.userId,
      });
      return { status: 200, body: presentAdminUser(await getUser(userId)) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/admin/users/:user_id/plan',
    id: 'getUserPlan',
    summary: 'Read the plan of an account and its history',
    needs: operatorCredential,
    action: 'admin:GetUserPlan',
    inputCode: 'bad_request',
    params: UserParams,
    query: CursorQuery,
    answers: { 200: PlanHistoryOut },
    handle: async ({ params, query }) => {
      const history = await planHistory(params.user_id, { limit: query.limit, cursor: query.cursor });
      return { status: 200, body: presentPlanHistory(history) };
    },
  }),
];
