import { secretValues } from '../secrets/service';
import { contextHeaders } from './context';
import type { ToolContext } from './context';
import { authPlace, headerPlace, hiddenHeaders } from './headers';
import { toolLiterals } from './literals';
import type { Auth, Guarded } from './models';
import type { CallOutcome, ToolCallError } from './outcome';
import { redactionOf } from './redaction';
import type { Redaction } from './redaction';
import type { ToolSnapshot } from './snapshot';
import {
  FillError,
  MissingContextError,
  fillHeader,
  fillUrl,
  isHeaderValue,
  parseCredential,
  parseHeader,
  parseUrl,
  piecesOf,
  secretIdsOf,
} from './templates';

/** The values that the templates of one call take, read anew for it. They go into that call and nowhere else. */
export interface Credentials {
  secrets: ReadonlyMap<string, string>;
  /** Credentials written out in headers, by header name. */
  headers: ReadonlyMap<string, string>;
  /** Those of `execute.auth`, by field. */
  auth: ReadonlyMap<string, string>;
}

/** What is called: the http call of a tool, or its MCP server. */
interface Called {
  kind: 'execute' | 'mcp';
  url: string;
  headers: Record<string, Guarded>;
  auth: Auth | null;
}

const calledOf = ({ execute, mcp }: Pick<ToolSnapshot, 'execute' | 'mcp'>): Called | null => {
  if (execute !== null)
    return { kind: 'execute', url: execute.url, headers: execute.headers, auth: execute.auth ?? null };
  return mcp == null ? null : { kind: 'mcp', url: mcp.url, headers: mcp.headers, auth: null };
};

/** The fields of `auth` that hold a credential. */
const authFields = (auth: Auth | null): [string, Guarded][] => {
  if (auth === null) return [];
  if (auth.type === 'gcp_service_account') return [['credentials', auth.credentials]];
  const { access_key_id, secret_access_key, session_token: token } = auth;
  return [
    ...Object.entries({ access_key_id, secret_access_key }),
    ...(token === undefined ? [] : [['session_token', token] satisfies [string, Guarded]]),
  ];
};

/** The secrets that the templates of a tool name, those of inline tools in its steps included; each once. */
export function secretsNamedBy({
  execute,
  mcp,
  pipeline,
}: Pick<ToolSnapshot, 'execute' | 'mcp' | 'pipeline'>): string[] {
  const called = calledOf({ execute, ...(mcp === undefined ? {} : { mcp }) });
  const own = called === null ? [] : secretIdsOf(templatePieces(called));
  const inSteps = (pipeline?.steps ?? []).flatMap(({ tool }) =>
    tool === undefined ? [] : secretsNamedBy({ execute: tool.execute ?? null, mcp: tool.mcp ?? null }),
  );
  return [...new Set([...own, ...inSteps])];
}

/** The secrets that the templates of a tool name and the credentials written out in it, or what of them is missing. */
export async function credentialsOf(tool: ToolSnapshot, projectId: string): Promise<Credentials | { missing: string }> {
  const called = calledOf(tool);
  if (called === null) return { secrets: new Map(), headers: new Map(), auth: new Map() };
  const ids = secretIdsOf(templatePieces(called));
  const secrets = await secretValues(projectId, ids);
  const missing = ids.find((id) => !secrets.has(id));
  if (missing !== undefined) return { missing: `The secret ${missing}` };
  const hidden = {
    headers: hiddenHeaders(called.headers),
    auth: authFields(called.auth).flatMap(([field, value]) => (typeof value === 'string' ? [] : [field])),
  };
  if (hidden.headers.length + hidden.auth.length === 0) return { secrets, headers: new Map(), auth: new Map() };
  const literals = (await toolLiterals(projectId, tool)) ?? new Map<string, string>();
  const within = tool.literalsAt ?? '';
  // Rows of an earlier build keep a header's credential by the header's name alone.
  const headers = new Map(
    hidden.headers.map((name) => [name, literals.get(headerPlace(within, called.kind, name)) ?? literals.get(name)]),
  );
  const auth = new Map(hidden.auth.map((field) => [field, literals.get(authPlace(within, field))]));
  const gone =
    keyWithoutValue(headers, 'The credential of the header') ?? keyWithoutValue(auth, 'The credential of auth');
  if (gone !== null) return { missing: gone };
  return { secrets, headers: headers as Map<string, string>, auth: auth as Map<string, string> };
}

