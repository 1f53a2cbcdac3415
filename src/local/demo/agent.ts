import { unwrap } from '@agent-platform/sdk';
import type { Account, Scene, Stage } from './stage';

/** The name under which the local model server is asked; it serves any. */
const LOCAL_MODEL = 'local-chat';
const INSTRUCTIONS =
  'You handle orders. Call the tools that the message names, with the order id it gives, and then answer in one sentence.';

const orderId = {
  type: 'object',
  properties: { order_id: { type: 'string', description: 'The order, for example ord_1042' } },
  required: ['order_id'],
};

async function makeProvider({ report, local, vendor }: Stage, { api, projectId }: Account): Promise<string> {
  const params = { path: { project_id: projectId } };
  if (vendor === null) {
    const body = {
      name: 'local model server',
      provider: 'custom' as const,
      default_model: LOCAL_MODEL,
      base_url: local.modelServerUrl,
    };
    const { id } = await unwrap(api.POST('/v1/projects/{project_id}/ai-providers', { params, body }));
    report.fact('provider', `${id} → ${local.modelServerUrl} (a stand-in: deterministic answers, no model runs)`);
    return id;
  }
  const value = vendor.apiKey;
  const secret = await unwrap(
    api.POST('/v1/projects/{project_id}/secrets', { params, body: { name: 'vendor key', value } }),
  );
  report.fact('secret', `${secret.id} (the value of OPENAI_API_KEY, stored encrypted)`);
  const body = {
    name: 'vendor',
    provider: 'openai' as const,
    default_model: vendor.model,
    secret_id: secret.id,
    base_url: vendor.baseUrl,
  };
  const { id } = await unwrap(api.POST('/v1/projects/{project_id}/ai-providers', { params, body }));
  report.fact(
    'provider',
    `${id} → ${vendor.baseUrl ?? 'the real vendor'}, model ${vendor.model} (its calls cost money)`,
  );
  return id;
}

async function makeTools({ report, orders }: Stage, { api, projectId }: Account): Promise<string[]> {
  const params = { path: { project_id: projectId } };
  const http = {
    name: 'get_order',
    type: 'http' as const,
    description: 'Looks an order up',
    parameters: orderId,
    execute: { url: `${orders.url}/orders/{order_id}`, method: 'GET' as const },
  };
  const client = {
    name: 'approve_refund',
    type: 'client' as const,
    description: 'Asks a person to approve the refund of an order',
    parameters: orderId,
  };
  const lookup = await unwrap(api.POST('/v1/projects/{project_id}/tools', { params, body: http }));
  report.fact('http tool', `${lookup.id} get_order → ${orders.url}/orders/{order_id}`);
  const approval = await unwrap(api.POST('/v1/projects/{project_id}/tools', { params, body: client }));
  report.fact('client tool', `${approval.id} approve_refund, answered by us`);
  return [lookup.id, approval.id];
}

/** Makes the provider, the two tools and the agent that has them. */
export async function makeAgent(stage: Stage, account: Account): Promise<Pick<Scene, 'agentId' | 'model'>> {
  const providerId = await makeProvider(stage, account);
  const toolIds = await makeTools(stage, account);
  const { id } = await unwrap(
    account.api.POST('/v1/projects/{project_id}/agents', {
      params: { path: { project_id: account.projectId } },
      body: {
        name: 'order desk',
        ai_provider_id: providerId,
        instructions: INSTRUCTIONS,
        tool_bindings: toolIds.map((toolId) => ({ tool_id: toolId })),
      },
    }),
  );
  stage.report.fact('agent', id);
  return { agentId: id, model: stage.vendor?.model ?? LOCAL_MODEL };
}

/** Subscribes the demo's receiver to the ends of runs. */
export async function makeWebhook({ report, hooks }: Stage, { api, projectId }: Account): Promise<Scene['webhook']> {
  const url = `${hooks.url}/hook`;
  const webhook = await unwrap(
    api.POST('/v1/projects/{project_id}/webhooks', {
      params: { path: { project_id: projectId } },
      body: { url, events: ['generation.*'] },
    }),
  );
  report.fact('webhook', `${webhook.id} → ${url}`);
  report.fact('secret', 'shown once in that answer, kept by the receiver to verify deliveries');
  return webhook;
}
