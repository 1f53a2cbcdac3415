import { encrypt } from '../core/encryption';
import { ApiError, invalidInput } from '../core/errors';
import { authPlace, headerPlace, partHeaders, stepPlace } from './headers';
import type { Auth, Execute, Guarded, InlineTool, Mcp, Pipeline } from './models';
import { placeOfTool, textOfLiterals } from './literals';
import { presetTexts } from './presets';
import type { AuthFields, ExecuteFields, StepToolFields, McpFields, PipelineFields } from './fields';
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

/** Gathers, while a target is taken apart, what leaves its open form. */
interface Gathered {
  /** By place. */
  literals: Map<string, string>;
  pieces: Piece[];
}

/** How a tool is run, taken apart into what may be shown and the credentials that were written out in it. */
export interface OpenedTarget extends Pick<StoredTarget, 'execute' | 'mcp' | 'pipeline' | 'secretIds'> {
  /** By place. */
  literals: ReadonlyMap<string, string>;
}

/**
 * Checks the templates of how a tool is run and takes the credentials out. `prefix` is where it stands in the input.
 * @throws INVALID_TEMPLATE_TOKEN, VALIDATION_FAILED
 */
export function openTarget({ execute, mcp, pipeline }: Target, prefix = ''): OpenedTarget {
  const gathered: Gathered = { literals: new Map(), pieces: [] };
  const spot = (field: string): Spot => ({ path: prefix + field, within: '' });
  return {
    execute: execute === null ? null : openExecute(execute, spot('execute'), gathered),
    mcp: mcp === null ? null : openMcp(mcp, spot('mcp'), gathered),
    pipeline: pipeline === null ? null : openPipeline(pipeline, `${prefix}pipeline`, gathered),
    literals: gathered.literals,
    secretIds: secretIdsOf(gathered.pieces),
  };
}

/**
 * What is stored of how a tool is run: templates checked, credentials written out encrypted for that tool.
 * @throws INVALID_TEMPLATE_TOKEN, VALIDATION_FAILED
 */
export function storedTarget(toolId: string, target: Target): StoredTarget {
  const { literals, ...open } = openTarget(target);
  const hidden = literals.size === 0 ? null : encrypt(textOfLiterals(literals), placeOfTool(toolId));
  return { ...open, literalsKeyId: hidden?.keyId ?? null, literalsData: hidden?.data ?? null };
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

function openPipeline({ steps, ...rest }: PipelineFields, path: string, gathered: Gathered): Pipeline {
  return {
    steps: steps.map(({ tool, ...step }, index) => {
      if (tool === undefined) return step;
      const spot = { path: `${path}.steps.${String(index)}.tool`, within: stepPlace(step.id) };
      return { ...step, tool: openInline(tool, spot, gathered) };
    }),
    ...rest,
  };
}

function openInline(given: StepToolFields, { path, within }: Spot, gathered: Gathered): InlineTool {
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
