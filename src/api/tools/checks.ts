import type { Tx } from '../core/db';
import { query } from '../core/db';
import { ApiError, invalidInput } from '../core/errors';
import { isId } from '../core/ids';
import { ProgramLimitError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { missingSecrets } from '../secrets/service';
import { assertContextKeys } from './context';
import { assertPresets } from './execute';
import { assertMapping } from './mapping';
import type { ToolType } from './models';
import { assertPipeline } from './pipeline';
import type { ExecuteFields, StepToolFields, McpFields, PipelineFields } from './fields';

/** The fields of a tool that its type, a schema or a program of the tenant has a say in. */
export interface ToolFields {
  name: string;
  description: string | null;
  parameters: Record<string, unknown> | null;
  execute: ExecuteFields | null;
  mcp: McpFields | null;
  actions: string[] | null;
  deniedActions: string[] | null;
  presetParameters: Record<string, unknown> | null;
  contextKeys: string[] | null;
  pipeline: PipelineFields | null;
  outputMapping: unknown;
  guardrailIds: string[] | null;
}

/** What of a tool decides whether its fields fit its type: null = it is not set. */
export interface Fitting {
  parameters: unknown;
  execute: unknown;
  mcp: unknown;
  pipeline: unknown;
  actions: unknown;
  deniedActions: unknown;
}

/** Names as the caller writes them, and the types whose tools must, or may, have the field. */
const fittings: [keyof Fitting, string, { needed: ToolType[]; allowed: ToolType[] }][] = [
  ['parameters', 'parameters', { needed: ['http', 'client'], allowed: ['http', 'client', 'mcp', 'pipeline'] }],
  ['execute', 'execute', { needed: ['http'], allowed: ['http'] }],
  ['mcp', 'mcp', { needed: ['mcp'], allowed: ['mcp'] }],
  ['pipeline', 'pipeline', { needed: ['pipeline'], allowed: ['pipeline'] }],
  ['actions', 'actions', { needed: [], allowed: ['mcp'] }],
  ['deniedActions', 'denied_actions', { needed: [], allowed: ['mcp'] }],
];

/**
 * A tool has what its type needs and nothing that its type does not know. `prefix` is where it stands in the input.
 * @throws VALIDATION_FAILED naming the field
 */
export function assertFits(type: ToolType, given: Fitting, prefix = ''): void {
  for (const [field, shown, { needed, allowed }] of fittings) {
    const isSet = given[field] !== null && given[field] !== undefined;
    const path = prefix + shown;
    if (!isSet && needed.includes(type)) throw invalidInput('VALIDATION_FAILED', path, `is required for ${type} tools`);
    if (isSet && !allowed.includes(type))
      throw invalidInput('VALIDATION_FAILED', path, `must be null for ${type} tools`);
  }
}

/**
 * Checks the given fields that need no look at the database; schemas and programs of the tenant are tried out. To be
 * called before a transaction is open. `prefix` is where they stand in the input.
 * @throws VALIDATION_FAILED, GUARDRAIL_NOT_FOUND, INVALID_TOOL_CONTEXT_KEY, INVALID_TEMPLATE_TOKEN, PIPELINE_INVALID_STEP
 */
export async function assertContent(given: Partial<ToolFields>, prefix = ''): Promise<void> {
  assertNoGuardrails(given.guardrailIds ?? null, `${prefix}guardrail_ids`);
  assertContextKeys(given.contextKeys ?? [], `${prefix}context_keys`);
  assertPresets(given.presetParameters, `${prefix}preset_parameters`);
  if (given.parameters != null) await assertParameters(given.parameters, `${prefix}parameters`);
  if (given.outputMapping != null) await assertMapping(`${prefix}output_mapping`, given.outputMapping);
  if (given.pipeline == null) return;
  for (const [index, { tool }] of given.pipeline.steps.entries()) {
    if (tool !== undefined) await assertInline(tool, `${prefix}pipeline.steps.${String(index)}.tool`);
  }
  await assertPipeline(given.pipeline, `${prefix}pipeline`);
}

/**
 * Checks what a tool names, and holds it until the transaction ends. `prefix` is where the tool stands in the input.
 * @throws SECRET_NOT_FOUND, TOOL_NOT_FOUND, PIPELINE_INVALID_STEP
 */
export async function assertNamed(
  projectId: string,
  { secretIds, mcp, pipeline }: { secretIds: string[]; mcp: unknown; pipeline: { steps: StepReference[] } | null },
  tx: Tx,
  prefix = '',
): Promise<void> {
  const field = mcp !== null ? 'mcp' : pipeline !== null ? 'pipeline' : 'execute';
  await assertSecrets(projectId, { secretIds, path: prefix + field }, tx);
  await assertStepTools(projectId, { steps: pipeline?.steps ?? [], at: `${prefix}pipeline.steps` }, tx);
}

interface StepReference {
  tool_id?: string | undefined;
  action?: string | undefined;
}

const invalidStep = (path: string, message: string): ApiError =>
  new ApiError('PIPELINE_INVALID_STEP', `${path} ${message}.`, { details: [{ path, message }] });

/** Inline tools are held to what tools are; only their names and schemas may be left out. */
async function assertInline(tool: StepToolFields, path: string): Promise<void> {
  if (tool.type === 'client' || tool.type === 'pipeline') {
    throw invalidStep(`${path}.type`, `cannot be ${tool.type}: a step runs http and mcp tools`);
  }
  const { parameters = null, execute, mcp, actions, denied_actions: deniedActions } = tool;
  assertFits(
    tool.type,
    { parameters: parameters ?? {}, execute, mcp, pipeline: null, actions, deniedActions },
    `${path}.`,
  );
  assertContextKeys(tool.context_keys ?? [], `${path}.context_keys`);
  if (parameters !== null) await assertParameters(parameters, `${path}.parameters`);
  if (tool.output_mapping != null) await assertMapping(`${path}.output_mapping`, tool.output_mapping);
}

/** A step names a tool of the project that the service runs itself, and on an MCP server also which of its tools. */
async function assertStepTools(
  projectId: string,
  { steps, at }: { steps: StepReference[]; at: string },
  tx: Tx,
): Promise<void> {
  const asked = steps.flatMap(({ tool_id: id }) => (id !== undefined && isId('tool', id) ? [id] : []));
  const rows =
    asked.length === 0
      ? []
      : await query<{ id: string; type: ToolType }>(
          'select id, type from tools where project_id = $1 and id = any($2) order by id for key share',
          [projectId, asked],
          tx,
        );
  const types = new Map(rows.map(({ id, type }) => [id, type]));
  for (const [index, { tool_id: id, action }] of steps.entries()) {
    if (id === undefined) continue;
    const step = `${at}.${String(index)}`;
    const type = types.get(id);
    if (type === undefined) {
      const message = 'names no tool of this project';
      const details = [{ path: `${step}.tool_id`, message }];
      throw new ApiError('TOOL_NOT_FOUND', `${step}.tool_id ${message}.`, { details });
    }
    if (type === 'client') throw invalidStep(`${step}.tool_id`, 'names a client tool, which the service cannot run');
    if (type === 'mcp' && action === undefined) throw invalidStep(`${step}.action`, 'is required for an mcp tool');
  }
}

/** No guardrail exists in this build: an id names none, and an empty list has no place to be kept. */
function assertNoGuardrails(ids: string[] | null, path: string): void {
  if (ids === null) return;
  if (ids.length === 0) throw invalidInput('VALIDATION_FAILED', path, 'is not served by this build');
  throw new ApiError('GUARDRAIL_NOT_FOUND', `${path} names no guardrail of this project.`, {
    details: [{ path: `${path}.0`, message: 'names no guardrail of this project' }],
  });
}

/** The schema must compile, within the bounds of tenants' programs. Spec: Limits, tenant programs. */
async function assertParameters(parameters: Record<string, unknown>, path: string): Promise<void> {
  const compiled = await programs()
    .compileSchema(parameters)
    .catch((error: unknown) => {
      if (error instanceof ProgramLimitError) return { ok: false as const, message: error.message };
      throw error;
    });
  if (!compiled.ok) {
    throw invalidInput('VALIDATION_FAILED', path, `is no schema that can be used: ${compiled.message}`);
  }
}

async function assertSecrets(
  projectId: string,
  { secretIds, path }: { secretIds: string[]; path: string },
  tx: Tx,
): Promise<void> {
  const missing = await missingSecrets(projectId, secretIds, tx);
  if (missing.length === 0) return;
  const message = `names no secret of this project: ${missing.join(', ')}`;
  throw new ApiError('SECRET_NOT_FOUND', `${path} ${message}.`, {
    meta: { secret_ids: missing },
    details: [{ path, message }],
  });
}
