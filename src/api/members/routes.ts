import { principalOf, projectRole } from '../core/access';
import { CursorQuery, cursorPage, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentMember } from './present';
import { MemberCreate, MemberOut, MemberParams, MemberUpdate } from './schemas';
import { addMember, changeRole, getMember, listMembers, removeMember } from './service';

export const memberRoutes: Route[] = [
  route({
    method: 'get',
    path: '/v1/projects/:project_id/members',
    id: 'listMembers',
    summary: 'List the members of a project, oldest first',
    needs: projectRole('member'),
    action: 'members:ListMembers',
    inputCode: 'bad_request',
    query: CursorQuery,
    answers: { 200: cursorPage(MemberOut, 'oldest') },
    handle: async ({ project, query: { limit, cursor } }) => {
      const page = await listMembers({ projectId: project.id, limit, cursor });
      return { status: 200, body: presentCursorPage(page, presentMember) };
    },
  }),
  route({
    method: 'post',
    path: '/v1/projects/:project_id/members',
    id: 'addMember',
    summary: 'Add an address to a project; it is told by mail',
    needs: projectRole('admin', { accountWide: true }),
    action: 'members:AddMember',
    inputCode: 'bad_request',
    body: MemberCreate,
    answers: { 201: MemberOut },
    fails: ['access_denied', 'already_member', 'rate_limited'],
    handle: async ({ caller, project, body, requestId }) => {
      const by = { requestId, principalId: principalOf(caller).id };
      const added = await addMember({ projectId: project.id, userId: caller.userId, ...body }, by);
      return { status: 201, body: presentMember(added) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/projects/:project_id/members/:member_id',
    id: 'getMember',
    summary: 'Read a member',
    needs: projectRole('member'),
    action: 'members:GetMember',
    inputCode: 'bad_request',
    params: MemberParams,
    answers: { 200: MemberOut },
    handle: async ({ project, params }) => {
      const seen = await getMember({ projectId: project.id, memberId: params.member_id });
      return { status: 200, body: presentMember(seen) };
    },
  }),
  route({
    method: 'patch',
    path: '/v1/projects/:project_id/members/:member_id',
    id: 'updateMember',
    summary: "Change a member's role; the owner only",
    // The role is asked with the row: the owner's own is refused with 400, whoever asks.
    needs: projectRole('member', { accountWide: true }),
    action: 'members:UpdateMember',
    inputCode: 'bad_request',
    params: MemberParams,
    body: MemberUpdate,
    answers: { 200: MemberOut },
    fails: ['access_denied'],
    handle: async ({ caller, project, params, body }) => {
      const who = { projectId: project.id, userId: caller.userId, memberId: params.member_id };
      return { status: 200, body: presentMember(await changeRole({ ...who, role: body.role })) };
    },
  }),
  route({
    method: 'delete',
    path: '/v1/projects/:project_id/members/:member_id',
    id: 'removeMember',
    summary: 'Remove a member, or leave the project',
    needs: projectRole('member'),
    action: 'members:RemoveMember',
    inputCode: 'bad_request',
    params: MemberParams,
    answers: { 204: null },
    fails: ['access_denied'],
    handle: async ({ caller, project, params }) => {
      await removeMember({ projectId: project.id, userId: caller.userId, memberId: params.member_id });
      return { status: 204 };
    },
  }),
];