function templatePieces({ url, headers, auth }: Called) {
  const texts = (values: Guarded[]): string[] => values.filter((value) => typeof value === 'string');
  return [
    ...piecesOf(parseUrl(url)),
    ...texts(Object.values(headers)).flatMap(parseHeader),
    ...texts(authFields(auth).map(([, value]) => value)).flatMap(parseCredential),
  ];
}

function keyWithoutValue(values: ReadonlyMap<string, string | undefined>, what: string): string | null {
  for (const [key, value] of values) if (value === undefined) return `${what} ${key}`;
  return null;
}

/** A redaction of everything secret in a call; a target may echo a credential without its scheme: `Bearer x` is also `x`. */
export const redactionFor = ({ secrets, headers, auth }: Credentials, more: string[] = []): Redaction =>
  redactionOf([
    ...secrets.values(),
    ...[...headers.values()].flatMap((value) => [value, value.slice(value.indexOf(' ') + 1)]),
    ...auth.values(),
    ...more,
  ]);

/** Name as it goes out, and value, by the name in lower case. */
export type HeaderMap = Map<string, [name: string, value: string]>;

/**
 * The configured headers of a call, filled, and after them those of its tool context.
 * @throws FillError, MissingContextError
 */
export function filledHeaders(
  tool: ToolSnapshot,
  { secrets, headers: literals }: Credentials,
  context: ToolContext,
): HeaderMap {
  const headers: HeaderMap = new Map([['user-agent', ['User-Agent', 'svc-tools/1']]]);
  for (const [name, value] of Object.entries(calledOf(tool)?.headers ?? {})) {
    const filled =
      typeof value === 'string' ? fillHeader(name, value, { secrets, context }) : (literals.get(name) ?? '');
    headers.set(name.toLowerCase(), [name, filled]);
  }
  for (const [name, value] of Object.entries(contextHeaders(context, tool.contextKeys))) {
    if (!isHeaderValue(value)) throw new FillError(`the header ${name} would hold characters that no header may hold`);
    headers.set(name.toLowerCase(), [name, value]);
  }
  return headers;
}

/** Headers as the outbound client takes them. */
export const plainHeaders = (headers: HeaderMap): Record<string, string> => Object.fromEntries(headers.values());

/** The error outcome of a call; names the tool, and for http calls method and template of the URL. */
export function failedCall(
  tool: ToolSnapshot,
  facts: Omit<ToolCallError, 'name' | 'method' | 'url'>,
  retryable = false,
): Extract<CallOutcome, { kind: 'error' }> {
  const called = calledOf(tool);
  const method = tool.execute?.method ?? (called === null ? undefined : 'POST');
  return {
    kind: 'error',
    error: { name: tool.name, ...(called === null ? {} : { method, url: called.url }), ...facts },
    retryable,
  };
}

/** The error outcome of what a template could not be filled with; throws any other error on. */
export function failedFill(tool: ToolSnapshot, error: unknown): Extract<CallOutcome, { kind: 'error' }> {
  if (error instanceof FillError) return failedCall(tool, { code: 'VALIDATION_FAILED', message: error.message });
  if (error instanceof MissingContextError) {
    const { key, place, message } = error;
    return failedCall(tool, { code: 'MISSING_TOOL_CONTEXT_KEY', message, meta: { key, place } });
  }
  throw error;
}

/** Where an MCP server is asked, with secrets as they are now. */
export interface McpEndpoint {
  url: string;
  headers: Record<string, string>;
  redaction: Redaction;
}

/** The filled address and headers of an mcp tool's server, or why it cannot be called. */
export async function mcpEndpoint(
  tool: ToolSnapshot,
  projectId: string,
  context: ToolContext,
): Promise<{ kind: 'ready'; endpoint: McpEndpoint } | Extract<CallOutcome, { kind: 'error' }>> {
  const found = await credentialsOf(tool, projectId);
  if ('missing' in found)
    return failedCall(tool, { code: 'SECRET_NOT_FOUND', message: `${found.missing} is not there` });
  try {
    const { url } = fillUrl(parseUrl(tool.mcp?.url ?? ''), { args: {}, secrets: found.secrets });
    const headers = plainHeaders(filledHeaders(tool, found, context));
    return { kind: 'ready', endpoint: { url, headers, redaction: redactionFor(found) } };
  } catch (error) {
    return failedFill(tool, error);
  }
}
