/**
 * Templates of tools. `{name}` in path and query is replaced by the URL-encoded argument; `{{secret:sec_…}}` in URLs,
 * headers and signing by the secret's value; `{{context:key}}` in headers and presets by the value of the tool context.
 * Substitution is one pass: what was put in is never looked at again. Spec: Tools, http and Templates.
 */

/** One piece of a template. */
export type Piece =
  | { kind: 'text'; text: string }
  | { kind: 'secret'; secretId: string }
  | { kind: 'context'; key: string }
  | { kind: 'argument'; name: string };

/** A URL template in its three regions; a placeholder may stand in the last two only. */
export interface UrlTemplate {
  origin: Piece[];
  path: Piece[];
  query: Piece[];
}

/** Why a template is refused when it is written. */
export class TemplateError extends Error {
  constructor(
    readonly reason: 'token' | 'malformed',
    message: string,
  ) {
    super(message);
  }
}

/** Why a template cannot be filled for a call; the message names the argument or the place, never a value. */
export class FillError extends Error {}

/** A token of the tool context that the call has no value for. */
export class MissingContextError extends Error {
  constructor(
    readonly key: string,
    /** Where the token stands: `headers.X-Tenant`, `preset_parameters.account`. */
    readonly place: string,
  ) {
    super(`The tool context has no ${key}, which ${place} takes`);
  }
}

