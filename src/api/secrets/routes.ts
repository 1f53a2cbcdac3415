import { projectRole } from '../core/access';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentSecret } from './present';
import {
  SecretCreate,
  SecretDeleteQuery,
  SecretListQuery,
  SecretOut,
  SecretPage,
  SecretParams,
  SecretUpdate,
} from './schemas';
import { createSecret, deleteSecret, getSecret, listSecrets, updateSecret } from './service';

const COLLECTION = '/v1/projects/:project_id/secrets';
const ITEM = `${COLLECTION}/:secret_id`;

export const secretRoutes: Route[] = [
  route({
    method: 'post',
    path: COLLECTION,
    id: 'createSecret',
    summary: 'Store a secret',
    needs: projectRole('member'),
    action: 'secrets:CreateSecret',
    inputCode: 'VALIDATION_FAILED',
    body: SecretCreate,
    answers: { 201: SecretOut },
    handle: async ({ project, body }) => {
      const created = await createSecret({ projectId: project.id, ...body });
      return { status: 201, body: presentSecret(created) };
    },
  }),
  route({
    method: 'get',
    path: COLLECTION,
    id: 'listSecrets',
    summary: 'List secrets',
    needs: projectRole('member'),
    action: 'secrets:ListSecrets',
    inputCode: 'VALIDATION_FAILED',
    query: SecretListQuery,
    answers: { 200: SecretPage },
    handle: async ({ project, query }) => {
      const page = await listSecrets(project.id, query);
      return { status: 200, body: presentOffsetPage(page, presentSecret) };
    },
  }),
  route({
    method: 'get',
    path: ITEM,
    id: 'getSecret',
    summary: 'Read a secret, without its value',
    needs: projectRole('member'),
    action: 'secrets:GetSecret',
    inputCode: 'VALIDATION_FAILED',
    params: SecretParams,
    answers: { 200: SecretOut },
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentSecret(await getSecret(project.id, params.secret_id)),
    }),
  }),
  route({
    method: 'patch',
    path: ITEM,
    id: 'updateSecret',
    summary: 'Rename a secret or replace its value',
    needs: projectRole('member'),
    action: 'secrets:UpdateSecret',
    inputCode: 'VALIDATION_FAILED',
    params: SecretParams,
    body: SecretUpdate,
    answers: { 200: SecretOut },
    handle: async ({ project, params, body }) => {
      const changed = await updateSecret(project.id, params.secret_id, body);
      return { status: 200, body: presentSecret(changed) };
    },
  }),
  route({
    method: 'delete',
    path: ITEM,
    id: 'deleteSecret',
    summary: 'Delete a secret',
    needs: projectRole('member'),
    action: 'secrets:DeleteSecret',
    inputCode: 'VALIDATION_FAILED',
    params: SecretParams,
    query: SecretDeleteQuery,
    answers: { 204: null },
    fails: ['SECRET_HAS_DEPENDENTS'],
    handle: async ({ project, params, query }) => {
      await deleteSecret(project.id, params.secret_id, query.force);
      return { status: 204 };
    },
  }),
];
