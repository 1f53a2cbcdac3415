import { unwrap } from '@agent-platform/sdk';
import type { components } from '@agent-platform/sdk';
import { randomText } from '../../src/api/core/random';
import type { ApiClient, Reply } from './client';

/** A project with a provider on the local model server; builders fill in what a test does not care about. */
export interface Workspace {
  api: ApiClient;
  /** `/v1/projects/{project_id}` */
  at: string;
  projectId: string;
  providerId: string;
  /** A model name of its own, so that scripts of different tests do not meet. */
  model: string;
}

export function created(reply: Reply): Reply['body'] {
  if (reply.status !== 201) throw new Error(`expected 201, got ${reply.status}: ${JSON.stringify(reply.body)}`);
  return reply.body;
}

export async function workspace(api: ApiClient, projectId: string, modelServerUrl: string): Promise<Workspace> {
  const at = `/v1/projects/${projectId}`;
  const model = `model-${randomText(8)}`;
  const provider = await unwrap(
    api.sdk.POST('/v1/projects/{project_id}/ai-providers', {
      params: { path: { project_id: projectId } },
      body: { name: 'local', provider: 'custom', default_model: model, base_url: modelServerUrl },
    }),
  );
  return { api, at, projectId, providerId: provider.id, model };
}

type Schemas = components['schemas'];

/** What a test gives is its own matter: a wrong value is refused by the service, and the builder throws. */
export async function buildAgent(
  { api, projectId, providerId }: Workspace,
  given: object = {},
): Promise<{ id: string; version: number }> {
  const body: Schemas['AgentCreate'] = { ai_provider_id: providerId, name: 'tester', ...given };
  const params = { path: { project_id: projectId } };
  return unwrap(api.sdk.POST('/v1/projects/{project_id}/agents', { params, body }));
}

const parameters = {
  type: 'object',
  properties: { order_id: { type: 'string' } },
  required: ['order_id'],
};

async function buildTool(
  { api, projectId }: Workspace,
  body: Schemas['ToolCreate'],
): Promise<{ id: string; name: string }> {
  return unwrap(api.sdk.POST('/v1/projects/{project_id}/tools', { params: { path: { project_id: projectId } }, body }));
}

export const buildClientTool = (space: Workspace, given: object = {}): Promise<{ id: string; name: string }> =>
  buildTool(space, { name: 'approve_refund', type: 'client', description: 'Approves', parameters, ...given });

export const buildHttpTool = (
  space: Workspace,
  url: string,
  given: object = {},
): Promise<{ id: string; name: string }> =>
  buildTool(space, { name: 'get_order', type: 'http', parameters, execute: { url, method: 'GET' }, ...given });

/** A body with one user message. */
export const saying = (content: string, more: object = {}): object => ({
  messages: [{ role: 'user', content }],
  ...more,
});