const SECRET = /^secret:(sec_[0-9A-Za-z]+)$/;
const CONTEXT = /^context:([!#$%&'*+\-.^_`|~0-9A-Za-z]+)$/;
const URL_TOKENS = /\{\{([^{}]*)\}\}|\{([^{}]*)\}|[{}]/g;
const HEADER_TOKENS = /\{\{([^{}]*)\}\}|\{\{/g;
/** How often a text may be percent-decoded before it is refused; no honest argument is encoded that often. */
const DECODINGS_MAX = 8;

/** The pieces of a header's value: secrets and context. @throws TemplateError */
export const parseHeader = (value: string): Piece[] =>
  pieces(value, HEADER_TOKENS, ([whole, token]) => contextPiece(token) ?? secretPiece(whole, token));

/** The pieces of a credential of `execute.auth`: secrets alone. @throws TemplateError */
export const parseCredential = (value: string): Piece[] =>
  pieces(value, HEADER_TOKENS, ([whole, token]) => secretPiece(whole, token));

/** The pieces of a text of the presets: context; the token of a secret is text there. @throws TemplateError */
export const parsePreset = (value: string): Piece[] =>
  pieces(value, HEADER_TOKENS, ([whole, token]) => {
    if (token !== undefined && SECRET.test(token)) return { kind: 'text', text: whole };
    const found = contextPiece(token);
    if (found === null) throw new TemplateError('token', `${whole} is no token of a template here`);
    return found;
  });

/** The regions of a URL template. @throws TemplateError */
export function parseUrl(url: string): UrlTemplate {
  const found = pieces(url, URL_TOKENS, ([whole, token, name]) => {
    if (name !== undefined && name !== '') return { kind: 'argument', name };
    return secretPiece(whole, token);
  });
  const [origin, rest] = splitAt(found, /(?<=^https?:\/\/[^/?]*)[/?]/);
  const [path, query] = splitAt(rest, /\?/);
  const misplaced = origin.find((piece) => piece.kind === 'argument');
  if (misplaced !== undefined) {
    throw new TemplateError('token', `the placeholder {${misplaced.name}} stands outside path and query`);
  }
  assertWellFormed(found);
  return { origin, path, query };
}

function pieces(text: string, tokens: RegExp, made: (match: RegExpMatchArray) => Piece): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(tokens)) {
    if (match.index > end) found.push({ kind: 'text', text: text.slice(end, match.index) });
    found.push(made(match));
    end = match.index + match[0].length;
  }
  if (end < text.length) found.push({ kind: 'text', text: text.slice(end) });
  return found;
}

function contextPiece(token: string | undefined): Piece | null {
  const key = CONTEXT.exec(token ?? '')?.[1];
  return key === undefined ? null : { kind: 'context', key };
}

function secretPiece(whole: string, token: string | undefined): Piece {
  const secretId = SECRET.exec(token ?? '')?.[1];
  if (secretId === undefined) throw new TemplateError('token', `${whole} is no token of a template here`);
  return { kind: 'secret', secretId };
}

/** The URL with every token replaced by a letter must be one that can be called. */
function assertWellFormed(found: Piece[]): void {
  const sample = found.map((piece) => (piece.kind === 'text' ? piece.text : 'x')).join('');
  // The parser of URLs drops tabs and newlines and reads a backslash as a slash: such a text is not what it looks like.
  if (
    found[0]?.kind !== 'text' ||
    !/^https?:\/\/[^/?#]/.test(sample) ||
    /[\s\0\\]/.test(sample) ||
    !URL.canParse(sample)
  ) {
    throw new TemplateError('malformed', 'must be an absolute http or https URL');
  }
  const url = new URL(sample);
  if (url.username !== '' || url.password !== '' || sample.includes('#')) {
    throw new TemplateError('malformed', 'must hold neither user information nor a fragment');
  }
}

/** Cuts a list of pieces before the first text that matches; the match itself begins the second half. */
function splitAt(found: Piece[], border: RegExp): [Piece[], Piece[]] {
  let before = '';
  for (const [index, piece] of found.entries()) {
    if (piece.kind !== 'text') {
      before += 'x';
      continue;
    }
    const at = (before + piece.text).search(border) - before.length;
    if (at >= 0) {
      const head = at === 0 ? [] : [{ kind: 'text' as const, text: piece.text.slice(0, at) }];
      return [
        [...found.slice(0, index), ...head],
        [{ kind: 'text', text: piece.text.slice(at) }, ...found.slice(index + 1)],
      ];
    }
    before += piece.text;
  }
  return [found, []];
}

/** The secrets a template names, each once. */
export const secretIdsOf = (found: Piece[]): string[] => [
  ...new Set(found.flatMap((piece) => (piece.kind === 'secret' ? [piece.secretId] : []))),
];

/** All pieces of a URL template. */
export const piecesOf = ({ origin, path, query }: UrlTemplate): Piece[] => [...origin, ...path, ...query];

/** What a template is filled with. Every secret it names must be in the map. */
export interface Filling {
  args: Record<string, unknown>;
  secrets: ReadonlyMap<string, string>;
}

/** What a header, which takes no argument, is filled with. */
export interface HeaderFilling {
  secrets: ReadonlyMap<string, string>;
  /** The whole tool context of the call. */
  context: Readonly<Record<string, string>>;
}

/** A header's value. @throws FillError when it cannot stand in a header, MissingContextError */
export function fillHeader(name: string, value: string, { secrets, context }: HeaderFilling): string {
  const filled = parseHeader(value)
    .map((piece) => filledPiece(piece, { secrets, context }, `headers.${name}`))
    .join('');
  if (!isHeaderValue(filled)) throw new FillError(`the header ${name} would hold characters that no header may hold`);
  return filled;
}

/** A credential of `execute.auth`. @throws FillError */
export const fillCredential = (value: string, secrets: ReadonlyMap<string, string>): string =>
  parseCredential(value)
    .map((piece) => filledPiece(piece, { secrets, context: {} }, 'auth'))
    .join('');

/** A text of the presets, and whether a token stood in it. @throws MissingContextError */
export function fillPreset(
  value: string,
  context: Readonly<Record<string, string>>,
  place: string,
): { text: string; filled: boolean } {
  const found = parsePreset(value);
  const text = found.map((piece) => filledPiece(piece, { secrets: new Map(), context }, place)).join('');
  return { text, filled: found.some((piece) => piece.kind === 'context') };
}

function filledPiece(piece: Piece, { secrets, context }: HeaderFilling, place: string): string {
  if (piece.kind === 'text') return piece.text;
  if (piece.kind !== 'context') return valueOf(piece, { args: {}, secrets });
  const value = Object.hasOwn(context, piece.key) ? context[piece.key] : undefined;
  if (value === undefined) throw new MissingContextError(piece.key, place);
  return value;
}

/** Whether a text may stand in a header: printable Latin-1 and tabs. */
export const isHeaderValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text);

/**
 * The URL of a call and the arguments that it did not use.
 * @throws FillError naming a placeholder without an argument, or whose argument makes a `.` or `..` segment
 */
export function fillUrl(template: UrlTemplate, filling: Filling): { url: string; rest: Record<string, unknown> } {
  const origin = template.origin.map((piece) => originText(piece, filling)).join('');
  const path = filledPath(template.path, filling);
  const query = template.query
    .map((piece) => (piece.kind === 'text' ? piece.text : encoded(valueOf(piece, filling))))
    .join('');
  const url = origin + path + query;
  if (!URL.canParse(url)) throw new FillError('the URL is not one that can be called');
  const used = new Set(piecesOf(template).flatMap((piece) => (piece.kind === 'argument' ? [piece.name] : [])));
  return { url, rest: Object.fromEntries(Object.entries(filling.args).filter(([name]) => !used.has(name))) };
}

/** A secret may be a host or a part of one, but it may not end the host: the rest of the URL would move. */
function originText(piece: Piece, filling: Filling): string {
  if (piece.kind === 'text') return piece.text;
  const value = valueOf(piece, filling);
  if (!/^[\w.:[\]-]+$/.test(value))
    throw new FillError('the secret in the host of the URL holds characters that no host has');
  return value;
}

/** Slashes of a secret stay, since a secret may be several segments; an argument is always within one. */
function filledPath(path: Piece[], filling: Filling): string {
  let text = '';
  const spans: { name: string; at: number }[] = [];
  for (const piece of path) {
    if (piece.kind === 'argument') spans.push({ name: piece.name, at: text.length });
    if (piece.kind === 'text') text += piece.text;
    else if (piece.kind === 'secret') text += valueOf(piece, filling).split('/').map(encoded).join('/');
    else text += encoded(valueOf(piece, filling));
  }
  for (const { name, at } of spans) {
    const end = text.indexOf('/', at);
    const segment = text.slice(text.lastIndexOf('/', at - 1) + 1, end === -1 ? undefined : end);
    if (climbs(segment)) throw new FillError(`the argument ${name} makes a path segment of dots`);
  }
  return text;
}

/** Whether a path segment, decoded as often as anyone might, is or holds a `.` or `..` segment. */
export function climbs(segment: string): boolean {
  let text = segment;
  for (let round = 0; round < DECODINGS_MAX; round += 1) {
    if (text.split(/[/\\]/).some((part) => /^\.{1,2}$/.test(part.split(';')[0] ?? ''))) return true;
    const decoded = text.replace(/%([0-9a-fA-F]{2})/g, (_whole, hex: string) => String.fromCharCode(parseInt(hex, 16)));
    if (decoded === text) return false;
    text = decoded;
  }
  return true;
}

function valueOf(piece: Exclude<Piece, { kind: 'text' }>, { args, secrets }: Filling): string {
  // No URL takes one: a template with such a token is refused when it is written.
  if (piece.kind === 'context') throw new FillError(`the context ${piece.key} cannot stand there`);
  if (piece.kind === 'secret') {
    const value = secrets.get(piece.secretId);
    if (value === undefined) throw new FillError(`the secret ${piece.secretId} is not there`);
    return value;
  }
  const value = Object.hasOwn(args, piece.name) ? args[piece.name] : undefined;
  if (value === undefined || value === null) throw new FillError(`the argument ${piece.name} is missing`);
  return argumentText(value);
}

/** An argument as text: scalars as they are, other values as JSON. */
export const argumentText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : JSON.stringify(value);

/** Percent-encoded; halves of a character pair, which have no encoding, become the replacement character. */
export const encoded = (text: string): string => encodeURIComponent(Buffer.from(text).toString());
