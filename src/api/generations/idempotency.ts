import stringify from 'safe-stable-stringify';
import { invalidInput } from '../core/errors';
import { hmac } from '../core/keys';

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

/** Digest of a request, key order ignored: what an idempotency key was claimed for. */
export const requestHashOf = (request: Record<string, unknown>): Buffer => hmac('request-hash', stringify(request));
