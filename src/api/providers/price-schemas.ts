import { z } from 'zod';
import { idOf } from '../core/ids';
import { tokenComponents } from './prices';

const PRICES_MAX = 500;
const PLACES_MAX = 12;
/** The column holds 8 digits before the point. */
const UNIT_PRICE_LIMIT = 100_000_000;

/** Digits after the point of a number as it is written shortest. */
function placesOf(number: number): number {
  const [, fraction = '', exponent = '0'] = /^\d+(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number)) ?? [];
  return Math.max(0, fraction.length - Number(exponent));
}

const component = z.enum(tokenComponents).meta({
  description:
    'What is counted; `input_tokens` are those not served from a cache, `reasoning_tokens` are a part of the output and not billed',
});

const ProviderPriceInput = z
  .strictObject({
    model: z.string().min(1).max(255).meta({ description: 'The vendor’s own model id', example: 'gpt-4.1-mini' }),
    component,
    unit: z.literal('token').meta({ description: 'What the price is for one of' }),
    unit_price: z
      .number()
      .min(0)
      .lt(UNIT_PRICE_LIMIT)
      .refine(
        (price) => placesOf(price) <= PLACES_MAX,
        `must have at most ${String(PLACES_MAX)} digits after the point`,
      )
      .meta({ description: 'US dollars a token', example: 0.0000004 }),
    effective_from: z.iso
      .datetime({ offset: true })
      .optional()
      .meta({ description: 'From when it counts, not in the past; absent = now' }),
  })
  .meta({ id: 'ProviderPriceInput' });

export const ProviderPricesPut = z
  .strictObject({
    prices: z
      .array(ProviderPriceInput)
      .min(1)
      .max(PRICES_MAX)
      .meta({ description: 'Prices to add, all or none; those that are there stay as they are' }),
  })
  .meta({ id: 'ProviderPricesPut' });

export const ProviderPriceOut = z
  .strictObject({
    id: idOf('price'),
    ai_provider_id: z.string().nullable().meta({ description: 'Provider that it is set on' }),
    project_id: z.string().nullable().meta({ description: 'Project that it is set in' }),
    meter_type: z.string().meta({ description: 'Always `llm_tokens`', example: 'llm_tokens' }),
    provider: z.string().meta({ description: 'Vendor when it was set', example: 'openai' }),
    model: z.string().meta({ description: 'The vendor’s own model id' }),
    component,
    unit: z.string().meta({ description: 'What the price is for one of', example: 'token' }),
    unit_price: z.number().meta({ description: 'US dollars a unit' }),
    effective_from: z.iso.datetime().meta({ description: 'From when it counts' }),
    created_at: z.iso.datetime().meta({ description: 'When it was set' }),
  })
  .meta({ id: 'ProviderPrice' });

export const ProviderPrices = z
  .strictObject({
    prices: z.array(ProviderPriceOut).meta({
      description: 'The newest 1,000, the one that counts last first; of a model and component the latest begun counts',
    }),
  })
  .meta({ id: 'ProviderPrices' });
