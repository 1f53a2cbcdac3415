import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { servedVendors } from './models';

const URL_CHARACTERS_MAX = 2048;
/** Vendors of the contract that this build has no adapter for. */
const UNSERVED = ['anthropic', 'google', 'xai', 'groq', 'ollama', 'azure', 'bedrock', 'vertex', 'gateway', 'svc'];

const name = z.string().min(1).max(255).meta({
  description: 'Label, 1 to 255 characters',
  example: 'our vendor account',
});

const vendor = z
  .enum(servedVendors, {
    error: ({ input }) =>
      typeof input === 'string' && UNSERVED.includes(input)
        ? `${input} is not served by this build; it serves ${servedVendors.join(' and ')}`
        : undefined,
  })
  .meta({ description: '`openai`, or `custom` for another server that speaks the same interface' });

const defaultModel = z.string().min(1).max(255).meta({
  description: 'The vendor’s own model id; serves agents that name no model',
  example: 'gpt-4.1-mini',
});

const secretId = z
  .string()
  .nullable()
  .meta({ description: 'Secret of this project that holds the key; null = calls carry none' });

/** What is wrong with a base URL, or null. */
function baseUrlProblem(text: string): string | null {
  if (text.length > URL_CHARACTERS_MAX) return `must have at most ${String(URL_CHARACTERS_MAX)} characters`;
  // The parser of URLs drops tabs and newlines and reads a backslash as a slash: such a text is not what it looks like.
  if (!/^https?:\/\/[^/?#]/.test(text) || /[\s\0\\]/.test(text) || !URL.canParse(text)) {
    return 'must be an absolute http or https URL';
  }
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || text.includes('#')) {
    return 'must hold neither user information nor a fragment';
  }
  return null;
}

const baseUrl = z
  .string()
  .superRefine((text, context) => {
    const problem = baseUrlProblem(text);
    if (problem !== null) context.addIssue({ code: 'custom', message: problem });
  })
  .nullable()
  .meta({
    description: 'Where the interface stands; required for `custom`, null = the vendor’s own address',
    example: 'https://models.example.com/v1',
  });

const config = z
  .null({ error: 'is not served by this build' })
  .optional()
  .meta({ description: 'Settings of vendors that this build does not serve; only null' });

export const AiProviderCreate = z
  .strictObject({
    name,
    provider: vendor,
    default_model: defaultModel,
    secret_id: secretId.default(null),
    base_url: baseUrl.default(null),
    config,
  })
  .meta({ id: 'AiProviderCreate' });

export const AiProviderUpdate = z
  .strictObject({
    name: name.optional(),
    provider: vendor.optional(),
    default_model: defaultModel.optional(),
    secret_id: secretId.optional(),
    base_url: baseUrl.optional(),
    config,
  })
  .meta({ id: 'AiProviderUpdate' });

export const AiProviderOut = z
  .strictObject({
    id: idOf('aiProvider'),
    project_id: z.string().meta({ description: 'Project of the provider' }),
    name: z.string().meta({ description: 'Label' }),
    provider: z.enum(servedVendors).meta({ description: 'Vendor' }),
    default_model: z.string().meta({ description: 'Model of agents that name none' }),
    secret_id: z.string().nullable().meta({ description: 'Secret that holds the key' }),
    base_url: z.string().nullable().meta({ description: 'Where the interface stands; null = the vendor’s own' }),
    config: z.null().meta({ description: 'Always null for the vendors served' }),
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When it last changed' }),
  })
  .meta({ id: 'AiProvider' });

export const AiProviderPage = offsetPage(AiProviderOut).meta({ id: 'AiProviderPage' });

export const AiProviderParams = z.strictObject({ ai_provider_id: idOf('aiProvider') });

export const AiProviderListQuery = OffsetQuery;

export const AiProviderDeleteQuery = z.strictObject({
  force: booleanText(false).meta({
    description: 'Delete although there is usage history; live references still block',
  }),
});
