import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createAzure } from '@ai-sdk/azure';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
// The package's other entry loads an authentication library, which no tenant's JSON may reach.
import { createVertex } from '@ai-sdk/google-vertex/edge';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { LanguageModelV3, SharedV3ProviderOptions } from '@ai-sdk/provider';
import { googleAccessToken } from '../core/google-token';
import { outbound } from '../core/outbound';
import type { OutboundFetch } from '../core/http';
import type { ModelAccess } from './access';
import { credentialTexts } from './access';
import { watched } from './streams';
import { awsUrl, vendorUrl, vertexUrl } from './vendors';
import type { Vendor } from './vendors';

export type { ModelAccess } from './access';

/** What Vertex asks of a token. */
export const VERTEX_SCOPES = ['https://www.googleapis.com/auth/cloud-platform'];
const VERTEX_EXPRESS_URL = 'https://aiplatform.googleapis.com/v1/publishers/google';
/** Azure's own hosts keep the interface below this path; an endpoint is often written without it. */
const AZURE_HOST = /\.azure\.com$/;
/** Versions that the interface without deployments in its paths knows; dated ones are of the older interface. */
const AZURE_UNDATED = /^(v1|preview|latest)$/;

/**
 * The vendor's model behind one interface, used one step at a time; every request goes through our own outbound client,
 * so that a provider's address is checked like any other address of a tenant. Retries of the vendor's package are not
 * used. Address, region, project and credentials are all given here, empty ones too: what a package is not given it looks
 * for in the environment, where the operator's own stand. What a call throws, and the error parts of its stream, are
 * `providerFailureOf`'s to read.
 */
export function languageModel(access: ModelAccess, modelId: string): LanguageModelV3 {
  const hidden = credentialTexts(access);
  return watched(adapters[access.provider](access, modelId, hidden), access.provider, hidden);
}

type Adapter = (access: ModelAccess, modelId: string, hidden: string[]) => LanguageModelV3;

const addressOf = ({ provider, baseUrl }: ModelAccess): string => baseUrl ?? vendorUrl(provider);

/** Servers that speak the interface of `openai`. */
const compatible: Adapter = (access, modelId) =>
  createOpenAICompatible({
    name: access.provider,
    baseURL: addressOf(access),
    ...(access.apiKey === null ? {} : { apiKey: access.apiKey }),
    // Without the first a stream tells no counts, without the second a schema is left out of the request.
    includeUsage: true,
    supportsStructuredOutputs: true,
    fetch: outbound().fetch,
  }).chatModel(modelId);

/** What packages of one vendor with a key are given. */
const keyed = (access: ModelAccess) => ({
  apiKey: access.apiKey ?? '',
  baseURL: addressOf(access),
  fetch: outbound().fetch,
});

const adapters: Record<Vendor, Adapter> = {
  openai: (access, modelId) => createOpenAI(keyed(access)).chat(modelId),
  anthropic: (access, modelId) => createAnthropic(keyed(access)).messages(modelId),
  google: (access, modelId) => createGoogleGenerativeAI(keyed(access)).chat(modelId),
  azure: azureModel,
  bedrock: bedrockModel,
  vertex: vertexModel,
  xai: compatible,
  groq: compatible,
  ollama: compatible,
  gateway: compatible,
  custom: compatible,
};

function azureModel({ apiKey, baseUrl, apiVersion }: ModelAccess, modelId: string): LanguageModelV3 {
  const url = new URL(baseUrl ?? '');
  if (url.pathname === '/' && AZURE_HOST.test(url.hostname)) url.pathname = '/openai';
  return createAzure({
    apiKey: apiKey ?? '',
    baseURL: url.href,
    resourceName: '',
    ...(apiVersion === null ? {} : { apiVersion }),
    useDeploymentBasedUrls: apiVersion !== null && !AZURE_UNDATED.test(apiVersion),
    fetch: outbound().fetch,
  }).chat(modelId);
}

function bedrockModel({ apiKey, baseUrl, region, cloud }: ModelAccess, modelId: string): LanguageModelV3 {
  const at = region ?? '';
  const keys = cloud?.kind === 'aws' ? cloud : { accessKeyId: '', secretAccessKey: '', sessionToken: null };
  return createAmazonBedrock({
    region: at,
    baseURL: baseUrl ?? awsUrl('bedrock-runtime', at),
    apiKey: apiKey ?? '',
    accessKeyId: keys.accessKeyId,
    secretAccessKey: keys.secretAccessKey,
    ...(keys.sessionToken === null ? {} : { sessionToken: keys.sessionToken }),
    fetch: outbound().fetch,
  })(modelId);
}

/** Of a service account the token is fetched anew where needed, when the request goes out. */
function vertexModel(access: ModelAccess, modelId: string, hidden: string[]): LanguageModelV3 {
  const { apiKey, baseUrl, cloud } = access;
  const { fetch } = outbound();
  const express = cloud?.kind !== 'google';
  return createVertex({
    // With a key the package leaves signing in to the request, and does not sign in with the environment's account.
    apiKey: express ? (apiKey ?? '') : 'a token takes its place',
    project: access.project ?? '',
    location: access.location ?? '',
    baseURL: baseUrl ?? (express ? VERTEX_EXPRESS_URL : vertexModelsUrl(access)),
    fetch: express ? fetch : withGoogleToken(fetch, cloud.keyFile, hidden),
  })(modelId);
}

const vertexModelsUrl = ({ project, location }: ModelAccess): string =>
  `${vertexUrl(location ?? '')}/v1beta1/projects/${project ?? ''}/locations/${location ?? ''}/publishers/google`;

const withGoogleToken =
  (fetch: OutboundFetch, keyFile: string, hidden: string[]): OutboundFetch =>
  async (input, init) => {
    const signal = init?.signal ?? undefined;
    const token = await googleAccessToken({
      keyFile,
      scopes: VERTEX_SCOPES,
      ...(signal === undefined ? {} : { signal }),
    });
    hidden.push(token);
    const headers = new Headers(init?.headers);
    headers.delete('x-goog-api-key');
    headers.set('authorization', `Bearer ${token}`);
    return fetch(input, { ...init, headers });
  };

/**
 * Options of the system message that let the vendor keep the prompt up to it for later calls; empty where the vendor
 * does so by itself, or not at all. Pure. Spec: Agents, `prompt_caching`.
 */
export function promptCacheOptions(provider: string): SharedV3ProviderOptions {
  if (provider === 'anthropic') return { anthropic: { cacheControl: { type: 'ephemeral' } } };
  if (provider === 'bedrock') return { bedrock: { cachePoint: { type: 'default' } } };
  return {};
}
