import { decrypt, encrypt } from '../core/encryption';
import type { Encrypted, Place } from '../core/encryption';
import { ApiError, invalidInput } from '../core/errors';
import { authPlace, headerPlace, partHeaders, stepPlace } from './headers';
import type { Auth, Execute, Guarded, InlineTool, Mcp, Pipeline } from './models';
import { presetTexts } from './presets';
import type { AuthFields, ExecuteFields, InlineToolFields, McpFields, PipelineFields } from './schemas';
import { TemplateError, parseCredential, parseHeader, parsePreset, parseUrl, piecesOf, secretIdsOf } from './templates';
import type { Piece } from './templates';

/** How a tool is run; at most one of the three is set, as its type says. */
export interface Target {
  execute: ExecuteFields | null;
  mcp: McpFields | null;
  pipeline: PipelineFields | null;
}

/** What a tool's row keeps of it. */
export interface StoredTarget {
  execute: Execute | null;
  mcp: Mcp | null;
  pipeline: Pipeline | null;
  literalsKeyId: string | null;
  literalsData: Buffer | null;
  secretIds: string[];
}

const placeOf = (toolId: string): Place => ({ table: 'tools', column: 'literals', rowId: toolId });

/** Gathers, while a target is taken apart, what leaves its open form. */
interface Gathered {
  /** By place. */
  literals: Map<string, string>;
  pieces: Piece[];
}

/**
 * What is stored of how a tool is run: templates checked, credentials written out encrypted for that tool.
 * @throws INVALID_TEMPLATE_TOKEN, VALIDATION_FAILED
 */
export function storedTarget(toolId: string, { execute, mcp, pipeline }: Target): StoredTarget {
  const gathered: Gathered = { literals: new Map(), pieces: [] };
  const open = {
    execute: execute === null ? null : openExecute(execute, { path: 'execute', within: '' }, gathered),
    mcp: mcp === null ? null : openMcp(mcp, { path: 'mcp', within: '' }, gathered),
    pipeline: pipeline === null ? null : openPipeline(pipeline, gathered),
  };
  const { literals, pieces } = gathered;
  const hidden = literals.size === 0 ? null : encrypt(JSON.stringify(Object.fromEntries(literals)), placeOf(toolId));
  return {
    ...open,
    literalsKeyId: hidden?.keyId ?? null,
    literalsData: hidden?.data ?? null,
    secretIds: secretIdsOf(pieces),
  };
}

/** The credentials written out in a tool, by place; null when they cannot be read with the keys at hand. */
export function readLiterals(toolId: string, { keyId, data }: Encrypted): Map<string, string> | null {
  const text = decrypt({ keyId, data }, placeOf(toolId));
  return text === null ? null : new Map(Object.entries(JSON.parse(text) as Record<string, string>));
}

/** The texts of presets may take the context and nothing else. @throws INVALID_TEMPLATE_TOKEN */
export function assertPresets(presets: Record<string, unknown> | null | undefined, path: string): void {
  for (const { place, text } of presetTexts(presets ?? {}, path)) at(place, () => parsePreset(text));
}

/** `path` names a field to the caller; `within` is where the literals of an inline tool stand. */
interface Spot {
  path: string;
  within: string;
}

function openExecute(given: ExecuteFields, spot: Spot, gathered: Gathered): Execute {
  gathered.pieces.push(...at(`${spot.path}.url`, () => piecesOf(parseUrl(given.url))));
  return {
    url: given.url,
    method: given.method,
    headers: openHeaders(given.headers, { ...spot, kind: 'execute' }, gathered),
    body_mode: given.body_mode,
    timeout_seconds: given.timeout_seconds,
    auth: given.auth === null ? null : openAuth(given.auth, spot, gathered),
  };
}

function openMcp(given: McpFields, spot: Spot, gathered: Gathered): Mcp {
  const pieces = at(`${spot.path}.url`, () => piecesOf(parseUrl(given.url)));
  if (pieces.some((piece) => piece.kind === 'argument')) {
    throw refusedToken(`${spot.path}.url`, 'an MCP server has no arguments that could stand in its URL');
  }
  gathered.pieces.push(...pieces);
  return { url: given.url, headers: openHeaders(given.headers, { ...spot, kind: 'mcp' }, gathered) };
}

function openHeaders(
  given: Record<string, string>,
  { path, within, kind }: Spot & { kind: 'execute' | 'mcp' },
  gathered: Gathered,
): Record<string, Guarded> {
  for (const [name, value] of Object.entries(given)) {
    gathered.pieces.push(...at(`${path}.headers.${name}`, () => parseHeader(value)));
  }
  const { open, literals } = partHeaders(given);
  for (const [name, value] of Object.entries(literals)) gathered.literals.set(headerPlace(within, kind, name), value);
  return open;
}

function openAuth(given: AuthFields, { path, within }: Spot, gathered: Gathered): Auth {
  const guarded = (field: string, value: string): Guarded => {
    const pieces = at(`${path}.auth.${field}`, () => parseCredential(value));
    gathered.pieces.push(...pieces);
    if (pieces.some((piece) => piece.kind === 'secret')) return value;
    gathered.literals.set(authPlace(within, field), value);
    return { no_echo: true };
  };
  if (given.type === 'gcp_service_account') {
    return { type: given.type, credentials: guarded('credentials', given.credentials), scopes: given.scopes };
  }
  const { session_token: token } = given;
  return {
    type: given.type,
    region: given.region,
    service: given.service,
    access_key_id: guarded('access_key_id', given.access_key_id),
    secret_access_key: guarded('secret_access_key', given.secret_access_key),
    ...(token === undefined ? {} : { session_token: guarded('session_token', token) }),
  };
}

function openPipeline({ steps, ...rest }: PipelineFields, gathered: Gathered): Pipeline {
  return {
    steps: steps.map(({ tool, ...step }, index) => {
      if (tool === undefined) return step;
      const spot = { path: `pipeline.steps.${String(index)}.tool`, within: stepPlace(step.id) };
      return { ...step, tool: openInline(tool, spot, gathered) };
    }),
    ...rest,
  };
}

function openInline(given: InlineToolFields, { path, within }: Spot, gathered: Gathered): InlineTool {
  assertPresets(given.preset_parameters, `${path}.preset_parameters`);
  const { execute, mcp, ...rest } = given;
  return {
    ...rest,
    ...(execute == null ? {} : { execute: openExecute(execute, { path: `${path}.execute`, within }, gathered) }),
    ...(mcp == null ? {} : { mcp: openMcp(mcp, { path: `${path}.mcp`, within }, gathered) }),
  };
}

const refusedToken = (path: string, message: string): ApiError =>
  new ApiError('INVALID_TEMPLATE_TOKEN', `${path}: ${message}.`, { details: [{ path, message }] });

function at(path: string, parse: () => Piece[]): Piece[] {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    if (error.reason !== 'token') throw invalidInput('VALIDATION_FAILED', path, error.message);
    throw refusedToken(path, error.message);
  }
}
