import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';

const VALUE_CHARACTERS_MAX = 65_536;

const name = z
  .string()
  .min(1)
  .max(255)
  .meta({ description: 'Label, 1 to 255 characters; not unique', example: 'vendor key' });

const value = z.string().min(1).max(VALUE_CHARACTERS_MAX).meta({
  description: 'The credential; stored encrypted, never returned by any route',
  example: 'sk-0123456789',
});

export const SecretCreate = z.strictObject({ name, value }).meta({ id: 'SecretCreate' });

export const SecretUpdate = z.strictObject({ name: name.optional(), value: value.optional() }).meta({
  id: 'SecretUpdate',
});

export const SecretOut = z
  .strictObject({
    id: idOf('secret'),
    project_id: z.string().meta({ description: 'Project of the secret' }),
    name: z.string().meta({ description: 'Label' }),
    has_value: z.boolean().meta({ description: 'Whether a value is stored; it is from creation on' }),
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When its name or value last changed' }),
  })
  .meta({ id: 'Secret' });

export const SecretPage = offsetPage(SecretOut).meta({ id: 'SecretPage' });

export const SecretParams = z.strictObject({ secret_id: idOf('secret') });

export const SecretListQuery = OffsetQuery;

export const SecretDeleteQuery = z.strictObject({
  force: booleanText(false).meta({
    description: 'Delete although providers or tools use it: providers lose the link, tools fail when called',
  }),
});
