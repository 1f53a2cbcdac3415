import { decrypt, encrypt } from '../core/encryption';
import type { Encrypted, Place } from '../core/encryption';
import { ApiError, invalidInput } from '../core/errors';
import { partHeaders } from './headers';
import type { Execute } from './models';
import type { ExecuteFields } from './schemas';
import { TemplateError, parseHeader, parseUrl, piecesOf, secretIdsOf } from './templates';
import type { Piece } from './templates';

/** What a tool's row keeps of its `execute`. */
export interface StoredExecute {
  execute: Execute | null;
  literalsKeyId: string | null;
  literalsData: Buffer | null;
  secretIds: string[];
}

const NOTHING: StoredExecute = { execute: null, literalsKeyId: null, literalsData: null, secretIds: [] };

const placeOf = (toolId: string): Place => ({ table: 'tools', column: 'literals', rowId: toolId });

/**
 * What is stored for a call's description: templates checked, credentials written out in headers encrypted for that tool.
 * @throws INVALID_TEMPLATE_TOKEN, VALIDATION_FAILED
 */
export function storedExecute(toolId: string, given: ExecuteFields | null): StoredExecute {
  if (given === null) return NOTHING;
  const named = [
    ...at('execute.url', () => piecesOf(parseUrl(given.url))),
    ...Object.entries(given.headers).flatMap(([name, value]) =>
      at(`execute.headers.${name}`, () => parseHeader(value)),
    ),
  ];
  const { open, literals } = partHeaders(given.headers);
  const hidden = Object.keys(literals).length === 0 ? null : encrypt(JSON.stringify(literals), placeOf(toolId));
  return {
    execute: {
      url: given.url,
      method: given.method,
      headers: open,
      body_mode: given.body_mode,
      timeout_seconds: given.timeout_seconds,
    },
    literalsKeyId: hidden?.keyId ?? null,
    literalsData: hidden?.data ?? null,
    secretIds: secretIdsOf(named),
  };
}

/** The credentials written out in a tool's headers, by header name; null when they cannot be read with the keys at hand. */
export function readLiterals(toolId: string, { keyId, data }: Encrypted): Map<string, string> | null {
  const text = decrypt({ keyId, data }, placeOf(toolId));
  return text === null ? null : new Map(Object.entries(JSON.parse(text) as Record<string, string>));
}

function at(path: string, parse: () => Piece[]): Piece[] {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    if (error.reason !== 'token') throw invalidInput('VALIDATION_FAILED', path, error.message);
    throw new ApiError('INVALID_TEMPLATE_TOKEN', `${path}: ${error.message}.`, {
      details: [{ path, message: error.message }],
    });
  }
}
