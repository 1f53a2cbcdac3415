import { z } from 'zod';
import { GoogleKeyError, serviceAccountOf } from '../core/google-token';
import { decrypt, encrypt } from '../core/encryption';
import type { Place } from '../core/encryption';
import type { StoredConfig, Vendor } from './vendors';
import { VERTEX_LOCATION } from './vendors';

/** A credential of a cloud that is more than a key. It goes into one call's signature and nowhere else. */
export type CloudCredential =
  | { kind: 'aws'; accessKeyId: string; secretAccessKey: string; sessionToken: string | null }
  | { kind: 'google'; keyFile: string };

/** What a provider row and its secret say about how to reach a model. */
export interface ModelAccess {
  provider: Vendor;
  baseUrl: string | null;
  /** The key of vendors that take one; also of bedrock and of vertex in express mode. */
  apiKey: string | null;
  cloud: CloudCredential | null;
  /** Of `config`, with defaults; null where the vendor has no such setting. */
  region: string | null;
  project: string | null;
  location: string | null;
  apiVersion: string | null;
}

const AwsKeys = z.object({
  accessKeyId: z.string().min(1),
  secretAccessKey: z.string().min(1),
  sessionToken: z.string().min(1).optional(),
});
const KeyObject = z.object({ apiKey: z.string().min(1) });

type Credential = Pick<ModelAccess, 'apiKey' | 'cloud'>;

interface Given {
  provider: Vendor;
  baseUrl: string | null;
  config: StoredConfig | null;
  /** The value behind `secret_id`; null = the provider names no secret. */
  secret: string | null;
  /** What was written out in `config`. A secret goes before it. */
  configKey: string | null;
}

/**
 * What a call needs of a provider, or null when what it holds cannot be used: a secret of a shape that its vendor does
 * not have, a key file of another type than a service account's, no credential where one must be. Pure.
 * Spec: Providers, secret shapes.
 */
export function modelAccess(given: Given): ModelAccess | null {
  const { provider, baseUrl, config } = given;
  const credential = credentialOf(given);
  if (credential === null) return null;
  const access: ModelAccess = {
    provider,
    baseUrl,
    ...credential,
    region: config?.region ?? null,
    project: config?.project ?? projectOf(credential),
    location: provider === 'vertex' ? (config?.location ?? VERTEX_LOCATION) : null,
    apiVersion: config?.api_version ?? null,
  };
  return isComplete(access) ? access : null;
}

const isComplete = ({ provider, region, project, apiKey }: ModelAccess): boolean =>
  (provider !== 'bedrock' || region !== null) && (provider !== 'vertex' || apiKey !== null || project !== null);

function credentialOf({ provider, secret, configKey }: Given): Credential | null {
  const text = secret ?? configKey;
  if (provider !== 'bedrock' && provider !== 'vertex') return { apiKey: text, cloud: null };
  if (text === null || text.trim() === '') return null;
  const bare = text.trim();
  if (!bare.startsWith('{')) return { apiKey: bare, cloud: null };
  const fields = jsonOf(bare);
  const key = KeyObject.safeParse(fields);
  if (key.success) return { apiKey: key.data.apiKey, cloud: null };
  return provider === 'bedrock' ? awsOf(fields) : googleOf(bare);
}

function awsOf(fields: unknown): Credential | null {
  const keys = AwsKeys.safeParse(fields);
  if (!keys.success) return null;
  const { accessKeyId, secretAccessKey, sessionToken } = keys.data;
  return { apiKey: null, cloud: { kind: 'aws', accessKeyId, secretAccessKey, sessionToken: sessionToken ?? null } };
}

function googleOf(keyFile: string): Credential | null {
  try {
    serviceAccountOf(keyFile);
    return { apiKey: null, cloud: { kind: 'google', keyFile } };
  } catch (error) {
    if (error instanceof GoogleKeyError) return null;
    throw error;
  }
}

/** A key file names the project that its account lives in; a provider without one of its own means that. */
function projectOf({ cloud }: Credential): string | null {
  if (cloud?.kind !== 'google') return null;
  const project = z.object({ project_id: z.string() }).safeParse(jsonOf(cloud.keyFile)).data?.project_id ?? '';
  return PROJECT.test(project) ? project : null;
}

/** Projects stand in paths, and old ones are written `domain:name`. */
export const PROJECT = /^[a-z0-9][a-z0-9.:-]{0,127}$/;

/** Every text of a credential that must not stand in a message. */
export function credentialTexts({ apiKey, cloud }: Credential): string[] {
  const texts = [apiKey, ...(cloud === null ? [] : cloudTexts(cloud))];
  return texts.filter((text): text is string => text !== null && text.trim() !== '');
}

function cloudTexts(cloud: CloudCredential): (string | null)[] {
  if (cloud.kind === 'aws') return [cloud.secretAccessKey, cloud.sessionToken, cloud.accessKeyId];
  const pem = z.object({ private_key: z.string() }).safeParse(jsonOf(cloud.keyFile)).data?.private_key ?? null;
  return [cloud.keyFile, pem];
}

const placeOf = (aiProviderId: string): Place => ({ table: 'ai_providers', column: 'literals', rowId: aiProviderId });

/** Columns of a provider's row that keep its `config`. */
export interface StoredSettings {
  config: StoredConfig | null;
  literalsKeyId: string | null;
  literalsData: Buffer | null;
}

/** `config` as a caller sends it. */
export type ConfigInput = Omit<StoredConfig, 'apiKey'> & { apiKey?: string | undefined };

/** What is stored of a `config`: a key written out in it encrypted for that provider, the rest, defaults too, in the open. */
export function storedSettings(
  { id: aiProviderId, provider }: { id: string; provider: Vendor },
  given: ConfigInput | null,
): StoredSettings {
  if (given === null) return { config: null, literalsKeyId: null, literalsData: null };
  const { apiKey, ...named } = given;
  const open = provider === 'vertex' ? { location: VERTEX_LOCATION, ...named } : named;
  if (apiKey === undefined) return { config: open, literalsKeyId: null, literalsData: null };
  const { keyId, data } = encrypt(JSON.stringify({ apiKey }), placeOf(aiProviderId));
  return { config: { ...open, apiKey: { no_echo: true } }, literalsKeyId: keyId, literalsData: data };
}

/** The key written out in a provider's `config`; null when there is none, undefined when no key at hand opens it. */
export function readConfigKey(aiProviderId: string, stored: StoredSettings): string | null | undefined {
  const { literalsKeyId: keyId, literalsData: data } = stored;
  if (keyId === null || data === null) return null;
  const text = decrypt({ keyId, data }, placeOf(aiProviderId));
  return text === null ? undefined : KeyObject.safeParse(jsonOf(text)).data?.apiKey;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
