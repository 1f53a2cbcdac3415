import type { z } from 'zod';
import type { AiProvider } from './models';
import type { AiProviderOut } from './schemas';

/** A provider as the API shows it; of its key only the secret's id. */
export const presentAiProvider = (row: AiProvider): z.output<typeof AiProviderOut> => ({
  id: row.id,
  project_id: row.projectId,
  name: row.name,
  provider: row.provider,
  default_model: row.defaultModel,
  secret_id: row.secretId,
  base_url: row.baseUrl,
  config: null,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
});
