import { projectRole } from '../core/access';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentAiProvider } from './present';
import {
  AiProviderCreate,
  AiProviderDeleteQuery,
  AiProviderListQuery,
  AiProviderOut,
  AiProviderPage,
  AiProviderParams,
  AiProviderUpdate,
} from './schemas';
import { createAiProvider, deleteAiProvider, getAiProvider, listAiProviders, updateAiProvider } from './service';

const COLLECTION = '/v1/projects/:project_id/ai-providers';
const ITEM = `${COLLECTION}/:ai_provider_id`;

export const aiProviderRoutes: Route[] = [
  route({
    method: 'post',
    path: COLLECTION,
    id: 'createAiProvider',
    summary: 'Add an AI provider',
    needs: projectRole('member'),
    action: 'providers:CreateAiProvider',
    inputCode: 'VALIDATION_FAILED',
    body: AiProviderCreate,
    answers: { 201: AiProviderOut },
    fails: ['SECRET_NOT_FOUND'],
    handle: async ({ project, body }) => {
      const created = await createAiProvider(project.id, {
        name: body.name,
        provider: body.provider,
        defaultModel: body.default_model,
        secretId: body.secret_id,
        baseUrl: body.base_url,
        config: body.config,
      });
      return { status: 201, body: presentAiProvider(created) };
    },
  }),
  route({
    method: 'get',
    path: COLLECTION,
    id: 'listAiProviders',
    summary: 'List AI providers',
    needs: projectRole('member'),
    action: 'providers:ListAiProviders',
    inputCode: 'VALIDATION_FAILED',
    query: AiProviderListQuery,
    answers: { 200: AiProviderPage },
    handle: async ({ project, query }) => {
      const page = await listAiProviders(project.id, query);
      return { status: 200, body: presentOffsetPage(page, presentAiProvider) };
    },
  }),
  route({
    method: 'get',
    path: ITEM,
    id: 'getAiProvider',
    summary: 'Read an AI provider',
    needs: projectRole('member'),
    action: 'providers:GetAiProvider',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    answers: { 200: AiProviderOut },
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentAiProvider(await getAiProvider(project.id, params.ai_provider_id)),
    }),
  }),
  route({
    method: 'patch',
    path: ITEM,
    id: 'updateAiProvider',
    summary: 'Change an AI provider',
    needs: projectRole('member'),
    action: 'providers:UpdateAiProvider',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    body: AiProviderUpdate,
    answers: { 200: AiProviderOut },
    fails: ['SECRET_NOT_FOUND'],
    handle: async ({ project, params, body }) => {
      const changed = await updateAiProvider(project.id, params.ai_provider_id, {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...(body.provider === undefined ? {} : { provider: body.provider }),
        ...(body.default_model === undefined ? {} : { defaultModel: body.default_model }),
        ...(body.secret_id === undefined ? {} : { secretId: body.secret_id }),
        ...(body.base_url === undefined ? {} : { baseUrl: body.base_url }),
        ...(body.config === undefined ? {} : { config: body.config }),
      });
      return { status: 200, body: presentAiProvider(changed) };
    },
  }),
  route({
    method: 'delete',
    path: ITEM,
    id: 'deleteAiProvider',
    summary: 'Delete an AI provider',
    needs: projectRole('member'),
    action: 'providers:DeleteAiProvider',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    query: AiProviderDeleteQuery,
    answers: { 204: null },
    fails: ['AI_PROVIDER_HAS_DEPENDENTS'],
    handle: async ({ project, params, query }) => {
      await deleteAiProvider(project.id, params.ai_provider_id, query.force);
      return { status: 204 };
    },
  }),
];
