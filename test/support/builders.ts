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
  const provider = created(
    await api.post(`${at}/ai-providers`, {
      name: 'local',
      provider: 'custom',
      default_model: model,
      base_url: modelServerUrl,
    }),
  );
  return { api, at, projectId, providerId: provider.id, model };
}

export async function buildAgent(
  { api, at, providerId }: Workspace,
  given: object = {},
): Promise<{ id: string; version: number }> {
  return created(await api.post(`${at}/agents`, { ai_provider_id: providerId, name: 'tester', ...given }));
}

const parameters = {
  type: 'object',
  properties: { order_id: { type: 'string' } },
  required: ['order_id'],
};

export async function buildClientTool(
  { api, at }: Workspace,
  given: object = {},
): Promise<{ id: string; name: string }> {
  return created(
    await api.post(`${at}/tools`, {
      name: 'approve_refund',
      type: 'client',
      description: 'Approves',
      parameters,
      ...given,
    }),
  );
}

export async function buildHttpTool(
  { api, at }: Workspace,
  url: string,
  given: object = {},
): Promise<{ id: string; name: string }> {
  return created(
    await api.post(`${at}/tools`, {
      name: 'get_order',
      type: 'http',
      parameters,
      execute: { url, method: 'GET' },
      ...given,
    }),
  );
}

/** A body with one user message. */
export const saying = (content: string, more: object = {}): object => ({
  messages: [{ role: 'user', content }],
  ...more,
});
