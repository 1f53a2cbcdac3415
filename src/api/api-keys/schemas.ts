import { z } from 'zod';
import { idOf } from '../core/ids';
import { CursorQuery } from '../core/pages';

const name = z.string().min(1).max(100).meta({ description: 'Label; need not be unique', example: 'ci' });

export const ApiKeyCreate = z
  .strictObject({
    name,
    project_id: z
      .string()
      .nullable()
      .default(null)
      .meta({ description: 'The one project the key reaches; null = every project of its user' }),
  })
  .meta({ id: 'ApiKeyCreate' });

export const ApiKeyUpdate = z.strictObject({ name }).meta({ id: 'ApiKeyUpdate' });

export const ApiKeyParams = z.strictObject({ api_key_id: idOf('apiKey') });

export const ApiKeyListQuery = CursorQuery.extend({
  project_id: z.string().optional().meta({ description: 'Only keys scoped to that project' }),
});

const fields = {
  id: z.string().meta({ description: 'Identifier with the prefix `key_`', example: 'key_V1StGXR8Z5jdHi6B' }),
  name: z.string().meta({ description: 'Label' }),
  key_prefix: z.string().meta({ description: 'First 12 characters of the secret', example: 'svc_sk_Ab3xQ' }),
  project_id: z.string().nullable().meta({ description: 'The one project the key reaches; null = all of its user' }),
  user_id: z.string().meta({ description: 'Owner' }),
  last_used_at: z.iso.datetime().nullable().meta({ description: 'Last use, to the minute' }),
  created_at: z.iso.datetime().meta({ description: 'When the key was made' }),
  updated_at: z.iso.datetime().meta({ description: 'When it was last renamed or rotated' }),
};

export const ApiKeyOut = z.strictObject(fields).meta({ id: 'ApiKey' });

export const ApiKeyWithSecret = z
  .strictObject({
    ...fields,
    key: z.string().meta({ description: 'The secret; shown in this answer only' }),
  })
  .meta({ id: 'ApiKeyWithSecret' });
