import express from 'express';
import type { Request, Response } from 'express';
import { ApiError, invalidInput } from './errors';
import type { InputProblem } from './errors';

/** JSON bodies of ordinary routes; sign-in routes take less. */
export const BODY_BYTES_MAX = 1_048_576;

const DEPTH_MAX = 100;

const parsers = new Map<number, express.RequestHandler>();

function parserFor(limitBytes: number): express.RequestHandler {
  let parser = parsers.get(limitBytes);
  if (parser === undefined) {
    parser = express.json({ limit: limitBytes, strict: false, type: () => true });
    parsers.set(limitBytes, parser);
  }
  return parser;
}

const hasBody = (req: Request): boolean =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? '0') > 0;

/**
 * Reads and parses the JSON body of a request; without one it is `{}`.
 * @throws payload_too_large with `details.limit_bytes`, unsupported_media_type, bad_request
 */
export async function readBody(req: Request, res: Response, limitBytes: number): Promise<unknown> {
  if (!hasBody(req)) return {};
  const tooLarge = new ApiError('payload_too_large', `The body is larger than ${String(limitBytes)} bytes.`, {
    details: { limit_bytes: limitBytes },
  });
  if (Number(req.headers['content-length'] ?? '0') > limitBytes) throw tooLarge;
  if (req.is('application/json') === false) {
    throw new ApiError('unsupported_media_type', 'The body must be application/json.');
  }
  await new Promise<void>((resolve, reject) => {
    void parserFor(limitBytes)(req, res, (error?: unknown) => {
      if (error === undefined) resolve();
      else reject(bodyError(error, tooLarge));
    });
  });
  const body: unknown = req.body ?? {};
  const problem = unstorable(body);
  if (problem !== null) throw invalidInput('bad_request', problem.path, problem.message);
  return body;
}

function bodyError(error: unknown, tooLarge: ApiError): ApiError {
  const type = (error as { type?: string }).type ?? '';
  if (type === 'entity.too.large') return tooLarge;
  if (type === 'encoding.unsupported' || type === 'charset.unsupported') {
    return new ApiError('unsupported_media_type', 'The encoding of the body is not supported.');
  }
  return invalidInput('bad_request', '', 'The body is not valid JSON.');
}

/**
 * What PostgreSQL could not store or give back as it came: the NUL character, half a surrogate pair, a number beyond
 * the range, nesting without end. Walks with a stack of its own, so that depth cannot exhaust the call stack.
 */
function unstorable(body: unknown): InputProblem | null {
  const open: { value: unknown; path: string; depth: number }[] = [{ value: body, path: '', depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, path, depth } = next;
    if (typeof value === 'string' && !isStorable(value))
      return { path, message: 'holds a character that is not allowed' };
    if (typeof value === 'number' && !Number.isFinite(value)) return { path, message: 'is a number out of range' };
    if (typeof value !== 'object' || value === null) continue;
    if (depth >= DEPTH_MAX) return { path, message: `is nested deeper than ${String(DEPTH_MAX)} levels` };
    for (const [name, child] of Object.entries(value)) {
      if (!isStorable(name)) return { path, message: 'has a property name with a character that is not allowed' };
      open.push({ value: child, path: path === '' ? name : `${path}.${name}`, depth: depth + 1 });
    }
  }
  return null;
}

/** With the flag `u` the class matches only surrogates that stand alone. */
const isStorable = (text: string): boolean => !text.includes('\0') && !/\p{Surrogate}/u.test(text);
