import { isTransportHeader } from '../core/http';
import type { Guarded } from './models';
import { isHeaderValue, parseHeader } from './templates';

const HEADERS_MAX = 64;
const VALUE_CHARACTERS_MAX = 8192;
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$/;
const CREDENTIAL = /^(authorization|cookie)$|api-key|token|secret|password/i;

/** What is wrong with the headers of a tool, each with the header's name; no problem means that they can be sent. */
export function headerProblems(headers: Record<string, string>): { name: string; message: string }[] {
  const names = Object.keys(headers);
  if (names.length > HEADERS_MAX) return [{ name: '', message: `must be at most ${String(HEADERS_MAX)} headers` }];
  const seen = new Set<string>();
  return Object.entries(headers).flatMap(([name, value]) => {
    const message = problemOf(name, value, seen);
    return message === null ? [] : [{ name, message }];
  });
}

function problemOf(name: string, value: string, seen: Set<string>): string | null {
  const folded = name.toLowerCase();
  if (!NAME.test(name)) return 'is not a name that a header may have';
  if (isTransportHeader(folded)) return 'is set by the transport and cannot be configured';
  if (seen.has(folded)) return 'stands twice';
  seen.add(folded);
  if (value.length > VALUE_CHARACTERS_MAX) return `must have at most ${String(VALUE_CHARACTERS_MAX)} characters`;
  return isHeaderValue(value) ? null : 'holds characters that no header may hold';
}

/**
 * Parts headers into what is stored in the open and the credentials written out in them, which are stored encrypted.
 * A value that takes its credential from a secret holds a token only, and stays.
 */
export function partHeaders(headers: Record<string, string>): {
  open: Record<string, Guarded>;
  literals: Record<string, string>;
} {
  const literals = Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => CREDENTIAL.test(name) && value !== '' && isLiteral(value)),
  );
  const open = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      Object.hasOwn(literals, name) ? { no_echo: true as const } : value,
    ]),
  );
  return { open, literals };
}

const isLiteral = (value: string): boolean => parseHeader(value).every((piece) => piece.kind === 'text');

/** Where the credential of a header is kept among a tool's literals; no name of a header holds a colon. */
export const headerPlace = (within: string, kind: 'execute' | 'mcp', name: string): string =>
  `${within}${kind}.headers:${name}`;

/** Where a credential of `execute.auth` is kept. */
export const authPlace = (within: string, field: string): string => `${within}execute.auth:${field}`;

/** Where the literals of a step's inline tool begin. */
export const stepPlace = (stepId: string): string => `steps/${stepId}/`;

/** Names of the headers whose value is not in the open. */
export const hiddenHeaders = (headers: Record<string, Guarded>): string[] =>
  Object.entries(headers)
    .filter(([, value]) => typeof value !== 'string')
    .map(([name]) => name);
