import { accountCredential, anyCredential, sessionCredential } from '../core/access';
import { cursorPage, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentApiKey, presentKeyWithSecret } from './present';
import { ApiKeyCreate, ApiKeyListQuery, ApiKeyOut, ApiKeyParams, ApiKeyUpdate, ApiKeyWithSecret } from './schemas';
import { createApiKey, getApiKey, listApiKeys, renameApiKey, revokeApiKey, rotateApiKey } from './service';

export const apiKeyRoutes: Route[] = [
  route({
    method: 'post',
    path: '/v1/api-keys',
    id: 'createApiKey',
    summary: 'Create an API key; a signed-in person only',
    needs: sessionCredential,
    action: 'api-keys:CreateApiKey',
    inputCode: 'bad_request',
    body: ApiKeyCreate,
    answers: { 201: ApiKeyWithSecret },
    fails: ['not_found', 'api_key_limit_reached'],
    handle: async ({ caller, body }) => {
      const made = await createApiKey({ userId: caller.userId, projectId: body.project_id, name: body.name });
      return { status: 201, body: presentKeyWithSecret(made) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/api-keys',
    id: 'listApiKeys',
    summary: 'List own API keys',
    needs: accountCredential,
    action: 'api-keys:ListApiKeys',
    inputCode: 'bad_request',
    query: ApiKeyListQuery,
    answers: { 200: cursorPage(ApiKeyOut) },
    handle: async ({ caller, query: { project_id: projectId, limit, cursor } }) => {
      const page = await listApiKeys({ userId: caller.userId, projectId, limit, cursor });
      return { status: 200, body: presentCursorPage(page, presentApiKey) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/api-keys/:api_key_id',
    id: 'getApiKey',
    summary: 'Read an API key',
    needs: accountCredential,
    action: 'api-keys:GetApiKey',
    inputCode: 'bad_request',
    params: ApiKeyParams,
    answers: { 200: ApiKeyOut },
    handle: async ({ caller, params }) => {
      const row = await getApiKey({ userId: caller.userId, apiKeyId: params.api_key_id });
      return { status: 200, body: presentApiKey(row) };
    },
  }),
  route({
    method: 'patch',
    path: '/v1/api-keys/:api_key_id',
    id: 'updateApiKey',
    summary: 'Rename an API key',
    needs: accountCredential,
    action: 'api-keys:UpdateApiKey',
    inputCode: 'bad_request',
    params: ApiKeyParams,
    body: ApiKeyUpdate,
    answers: { 200: ApiKeyOut },
    handle: async ({ caller, params, body }) => {
      const row = await renameApiKey({ userId: caller.userId, apiKeyId: params.api_key_id, name: body.name });
      return { status: 200, body: presentApiKey(row) };
    },
  }),
  route({
    method: 'post',
    path: '/v1/api-keys/:api_key_id\\:rotate',
    id: 'rotateApiKey',
    summary: 'Give an API key a new secret; a signed-in person only',
    needs: sessionCredential,
    action: 'api-keys:RotateApiKey',
    inputCode: 'bad_request',
    params: ApiKeyParams,
    answers: { 200: ApiKeyWithSecret },
    handle: async ({ caller, params }) => {
      const rotated = await rotateApiKey({ userId: caller.userId, apiKeyId: params.api_key_id });
      return { status: 200, body: presentKeyWithSecret(rotated) };
    },
  }),
  route({
    method: 'delete',
    path: '/v1/api-keys/:api_key_id',
    id: 'revokeApiKey',
    summary: 'Revoke an API key; a key may revoke itself',
    needs: anyCredential,
    action: 'api-keys:RevokeApiKey',
    inputCode: 'bad_request',
    params: ApiKeyParams,
    answers: { 204: null },
    fails: ['access_denied'],
    handle: async ({ caller, params }) => {
      await revokeApiKey({ caller, apiKeyId: params.api_key_id });
      return { status: 204 };
    },
  }),
];
