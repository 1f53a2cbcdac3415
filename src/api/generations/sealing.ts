import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { decrypt, encrypt } from '../core/encryption';
import type { Encrypted } from '../core/encryption';
import { ApiError } from '../core/errors';

/** What of a run's content is kept after it: all, or nothing. */
export type ContentMode = 'full' | 'none';

/** How one run's content stands in its rows. */
export interface ContentSeal {
  /** Whether its key is at hand. */
  usable: boolean;
  /** JSON text of a value as it is stored at a place (`input`, `call/2/0/args`). */
  seal: (place: string, value: unknown) => string;
  /** The value again, out of parsed JSON. @throws GENERATION_FAILED when it was changed or moved, or its key is gone */
  open: (place: string, stored: unknown) => unknown;
}

/** A value as it stands in a row under zero retention. */
interface Sealed {
  sealed: string;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Content in the clear, as mode `full` keeps it. */
export const plain: ContentSeal = {
  usable: true,
  seal: (_place, value) => JSON.stringify(value),
  open: (_place, stored) => stored,
};

const unreadable = (generationId: string): ApiError =>
  new ApiError('GENERATION_FAILED', 'The content of the generation cannot be read: its key is not at hand.', {
    meta: { generation_id: generationId },
  });

/** Stands in for a key that cannot be unwrapped: whatever is asked of it fails. */
function closed(generationId: string): ContentSeal {
  const refuse = (): never => {
    throw unreadable(generationId);
  };
  return { usable: false, seal: refuse, open: refuse };
}

/** AES-256-GCM under the run's own key; the additional data is the run and the place. */
function sealUnder(key: Buffer, generationId: string): ContentSeal {
  const boundTo = (place: string): Buffer => Buffer.from(`${generationId}/${place}`);
  return {
    usable: true,
    seal: (place, value) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(boundTo(place));
      const body = Buffer.concat([cipher.update(JSON.stringify(value ?? null), 'utf8'), cipher.final()]);
      const sealed: Sealed = { sealed: Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64') };
      return JSON.stringify(sealed);
    },
    open: (place, stored) => {
      if (stored === null || stored === undefined) return null;
      if (!isSealed(stored)) throw unreadable(generationId);
      const data = Buffer.from(stored.sealed, 'base64');
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, data.subarray(0, NONCE_BYTES))
          .setAAD(boundTo(place))
          .setAuthTag(data.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const text =
          decipher.update(data.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
        return JSON.parse(text) as unknown;
      } catch {
        throw unreadable(generationId);
      }
    },
  };
}

/** Whether a stored value is sealed; asked only of runs that keep no content. */
export const isSealed = (stored: unknown): stored is Sealed =>
  typeof stored === 'object' && stored !== null && 'sealed' in stored && typeof stored.sealed === 'string';

const keyPlace = (generationId: string) => ({ table: 'generation_contents', column: 'key', rowId: generationId });

/** A seal with what its run keeps of its key. */
export interface NewSeal {
  seal: ContentSeal;
  key: Encrypted | null;
}

/**
 * The seal of a new run, and the wrapped key that opens it again; no key in mode `full`.
 * Spec: Generations, what is kept.
 */
export function newSeal(mode: ContentMode, generationId: string): NewSeal {
  if (mode === 'full') return { seal: plain, key: null };
  const key = randomBytes(KEY_BYTES);
  return { seal: sealUnder(key, generationId), key: encrypt(key.toString('base64'), keyPlace(generationId)) };
}

/** Where a step's content stands. */
export const stepPlace = (step: number): string => `step/${String(step)}`;

/** Where a part of a call stands. */
export const callPlace = (
  { step, call }: { step: number; call: number },
  part: 'args' | 'pinned' | 'result' | 'error',
): string => `call/${String(step)}/${String(call)}/${part}`;

/** Where the outputs of a submission stand. */
export const submissionPlace = (id: string): string => `submission/${id}`;

/** The columns from which a run's seal is made, of a generation `g` left joined with its contents `c`. */
export const SEAL_COLUMNS = 'g.content_mode, c.key_id, c.key_data';

export interface SealRow {
  content_mode: ContentMode;
  key_id: string | null;
  key_data: Buffer | null;
}

/** The seal of a run out of SEAL_COLUMNS; null when its content is gone. Never throws: a closed seal refuses when it is used. */
export function sealOfRow(generationId: string, row: SealRow): ContentSeal | null {
  if (row.content_mode === 'full') return plain;
  if (row.key_id === null || row.key_data === null) return null;
  const key = decrypt({ keyId: row.key_id, data: row.key_data }, keyPlace(generationId));
  return key === null ? closed(generationId) : sealUnder(Buffer.from(key, 'base64'), generationId);
}
