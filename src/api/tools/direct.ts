import { ApiError, invalidInput, notFound } from '../core/errors';
import type { ErrorExtra } from '../core/errors';
import { ProgramsBusyError } from '../core/programs';
import { randomText } from '../core/random';
import type { ProjectAccess } from '../core/route';
import { assertRunnable } from '../projects/service';
import { takeRun } from '../plans/runs';
import { callTool } from './call';
import { toolContextOf } from './context';
import type { ToolContext } from './context';
import { isAllowed } from './mcp';
import type { ToolCallError } from './outcome';
import { findSnapshot } from './resolve';
import type { ToolSnapshot } from './snapshot';

export interface DirectCall {
  project: ProjectAccess;
  toolId: string;
  input: Record<string, unknown>;
  action: string | undefined;
  toolContext: ToolContext | undefined;
}

/** Codes of calls that were not made, but for those that say otherwise: such a call is no run of the plan. */
const REFUSALS = new Set<string>([
  'VALIDATION_FAILED',
  'SECRET_NOT_FOUND',
  'MISSING_TOOL_CONTEXT_KEY',
  'TOOL_EGRESS_BLOCKED',
  'TOOL_CALL_NOT_SUPPORTED',
]);

/**
 * Calls a tool for a caller of the API and answers what it gave, null when nothing; runs in the request. Not repeatable:
 * each call reaches the target with an idempotency key of its own. Spec: Tools, direct call answers.
 * @throws not_found, PROJECT_PAUSED, PROJECT_ARCHIVED, plan_limit_reached, INVALID_TOOL_CONTEXT_KEY, and the codes of a failed call
 */
export async function callDirectly({ project, toolId, input, action, toolContext }: DirectCall): Promise<unknown> {
  const context = toolContextOf(toolContext);
  const tool = await findSnapshot(project.id, toolId);
  if (tool === null) throw notFound();
  assertRunnable(project);
  assertAction(tool, action);
  const giveBack = await takeRun({ projectId: project.id, ownerUserId: project.ownerUserId });
  const outcome = await callTool({
    tool: { ...tool, remoteName: action ?? null },
    projectId: project.id,
    args: input,
    toolContext: context,
    idempotencyKey: randomText(32),
    // The call goes on when its caller hangs up: the target may have acted already.
    signal: new AbortController().signal,
  }).catch(async (error: unknown) => {
    if (error instanceof ProgramsBusyError) await giveBack();
    throw error;
  });
  if (outcome.kind === 'error') {
    if (REFUSALS.has(outcome.error.code) && outcome.error.made !== true) await giveBack();
    throw apiErrorOf(outcome.error);
  }
  return outcome.value ?? null;
}

/**
 * A tool as one call of it needs it, for calls that are made later. Of an mcp tool it is one remote tool.
 * @throws TOOL_NOT_FOUND, TOOL_CALL_NOT_SUPPORTED, VALIDATION_FAILED
 */
export async function toolOf(
  projectId: string,
  { toolId, action, path }: { toolId: string; action: string | undefined; path: string },
): Promise<ToolSnapshot> {
  const tool = await findSnapshot(projectId, toolId);
  if (tool === null) {
    throw new ApiError('TOOL_NOT_FOUND', `${path}.tool_id names no tool of this project.`, {
      details: [{ path: `${path}.tool_id`, message: 'names no tool of this project' }],
    });
  }
  if (tool.type === 'client') {
    throw new ApiError('TOOL_CALL_NOT_SUPPORTED', `${path}.tool_id names a client tool, which is not called here.`);
  }
  assertAction(tool, action, `${path}.action`);
  return { ...tool, remoteName: action ?? null };
}

/** Of an mcp tool one remote tool is called; the others have no actions. */
function assertAction(tool: ToolSnapshot, action: string | undefined, path = 'action'): void {
  const { type } = tool;
  if (type === 'mcp' && action === undefined) {
    throw invalidInput('VALIDATION_FAILED', path, 'is required for an mcp tool: the remote tool to call');
  }
  if (type === 'mcp' && action !== undefined && !isAllowed(tool, action)) {
    throw invalidInput('VALIDATION_FAILED', path, 'is not one that this tool allows');
  }
  if (action !== undefined && (type === 'http' || type === 'pipeline')) {
    throw invalidInput('VALIDATION_FAILED', path, 'is for mcp tools only');
  }
}

/** The refusal that a caller sees of a failed call: its code with the facts of that code. */
export function apiErrorOf(error: ToolCallError): ApiError {
  return new ApiError(error.code, `${error.message}.`, factsOf(error));
}

/** The facts of a failed call, as its code has them. */
export function factsOf({ code, message, at = 'input', ...error }: ToolCallError): ErrorExtra {
  const meta = Object.fromEntries(
    Object.entries({
      tool_status_code: error.status,
      tool_response_body: error.body,
      tool_url: error.url,
      tool_method: code === 'TOOL_EGRESS_BLOCKED' ? undefined : error.method,
      tool_address: error.address,
      ...error.meta,
    }).filter(([, value]) => value !== undefined),
  );
  if (code === 'VALIDATION_FAILED') return { details: [{ path: at, message }] };
  return Object.keys(meta).length === 0 ? {} : { meta };
}
