/** Pure: the vendors there is an adapter for, where they stand, and what their providers must say. */

export const servedVendors = [
  'openai',
  'anthropic',
  'google',
  'xai',
  'groq',
  'ollama',
  'azure',
  'bedrock',
  'vertex',
  'gateway',
  'custom',
] as const;
export type Vendor = (typeof servedVendors)[number];

/** Stands in the place of a key that was written out in `config`; its value is in the row's `literals`. */
export interface NoEcho {
  no_echo: true;
}

/** Settings of a vendor as they are stored and read back: no credential stands in them. */
export interface StoredConfig {
  region?: string | undefined;
  project?: string | undefined;
  location?: string | undefined;
  api_version?: string | undefined;
  apiKey?: NoEcho | undefined;
}

export const VERTEX_LOCATION = 'us-central1';

/** Vendors that stand at an address of their own; the packages would look for another one in the environment. */
const FIXED_URLS: Partial<Record<Vendor, string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
  google: 'https://generativelanguage.googleapis.com/v1beta',
  xai: 'https://api.x.ai/v1',
  groq: 'https://api.groq.com/openai/v1',
};

const NEEDS_URL: readonly Vendor[] = ['custom', 'gateway', 'azure', 'ollama'];
const NEEDS_CREDENTIAL: readonly Vendor[] = ['bedrock', 'vertex'];

const CONFIG_KEYS: Partial<Record<Vendor, readonly (keyof StoredConfig)[]>> = {
  bedrock: ['region', 'apiKey'],
  vertex: ['project', 'location', 'apiKey'],
  azure: ['api_version'],
};

/** Where a vendor's interface stands when its provider names no address; empty where there is no such place. */
export const vendorUrl = (provider: Vendor): string => FIXED_URLS[provider] ?? '';

/** Ends of the host names of Amazon's services by the beginning of a region's name. */
const AWS_PARTITIONS: readonly [prefix: string, domain: string][] = [
  ['cn-', 'amazonaws.com.cn'],
  ['eusc-', 'amazonaws.eu'],
];

/** Address of an Amazon service in a region. */
export function awsUrl(service: 'bedrock' | 'bedrock-runtime', region: string): string {
  const domain = AWS_PARTITIONS.find(([prefix]) => region.startsWith(prefix))?.[1] ?? 'amazonaws.com';
  return `https://${service}.${region}.${domain}`;
}

/** Address of Vertex in a location. */
export function vertexUrl(location: string): string {
  if (location === 'global') return 'https://aiplatform.googleapis.com';
  if (location === 'eu' || location === 'us') return `https://aiplatform.${location}.rep.googleapis.com`;
  return `https://${location}-aiplatform.googleapis.com`;
}

/** What of a provider must fit together, whichever request brought it. */
export interface Combination {
  provider: Vendor;
  baseUrl: string | null;
  secretId: string | null;
  config: StoredConfig | null;
}

/**
 * What is wrong with a provider as a whole, with the field to name; null when it can be called. Pure.
 * Spec: Providers, AI providers: `base_url`, `config`, bedrock and vertex without a credential.
 */
export function combinationProblem(given: Combination): { path: string; message: string } | null {
  const { provider, baseUrl, secretId, config } = given;
  if (baseUrl === null && NEEDS_URL.includes(provider)) {
    return { path: 'base_url', message: `is required for the provider \`${provider}\`` };
  }
  if (NEEDS_CREDENTIAL.includes(provider) && secretId === null && config?.apiKey === undefined) {
    return {
      path: 'secret_id',
      message: `the provider \`${provider}\` needs a secret or \`config.apiKey\`; the service lends no identity of its own`,
    };
  }
  return configProblem(provider, config);
}

function configProblem(provider: Vendor, config: StoredConfig | null): { path: string; message: string } | null {
  const allowed = CONFIG_KEYS[provider] ?? [];
  if (config === null) {
    return provider === 'bedrock' ? { path: 'config.region', message: 'is required for the provider `bedrock`' } : null;
  }
  if (allowed.length === 0) return { path: 'config', message: `must be null for the provider \`${provider}\`` };
  const given = Object.keys(config) as (keyof StoredConfig)[];
  const foreign = given.find((name) => config[name] !== undefined && !allowed.includes(name));
  if (foreign !== undefined) {
    return { path: `config.${foreign}`, message: `is no setting of the provider \`${provider}\`` };
  }
  const needed = provider === 'bedrock' ? 'region' : provider === 'azure' ? 'api_version' : null;
  if (needed === null || config[needed] !== undefined) return null;
  return { path: `config.${needed}`, message: `is required for the provider \`${provider}\`` };
}
