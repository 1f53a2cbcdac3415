import { z } from 'zod';

export const UserUpdate = z
  .strictObject({
    name: z.string().min(1).max(200).nullable().optional().meta({ description: 'Name of the person; null for none' }),
  })
  .meta({ id: 'UserUpdate' });

export const UserOut = z
  .strictObject({
    id: z.string().meta({ description: 'Identifier with the prefix `user_`', example: 'user_V1StGXR8Z5jdHi6B' }),
    email: z.string().meta({ description: 'The address that is the account', example: 'ana@acme.test' }),
    name: z.string().nullable().meta({ description: 'Name of the person' }),
    email_verified: z
      .boolean()
      .meta({ description: 'True from creation: an account exists once its address is proven' }),
    roles: z.array(z.string()).meta({ description: 'Platform roles; the catalog holds `admin`' }),
    created_at: z.iso.datetime().meta({ description: 'When the account was made' }),
  })
  .meta({ id: 'User' });
