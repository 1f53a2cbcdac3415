import stringify from 'safe-stable-stringify';
import { invalidInput } from '../core/errors';
import { hmac, hmacWith, verifyingKeys } from '../core/keys';

const KEY_CHARACTERS_MAX = 255;

/**
 * The key of a request: the body's, else the header's.
 * @throws VALIDATION_FAILED when the header is empty or too long (the body's is checked with the body)
 */
export function idempotencyKeyOf(inBody: string | undefined, inHeader: string | undefined): string | null {
  if (inBody !== undefined) return inBody;
  if (inHeader === undefined) return null;
  if (inHeader === '' || inHeader.length > KEY_CHARACTERS_MAX) {
    throw invalidInput('VALIDATION_FAILED', 'idempotency_key', 'must have 1 to 255 characters');
  }
  return inHeader;
}

/** Digest of a request: what an idempotency key is claimed for. */
export interface RequestHash {
  /** Under the present secret; this one is stored. */
  present: Buffer;
  /** Whether a stored digest is of the same request, be it from before a rotation of the secret. */
  matches: (stored: Buffer) => boolean;
}

/** The digest of a request, key order ignored. */
export function requestHashOf(request: Record<string, unknown>): RequestHash {
  const text = stringify(request);
  return {
    present: hmac('request-hash', text),
    matches: (stored) => verifyingKeys('request-hash').some((key) => hmacWith(key, text).equals(stored)),
  };
}
