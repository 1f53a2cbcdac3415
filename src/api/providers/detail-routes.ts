import { projectRole } from '../core/access';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { listVendorModels } from './listing';
import { presentProviderPrice } from './present';
import { ProviderPrices, ProviderPricesPut } from './price-schemas';
import { addProviderPrices, listProviderPrices } from './prices';
import { AiProviderModels, AiProviderParams } from './schemas';

const ITEM = '/v1/projects/:project_id/ai-providers/:ai_provider_id';

/** What hangs below one provider: the models it offers, the prices set on it. */
export const providerDetailRoutes: Route[] = [
  route({
    method: 'get',
    path: `${ITEM}/models`,
    id: 'listAiProviderModels',
    summary: 'List the models of an AI provider, as its vendor tells them',
    needs: projectRole('member'),
    action: 'providers:ListAiProviderModels',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    answers: { 200: AiProviderModels },
    fails: ['MODEL_LISTING_UNSUPPORTED', 'AI_PROVIDER_MISCONFIGURED', 'MODEL_LISTING_FAILED'],
    handle: async ({ project, params }) => ({
      status: 200,
      body: await listVendorModels(project.id, params.ai_provider_id),
    }),
  }),
  route({
    method: 'get',
    path: `${ITEM}/prices`,
    id: 'listAiProviderPrices',
    summary: 'List the prices set on an AI provider',
    needs: projectRole('member'),
    action: 'providers:ListAiProviderPrices',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    answers: { 200: ProviderPrices },
    handle: async ({ project, params }) => {
      const rows = await listProviderPrices(project.id, params.ai_provider_id);
      return { status: 200, body: { prices: rows.map(presentProviderPrice) } };
    },
  }),
  route({
    method: 'put',
    path: `${ITEM}/prices`,
    id: 'putAiProviderPrices',
    summary: 'Set prices on an AI provider',
    needs: projectRole('member'),
    action: 'providers:PutAiProviderPrices',
    inputCode: 'VALIDATION_FAILED',
    params: AiProviderParams,
    body: ProviderPricesPut,
    answers: { 200: ProviderPrices },
    handle: async ({ project, params, body }) => {
      const given = body.prices.map((price) => ({
        model: price.model,
        component: price.component,
        unitPrice: String(price.unit_price),
        effectiveFrom: price.effective_from === undefined ? null : new Date(price.effective_from),
      }));
      const rows = await addProviderPrices(project.id, params.ai_provider_id, given);
      return { status: 200, body: { prices: rows.map(presentProviderPrice) } };
    },
  }),
];
