import { accountCredential, anyCredential, projectRole } from '../core/access';
import { invalidInput } from '../core/errors';
import { cursorPage, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentProject } from './present';
import { IdempotencyKey, ProjectCreate, ProjectListQuery, ProjectOut } from './schemas';
import { createProject, getProject, listProjects } from './service';

/** The key of the header; one in the body wins, and then the header is not looked at. */
function keyOf(inBody: string | undefined, inHeader: string | undefined): string | undefined {
  if (inBody !== undefined || inHeader === undefined) return inBody;
  const parsed = IdempotencyKey.safeParse(inHeader);
  if (!parsed.success) throw invalidInput('bad_request', 'Idempotency-Key', 'must have 1 to 255 characters');
  return parsed.data;
}

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
];
