import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { PROJECT } from './access';
import { VERTEX_LOCATION, servedVendors } from './vendors';

const URL_CHARACTERS_MAX = 2048;
const KEY_CHARACTERS_MAX = 65_536;

const name = z.string().min(1).max(255).meta({
  description: 'Label, 1 to 255 characters',
  example: 'our vendor account',
});

const vendor = z
  .enum(servedVendors, {
    error: ({ input }) =>
      input === 'svc' ? 'svc is not served by this build: its catalog of managed models is empty' : undefined,
  })
  .meta({
    description:
      'Vendor; `custom` and `gateway` are other servers that speak the interface of `openai`, as `ollama` does',
  });

const defaultModel = z.string().min(1).max(255).meta({
  description: 'The vendor’s own model id; serves agents that name no model',
  example: 'gpt-4.1-mini',
});

const secretId = z.string().nullable().meta({
  description:
    'Secret of this project that holds the credential: a key; for `bedrock` also JSON of `accessKeyId`, `secretAccessKey` and `sessionToken`, for `vertex` the key file of a service account',
});

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
    description:
      'Where the interface stands; required for `custom`, `gateway`, `azure` and `ollama`, null = the vendor’s own address',
    example: 'https://models.example.com/v1',
  });

/** It becomes a part of the vendor's host name, so it must not be able to name another host. */
const place = (description: string, example: string) =>
  z
    .string()
    .regex(/^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/, 'must be lower-case letters, digits and hyphens')
    .meta({ description, example });

const configKey = z
  .string({
    error: ({ input }) =>
      typeof input === 'object' && input !== null && 'no_echo' in input
        ? 'stands for a value that is not shown; send the value itself'
        : undefined,
  })
  .min(1)
  .max(KEY_CHARACTERS_MAX)
  .meta({ description: 'Key of `bedrock` or `vertex` in the place of a secret; reads back as `no_echo`' });

const project = z
  .string()
  .regex(PROJECT, 'must be the id of a project')
  .meta({ description: 'Cloud project of `vertex`; absent = the one its key file names', example: 'my-project' });

const apiVersion = z
  .string()
  .regex(/^[A-Za-z0-9.-]{1,40}$/, 'must be a version as the vendor writes it')
  .meta({ description: 'Version of the interface of `azure`', example: '2024-10-21' });

const region = place('Region of `bedrock`', 'eu-central-1');

const config = z
  .strictObject({
    region: region.optional(),
    project: project.optional(),
    location: place(`Location of \`vertex\`; absent = ${VERTEX_LOCATION}`, VERTEX_LOCATION).optional(),
    api_version: apiVersion.optional(),
    apiKey: configKey.optional(),
  })
  .meta({ id: 'AiProviderConfigInput' })
  .nullable()
  .meta({ description: 'Settings of `bedrock`, `vertex` and `azure`; null for the other vendors' });

export const AiProviderCreate = z
  .strictObject({
    name,
    provider: vendor,
    default_model: defaultModel,
    secret_id: secretId.default(null),
    base_url: baseUrl.default(null),
    config: config.default(null),
  })
  .meta({ id: 'AiProviderCreate' });

export const AiProviderUpdate = z
  .strictObject({
    name: name.optional(),
    provider: vendor.optional(),
    default_model: defaultModel.optional(),
    secret_id: secretId.optional(),
    base_url: baseUrl.optional(),
    config: config.optional(),
  })
  .meta({ id: 'AiProviderUpdate' });

const AiProviderConfig = z
  .strictObject({
    region: z.string().optional().meta({ description: 'Region of `bedrock`' }),
    project: z.string().optional().meta({ description: 'Cloud project of `vertex`' }),
    location: z.string().optional().meta({ description: 'Location of `vertex`' }),
    api_version: z.string().optional().meta({ description: 'Version of the interface of `azure`' }),
    apiKey: z
      .strictObject({ no_echo: z.literal(true).meta({ description: 'The value is kept and never shown' }) })
      .optional()
      .meta({ description: 'Stands for a key that was written out' }),
  })
  .meta({ id: 'AiProviderConfig' });

export const AiProviderOut = z
  .strictObject({
    id: idOf('aiProvider'),
    project_id: z.string().meta({ description: 'Project of the provider' }),
    name: z.string().meta({ description: 'Label' }),
    provider: z.enum(servedVendors).meta({ description: 'Vendor' }),
    default_model: z.string().meta({ description: 'Model of agents that name none' }),
    secret_id: z.string().nullable().meta({ description: 'Secret that holds the credential' }),
    base_url: z.string().nullable().meta({ description: 'Where the interface stands; null = the vendor’s own' }),
    config: AiProviderConfig.nullable().meta({ description: 'Settings of the vendor' }),
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When it last changed' }),
  })
  .meta({ id: 'AiProvider' });

export const AiProviderPage = offsetPage(AiProviderOut).meta({ id: 'AiProviderPage' });

export const AiProviderParams = z.strictObject({ ai_provider_id: idOf('aiProvider') });

const words = (description: string) => z.array(z.string()).optional().meta({ description });

const ListedModel = z
  .strictObject({
    id: z.string().meta({ description: 'The vendor’s own model id', example: 'gpt-4.1-mini' }),
    display_name: z.string().optional().meta({ description: 'Name for people' }),
    vendor: z.string().optional().meta({ description: 'Who made or owns it' }),
    input_modalities: words('What it takes, e.g. `text`'),
    output_modalities: words('What it gives, e.g. `text`'),
    streaming: z.boolean().optional().meta({ description: 'Whether it streams' }),
    lifecycle: z.string().optional().meta({ description: 'Stage, in the vendor’s word in lower case' }),
    inference_types: words('How it can be called, in the vendor’s words in lower case'),
  })
  .meta({ id: 'AiProviderModel', description: 'What the vendor does not say is absent' });

export const AiProviderModels = z
  .strictObject({
    provider: z.enum(servedVendors).meta({ description: 'Vendor' }),
    models: z.array(ListedModel).meta({ description: 'In the vendor’s order' }),
  })
  .meta({ id: 'AiProviderModels' });

export const AiProviderListQuery = OffsetQuery;

export const AiProviderDeleteQuery = z.strictObject({
  force: booleanText(false).meta({
    description: 'Delete although there are prices or usage history; live references still block',
  }),
});
