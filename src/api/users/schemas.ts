import { z } from 'zod';

export { UserOut } from './fields';

export const UserUpdate = z
  .strictObject({
    name: z.string().min(1).max(200).nullable().optional().meta({ description: 'Name of the person; null for none' }),
  })
  .meta({ id: 'UserUpdate' });
