import { AwsV4Signer } from 'aws4fetch';
import { clock } from '../core/clock';
import { ApiError } from '../core/errors';
import { GoogleKeyError, GoogleTokenError, googleAccessToken } from '../core/google-token';
import { outboundErrorOf } from '../core/http';
import { outbound } from '../core/outbound';
import type { ModelAccess } from './access';
import { credentialTexts } from './access';
import { VERTEX_SCOPES } from './adapters';
import { withoutTexts } from './failures';
import { readListing } from './listing-shapes';
import type { ListedModel, ListedPage } from './listing-shapes';
import { accessOf, getAiProvider } from './service';
import { awsUrl, vendorUrl, vertexUrl } from './vendors';
import type { Vendor } from './vendors';

const LISTING_MS = 15_000;
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const PAGES_MAX = 20;
const ANTHROPIC_VERSION = '2023-06-01';

/** Time that a listing has in all, pages and token included. An object, so that tests need not wait for it. */
export const listingLimits = { timeoutMs: LISTING_MS };

interface ListingRequest {
  url: URL;
  headers: Record<string, string>;
}

/**
 * The models that a provider's vendor offers to its credential, as the vendor tells it now; nothing is kept. Repeatable.
 * @throws not_found, MODEL_LISTING_UNSUPPORTED, AI_PROVIDER_MISCONFIGURED, MODEL_LISTING_FAILED
 * Spec: Providers, GET …/models.
 */
export async function listVendorModels(
  projectId: string,
  aiProviderId: string,
): Promise<{ provider: Vendor; models: ListedModel[] }> {
  const row = await getAiProvider(projectId, aiProviderId);
  if (row.provider === 'azure' || row.provider === 'ollama') throw unsupported(row.provider);
  const access = await accessOf(row);
  if (!access.ok) {
    throw new ApiError('AI_PROVIDER_MISCONFIGURED', 'The AI provider cannot be used: its credential is gone or unfit.');
  }
  if (access.provider === 'vertex' && access.cloud === null) throw unsupported('vertex');
  try {
    return { provider: access.provider, models: await allPages(access) };
  } catch (error) {
    throw failureOf(access, error);
  }
}

async function allPages(access: ModelAccess): Promise<ListedModel[]> {
  const endsAtMs = clock.ms() + listingLimits.timeoutMs;
  const models: ListedModel[] = [];
  let query: ListedPage['next'] = {};
  for (let page = 0; query !== null && page < PAGES_MAX; page += 1) {
    const found: ListedPage = await onePage(access, query, endsAtMs);
    models.push(...found.models);
    query = found.next;
  }
  return models;
}

async function onePage(access: ModelAccess, query: Record<string, string>, endsAtMs: number): Promise<ListedPage> {
  const { provider } = access;
  const signal = AbortSignal.timeout(Math.max(1, endsAtMs - clock.ms()));
  const request = await (requests[provider] ?? openAiRequest)({ access, query, signal });
  const answer = await outbound().request({
    url: request.url,
    method: 'GET',
    headers: request.headers,
    timeoutMs: Math.max(1, endsAtMs - clock.ms()),
    // A listing that is elsewhere than the provider says would be asked for with its key.
    redirects: 'never',
    responseBytesMax: ANSWER_BYTES_MAX,
    onTooLarge: 'fail',
  });
  if (answer.status !== 200) throw rejected(provider, answer.status);
  const page = readListing(provider, jsonOf(answer.body.toString('utf8')));
  if (page === null) throw failed(`The ${provider} provider gave a model listing that could not be read.`);
  return page;
}

interface Page {
  access: ModelAccess;
  query: Record<string, string>;
  signal: AbortSignal;
}

