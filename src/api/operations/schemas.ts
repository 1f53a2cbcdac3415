import { z } from 'zod';

export const Health = z
  .strictObject({ status: z.literal('ok').meta({ description: 'Always `ok`; anything else is a 503' }) })
  .meta({ id: 'Health' });

export const ContractDocument = z.looseObject({
  openapi: z.string().meta({ description: 'Version of the OpenAPI specification' }),
});

export const ReferenceAsset = z.strictObject({ asset: z.string() });
