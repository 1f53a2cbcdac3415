import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime, isoTimeOrNull } from '../core/timestamps';
import type { ApiKey } from './models';
import type { ApiKeyOut, ApiKeyWithSecret } from './schemas';
import type { KeyWithSecret } from './service';

/** A key in the shape of the API, without its secret. */
export const presentApiKey = (row: Attributes<ApiKey>): z.output<typeof ApiKeyOut> => ({
  id: row.id,
  name: row.name,
  key_prefix: row.keyPrefix,
  project_id: row.projectId,
  user_id: row.userId,
  last_used_at: isoTimeOrNull(row.lastUsedAt),
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** A key with its secret, for the answers that give it away. */
export const presentKeyWithSecret = ({ apiKey, secret }: KeyWithSecret): z.output<typeof ApiKeyWithSecret> => ({
  ...presentApiKey(apiKey),
  key: secret,
});