const requests: Partial<Record<Vendor, (page: Page) => ListingRequest | Promise<ListingRequest>>> = {
  anthropic: ({ access, query }) => ({
    url: listingUrl(access, 'models', { limit: '1000', ...query }),
    headers: { 'x-api-key': access.apiKey ?? '', 'anthropic-version': ANTHROPIC_VERSION },
  }),
  google: ({ access, query }) => ({
    url: listingUrl(access, 'models', { pageSize: '1000', ...query }),
    headers: { 'x-goog-api-key': access.apiKey ?? '' },
  }),
  vertex: vertexRequest,
  bedrock: ({ access }) => bedrockRequest(access),
};

const openAiRequest = ({ access, query }: Page): ListingRequest => ({
  url: listingUrl(access, 'models', query),
  headers: access.apiKey === null ? {} : { authorization: `Bearer ${access.apiKey}` },
});

/** `path` below the provider's address, or below the vendor's own. A query that the address carries stays. */
function listingUrl({ baseUrl, provider }: ModelAccess, path: string, query: Record<string, string> = {}): URL {
  const url = new URL(baseUrl ?? vendorUrl(provider));
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${path}`;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

async function vertexRequest({ access, query, signal }: Page): Promise<ListingRequest> {
  const { cloud, location } = access;
  const keyFile = cloud?.kind === 'google' ? cloud.keyFile : '';
  const token = await googleAccessToken({ keyFile, scopes: VERTEX_SCOPES, signal });
  const baseUrl = access.baseUrl ?? `${vertexUrl(location ?? '')}/v1beta1/publishers/google`;
  return {
    url: listingUrl({ ...access, baseUrl }, 'models', { pageSize: '100', ...query }),
    headers: { authorization: `Bearer ${token}` },
  };
}

/** The listing stands in Bedrock's control plane, which has a host of its own. */
async function bedrockRequest(access: ModelAccess): Promise<ListingRequest> {
  const { apiKey, cloud, region } = access;
  const baseUrl = access.baseUrl ?? awsUrl('bedrock', region ?? '');
  const url = listingUrl({ ...access, baseUrl }, 'foundation-models');
  if (cloud?.kind !== 'aws') return { url, headers: { authorization: `Bearer ${apiKey ?? ''}` } };
  const signed = await new AwsV4Signer({
    url: url.href,
    method: 'GET',
    service: 'bedrock',
    region: region ?? '',
    accessKeyId: cloud.accessKeyId,
    secretAccessKey: cloud.secretAccessKey,
    ...(cloud.sessionToken === null ? {} : { sessionToken: cloud.sessionToken }),
  }).sign();
  return { url: signed.url, headers: Object.fromEntries(signed.headers) };
}

const unsupported = (provider: Vendor): ApiError =>
  new ApiError(
    'MODEL_LISTING_UNSUPPORTED',
    provider === 'vertex'
      ? 'The vertex provider lists no models to an express key.'
      : `The ${provider} provider has no listing of models.`,
  );

const failed = (message: string): ApiError => new ApiError('MODEL_LISTING_FAILED', message);

const rejected = (provider: Vendor, status: number): ApiError =>
  failed(`The ${provider} provider rejected the model listing request (HTTP ${String(status)}).`);

/** Why there is no listing, in words that hold nothing of the credential. */
function failureOf(access: ModelAccess, error: unknown): unknown {
  const { provider } = access;
  const transport = outboundErrorOf(error);
  if (transport !== undefined) {
    const why = transport.kind === 'egress_blocked' ? 'its address is not allowed' : transport.detail;
    const said = transport.kind === 'aborted' ? `no complete answer within ${String(listingLimits.timeoutMs)} ms` : why;
    return failed(withoutTexts(`The ${provider} provider could not be reached: ${said}.`, credentialTexts(access)));
  }
  if (error instanceof GoogleTokenError) return rejected(provider, error.status);
  if (error instanceof GoogleKeyError) {
    return new ApiError('AI_PROVIDER_MISCONFIGURED', `The AI provider cannot be used: ${error.message}.`);
  }
  return error;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
