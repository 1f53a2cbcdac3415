import type { Caller } from '../core/access';
import { accountCredential, anyCredential, principalOf, projectRole } from '../core/access';
import { invalidInput } from '../core/errors';
import { cursorPage, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { deleteProject } from './deletion';
import { pauseProject, resumeProject } from './pausing';
import type { Starter } from './pausing';
import { presentProject } from './present';
import {
  IdempotencyKey,
  ProjectCreate,
  ProjectDeleteQuery,
  ProjectListQuery,
  ProjectOut,
  ProjectPause,
  ProjectUpdate,
} from './schemas';
import { createProject, getProject, listProjects } from './service';
import { updateProject } from './settings';

/** The key of the header; one in the body wins, and then the header is not looked at. */
function keyOf(inBody: string | undefined, inHeader: string | undefined): string | undefined {
  if (inBody !== undefined || inHeader === undefined) return inBody;
  const parsed = IdempotencyKey.safeParse(inHeader);
  if (!parsed.success) throw invalidInput('bad_request', 'Idempotency-Key', 'must have 1 to 255 characters');
  return parsed.data;
}

const startedBy = (caller: Caller, requestId: string): Starter => ({ requestId, principalId: principalOf(caller).id });

export const projectRoutes: Route[] = [
  route({
    method: 'get',
    path: '/v1/projects',
    id: 'listProjects',
    summary: 'List the projects the credential reaches',
    needs: anyCredential,
    action: 'projects:ListProjects',
    inputCode: 'bad_request',
    query: ProjectListQuery,
    answers: { 200: cursorPage(ProjectOut) },
    handle: async ({ caller, query }) => {
      const page = await listProjects({ caller, ...query, status: query.status, cursor: query.cursor });
      return { status: 200, body: presentCursorPage(page, presentProject) };
    },
  }),
  route({
    method: 'post',
    path: '/v1/projects',
    id: 'createProject',
    summary: 'Create a project',
    needs: accountCredential,
    action: 'projects:CreateProject',
    inputCode: 'bad_request',
    body: ProjectCreate,
    answers: { 200: ProjectOut, 201: ProjectOut },
    fails: ['idempotency_key_reused', 'plan_limit_reached'],
    handle: async ({ caller, body: { idempotency_key: inBody, ...body }, header }) => {
      const idempotencyKey = keyOf(inBody, header('Idempotency-Key'));
      const made = await createProject({ userId: caller.userId, body, idempotencyKey });
      return { status: made.created ? 201 : 200, body: presentProject(made) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/projects/:project_id',
    id: 'getProject',
    summary: 'Read a project',
    needs: projectRole('member'),
    action: 'projects:GetProject',
    inputCode: 'bad_request',
    answers: { 200: ProjectOut },
    handle: async ({ project: { id, role } }) => {
      return { status: 200, body: presentProject({ project: await getProject(id), role }) };
    },
  }),
  route({
    method: 'patch',
    path: '/v1/projects/:project_id',
    id: 'updateProject',
    summary: 'Change the given settings of a project; its owner also archives it and makes it active again',
    needs: projectRole('admin'),
    action: 'projects:UpdateProject',
    inputCode: 'bad_request',
    whileArchived: true,
    body: ProjectUpdate,
    answers: { 200: ProjectOut },
    fails: ['GUARDRAIL_NOT_FOUND', 'MODEL_ROUTE_NOT_FOUND', 'PROJECT_ARCHIVED', 'plan_limit_reached'],
    handle: async ({ project: { id: projectId, ownerUserId, role }, caller, requestId, body }) => {
      const project = await updateProject({ projectId, ownerUserId, role }, body, startedBy(caller, requestId));
      return { status: 200, body: presentProject({ project, role }) };
    },
  }),
  route({
    method: 'delete',
    path: '/v1/projects/:project_id',
    id: 'deleteProject',
    summary: 'Delete a project; one that is not empty only by force',
    needs: projectRole('owner'),
    action: 'projects:DeleteProject',
    inputCode: 'bad_request',
    whileArchived: true,
    query: ProjectDeleteQuery,
    answers: { 204: null },
    fails: ['PROJECT_HAS_DEPENDENTS'],
    handle: async ({ project, caller, requestId, query }) => {
      await deleteProject({ projectId: project.id, force: query.force }, startedBy(caller, requestId));
      return { status: 204 };
    },
  }),
  route({
    method: 'post',
    path: '/v1/projects/:project_id/pause',
    id: 'pauseProject',
    summary: 'Stop everything that starts in a project; a second pause changes nothing',
    needs: projectRole('admin'),
    action: 'projects:PauseProject',
    inputCode: 'bad_request',
    body: ProjectPause,
    answers: { 200: ProjectOut },
    handle: async ({ project: { id, role }, caller, requestId, body }) => {
      const project = await pauseProject(id, body.reason, startedBy(caller, requestId));
      return { status: 200, body: presentProject({ project, role }) };
    },
  }),
  route({
    method: 'post',
    path: '/v1/projects/:project_id/resume',
    id: 'resumeProject',
    summary: 'Let a paused project run again',
    needs: projectRole('admin'),
    action: 'projects:ResumeProject',
    inputCode: 'bad_request',
    answers: { 200: ProjectOut },
    fails: ['PROJECT_NOT_PAUSED'],
    handle: async ({ project: { id, role }, caller, requestId }) => {
      const project = await resumeProject(id, startedBy(caller, requestId));
      return { status: 200, body: presentProject({ project, role }) };
    },
  }),
];
