import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModelV3 } from '@ai-sdk/provider';
import { outbound } from '../core/outbound';

/** The package would look for another one in the environment, where one tenant's setting must not move another's calls. */
const OPENAI_URL = 'https://api.openai.com/v1';

/** What a provider row and its secret say about how to reach a model. */
export interface ModelAccess {
  provider: string;
  baseUrl: string | null;
  apiKey: string | null;
}

/**
 * The vendor's model behind one interface, used one step at a time; every request goes through our own outbound client,
 * so that a provider's address is checked like any other address of a tenant. Retries of the vendor's package are not used.
 */
export function languageModel(access: ModelAccess, modelId: string): LanguageModelV3 {
  const fetch = outbound().fetch;
  if (access.provider === 'openai') {
    return createOpenAI({
      apiKey: access.apiKey ?? '',
      baseURL: access.baseUrl ?? OPENAI_URL,
      fetch,
    }).chat(modelId);
  }
  return createOpenAICompatible({
    name: access.provider,
    includeUsage: true,
    baseURL: access.baseUrl ?? '',
    ...(access.apiKey === null ? {} : { apiKey: access.apiKey }),
    fetch,
  }).chatModel(modelId);
}
