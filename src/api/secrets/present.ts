import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { Secret } from './models';
import type { SecretOut } from './schemas';

/** A secret as the API shows it: everything but its value. */
export const presentSecret = (row: Attributes<Secret>): z.output<typeof SecretOut> => ({
  id: row.id,
  project_id: row.projectId,
  name: row.name,
  has_value: true,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});
