export const REENCRYPTION = 'reencryption';

/** Tables that hold encrypted values, by name. */
export const ENCRYPTED_TABLES = [
  'secrets',
  'webhooks',
  'tools',
  'ai_providers',
  'generation_contents',
  'agent_credentials',
] as const;
export type EncryptedTable = (typeof ENCRYPTED_TABLES)[number];

/** The tables that runs begun before agents had tools of their own go through. */
export const CONTENT_ENCRYPTED_TABLES = [
  'secrets',
  'webhooks',
  'tools',
  'ai_providers',
  'generation_contents',
] as const satisfies readonly EncryptedTable[];

/** The tables that runs begun before zero retention go through. */
export const EARLIER_ENCRYPTED_TABLES = [
  'secrets',
  'webhooks',
  'tools',
  'ai_providers',
] as const satisfies readonly EncryptedTable[];

/** The tables that runs begun by the first builds go through. */
export const FIRST_ENCRYPTED_TABLES = ['secrets', 'webhooks', 'tools'] as const satisfies readonly EncryptedTable[];

export interface ReencryptionInput {
  /** The key under which every row is to be. */
  keyId: string;
}

export interface ReencryptBatchInput extends ReencryptionInput {
  table: EncryptedTable;
  /** Rows after this id; null = from the first. */
  after: string | null;
}

export interface ReencryptBatchResult {
  changed: number;
  /** Rows that no key at hand opens: they are left as they are. */
  unreadable: number;
  /** Where the next batch begins; null = the table is done. */
  after: string | null;
}
