import { z } from 'zod';
import { MailAddress } from '../auth/addresses';
import { idOf } from '../core/ids';

const role = z.enum(['admin', 'member']);

export const MemberCreate = z
  .strictObject({
    email: MailAddress.meta({ description: 'Address of the person; normalised', example: 'ana@acme.test' }),
    role: role.default('member').meta({ description: 'Role in the project; adding an `admin` takes the owner' }),
  })
  .meta({ id: 'MemberCreate' });

export const MemberUpdate = z
  .strictObject({ role: role.meta({ description: 'New role in the project' }) })
  .meta({ id: 'MemberUpdate' });

export const MemberParams = z.strictObject({ member_id: idOf('member') });

export const MemberOut = z
  .strictObject({
    id: z.string().meta({ description: 'Identifier with the prefix `pmem_`', example: 'pmem_V1StGXR8Z5jdHi6B' }),
    project_id: z.string().meta({ description: 'The project' }),
    user_id: z.string().nullable().meta({ description: 'The account; null while pending' }),
    email: z.string().meta({ description: 'Address of the person', example: 'ana@acme.test' }),
    name: z.string().nullable().meta({ description: "The account's name" }),
    status: z
      .enum(['active', 'pending'])
      .nullable()
      .meta({ description: '`pending` until the address signs in; null when the account is gone' }),
    role: z.enum(['owner', 'admin', 'member']).meta({ description: 'Role in the project' }),
    invited_by_user_id: z.string().nullable().meta({ description: 'Who added the row; null on the founding owner' }),
    created_at: z.iso.datetime().meta({ description: 'When the row was added' }),
    updated_at: z.iso.datetime().meta({ description: 'When role or account last changed' }),
  })
  .meta({ id: 'Member' });
