import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { User } from './models';
import type { UserOut } from './schemas';

/** An account in the shape of the API. */
export const presentUser = (row: Attributes<User>): z.output<typeof UserOut> => ({
  id: row.id,
  email: row.email,
  name: row.name,
  email_verified: row.emailVerified,
  roles: row.roles,
  created_at: isoTime(row.createdAt),
});
