import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { AiProvider } from './models';
import type { PriceRow } from './prices';
import type { ProviderPriceOut } from './price-schemas';
import type { AiProviderOut } from './schemas';

/** A provider as the API shows it; of its key only the secret's id. */
export const presentAiProvider = (row: Attributes<AiProvider>): z.output<typeof AiProviderOut> => ({
  id: row.id,
  project_id: row.projectId,
  name: row.name,
  provider: row.provider,
  default_model: row.defaultModel,
  secret_id: row.secretId,
  base_url: row.baseUrl,
  config: row.config,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** A price as the API shows it: a number of US dollars a unit. */
export const presentProviderPrice = (row: PriceRow): z.output<typeof ProviderPriceOut> => ({
  id: row.id,
  ai_provider_id: row.aiProviderId,
  project_id: row.projectId,
  meter_type: row.meterType,
  provider: row.provider,
  model: row.model,
  component: row.component,
  unit: row.unit,
  unit_price: Number(row.unitPrice),
  effective_from: isoTime(row.effectiveFrom),
  created_at: isoTime(row.createdAt),
});
