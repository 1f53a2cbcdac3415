import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { config } from './config';

/** Where a value stands; it is the additional data of its encryption, so that a ciphertext moved elsewhere does not decrypt. */
export interface Place {
  table: string;
  column: string;
  rowId: string;
}

export interface Encrypted {
  keyId: string;
  data: Buffer;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

interface Key {
  /** The first 8 hex digits of the key's SHA-256. */
  id: string;
  bytes: Buffer;
}

let current: (Key & { text: string }) | undefined;

/** The key that encrypts now; its id is made once. */
function currentKey(): Key {
  const { SECRETS_ENCRYPTION_KEY: text } = config();
  if (current?.text !== text) {
    const bytes = Buffer.from(text, 'hex');
    current = { text, bytes, id: createHash('sha256').update(bytes).digest('hex').slice(0, 8) };
  }
  return current;
}

/** The id of the key that encrypts now. */
export const currentKeyId = (): string => currentKey().id;

function keyById(keyId: string): Buffer | undefined {
  const { id, bytes } = currentKey();
  if (id === keyId) return bytes;
  const entry = config().SECRETS_DECRYPTION_KEYS.find((text) => text.startsWith(`${keyId}:`));
  return entry === undefined ? undefined : Buffer.from(entry.slice(keyId.length + 1), 'hex');
}

const additionalData = ({ table, column, rowId }: Place): Buffer => Buffer.from(`${table}/${column}/${rowId}`);

/** AES-256-GCM under the deployment's key; the data is nonce, tag and ciphertext in one. */
export function encrypt(text: string, place: Place): Encrypted {
  const key = currentKey();
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.bytes, nonce).setAAD(additionalData(place));
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return { keyId: key.id, data: Buffer.concat([nonce, cipher.getAuthTag(), body]) };
}

/** The text again, or null when its key is not at hand or the data was changed or moved. */
export function decrypt({ keyId, data }: Encrypted, place: Place): string | null {
  const key = keyById(keyId);
  if (key === undefined || data.length < NONCE_BYTES + TAG_BYTES) return null;
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, data.subarray(0, NONCE_BYTES))
      .setAAD(additionalData(place))
      .setAuthTag(data.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    return decipher.update(data.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    return null; // A wrong tag is the only way to end here; the caller decides what an unreadable secret means.
  }
}
