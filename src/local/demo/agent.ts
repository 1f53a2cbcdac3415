import { z } from 'zod';
import type { Account, Scene, Stage } from './stage';

/** The name under which the local model server is asked; it serves any. */
const LOCAL_MODEL = 'local-chat';
const INSTRUCTIONS =
  'You handle orders. Call the tools that the message names, with the order id it gives, and then answer in one sentence.';

const Made = z.object({ id: z.string() });
const MadeWebhook = Made.extend({ secret: z.string() });

const orderId = {
  type: 'object',
  properties: { order_id: { type: 'string', description: 'The order, for example ord_1042' } },
  required: ['order_id'],
};

async function makeProvider({ report, local, vendor }: Stage, { api, at }: Account): Promise<string> {
  const path = `${at}/ai-providers`;
  if (vendor === null) {
    const body = {
      name: 'local model server',
      provider: 'custom',
      default_model: LOCAL_MODEL,
      base_url: local.modelServerUrl,
    };
    const { id } = await api.post({ path, body, answer: Made });
    report.fact('provider', `${id} → ${local.modelServerUrl} (a stand-in: deterministic answers, no model runs)`);
    return id;
  }
  const value = vendor.apiKey;
  const secret = await api.post({ path: `${at}/secrets`, body: { name: 'vendor key', value }, answer: Made });
  report.fact('secret', `${secret.id} (the value of OPENAI_API_KEY, stored encrypted)`);
  const body = {
    name: 'vendor',
    provider: 'openai',
    default_model: vendor.model,
    secret_id: secret.id,
    base_url: vendor.baseUrl,
  };
  const { id } = await api.post({ path, body, answer: Made });
  report.fact(
    'provider',
    `${id} → ${vendor.baseUrl ?? 'the real vendor'}, model ${vendor.model} (its calls cost money)`,
  );
  return id;
}

async function makeTools({ report, orders }: Stage, { api, at }: Account): Promise<string[]> {
  const http = {
    name: 'get_order',
    type: 'http',
    description: 'Looks an order up',
    parameters: orderId,
    execute: { url: `${orders.url}/orders/{order_id}`, method: 'GET' },
  };
  const client = {
    name: 'approve_refund',
    type: 'client',
    description: 'Asks a person to approve the refund of an order',
    parameters: orderId,
  };
  const lookup = await api.post({ path: `${at}/tools`, body: http, answer: Made });
  report.fact('http tool', `${lookup.id} get_order → ${orders.url}/orders/{order_id}`);
  const approval = await api.post({ path: `${at}/tools`, body: client, answer: Made });
  report.fact('client tool', `${approval.id} approve_refund, answered by us`);
  return [lookup.id, approval.id];
}

/** Makes the provider, the two tools and the agent that has them. */
export async function makeAgent(stage: Stage, account: Account): Promise<Pick<Scene, 'agentId' | 'model'>> {
  const providerId = await makeProvider(stage, account);
  const toolIds = await makeTools(stage, account);
  const { id } = await account.api.post({
    path: `${account.at}/agents`,
    body: {
      name: 'order desk',
      ai_provider_id: providerId,
      instructions: INSTRUCTIONS,
      tool_bindings: toolIds.map((toolId) => ({ tool_id: toolId })),
    },
    answer: Made,
  });
  stage.report.fact('agent', id);
  return { agentId: id, model: stage.vendor?.model ?? LOCAL_MODEL };
}

/** Subscribes the demo's receiver to the ends of runs. */
export async function makeWebhook({ report, hooks }: Stage, { api, at }: Account): Promise<Scene['webhook']> {
  const url = `${hooks.url}/hook`;
  const webhook = await api.post({
    path: `${at}/webhooks`,
    body: { url, events: ['generation.*'] },
    answer: MadeWebhook,
  });
  report.fact('webhook', `${webhook.id} → ${url}`);
  report.fact('secret', 'shown once in that answer, kept by the receiver to verify deliveries');
  return webhook;
}
