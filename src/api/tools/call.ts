import { outbound } from '../core/outbound';
import { ProgramsBusyError } from '../core/programs';
import type { ToolContext } from './context';
import { dispatchHttp } from './dispatch';
import { failedCall, failedFill, mcpEndpoint } from './filling';
import { applyMapping } from './mapping';
import { callMcp, isAllowed } from './mcp';
import { listMcpTools } from './mcp-list';
import { McpFailure } from './mcp-session';
import { measuredCall } from './measured';
import { TOO_BUSY } from './outcome';
import type { CallOutcome } from './outcome';
import { runPipeline } from './pipeline-run';
import { filledPresets, takesContext } from './presets';
import { validateArguments } from './resolve';
import type { ToolSnapshot } from './snapshot';

/** One call of a tool of any type. */
export interface ToolCall {
  /** As the turn resolved it; of a direct call or a step, as its row stands now. An mcp tool with its `remoteName`. */
  tool: ToolSnapshot;
  projectId: string;
  /** As the model or the caller gave them: presets are put in here. */
  args: Record<string, unknown>;
  /** Of `toolContextOf`: checked, with what the service sets itself. */
  toolContext: ToolContext;
  /** Reaches the target as its `Idempotency-Key`; steps of a pipeline derive theirs from it. */
  idempotencyKey: string;
  signal: AbortSignal;
  /** How many pipelines the call stands in, its own included; 1 where nothing else runs it. */
  depth?: number;
}

/** Arguments that may be sent, or why there are none. */
export type Prepared = { kind: 'ready'; args: Record<string, unknown> } | Extract<CallOutcome, { kind: 'error' }>;

/**
 * Calls a tool of any type but client: presets, check of the arguments, the call itself, output mapping. What comes back
 * holds no credential. Safe to repeat only where the outcome says `retryable`. Spec: Tools.
 * @throws ProgramsBusyError before anything was sent; OutboundError of kind `aborted` when `signal` ended the call
 */
export const callTool = (call: ToolCall): Promise<CallOutcome> => measuredCall(call.tool, () => makeCall(call));

async function makeCall(call: ToolCall): Promise<CallOutcome> {
  if (call.tool.type === 'client') {
    const message = 'A client tool is answered by the caller of a generation and cannot be called';
    return failedCall(call.tool, { code: 'TOOL_CALL_NOT_SUPPORTED', message });
  }
  const tool = await typed(call);
  const prepared = await prepareArguments(tool, call.args, call.toolContext);
  if (prepared.kind === 'error') return prepared;
  const outcome = await dispatch({ ...call, tool, args: prepared.args });
  if (outcome.kind === 'error') return outcome;
  return mapOutput(tool, { output: outcome.value, input: prepared.args }).catch((error: unknown) => {
    // The call was made: it must not look like one that may be asked for again.
    if (error instanceof ProgramsBusyError) return unmapped(tool, TOO_BUSY);
    throw error;
  });
}

/**
 * The arguments as they are sent: presets win over what was given, and the whole fits the declared schema. Client tools
 * are asked with these arguments too.
 * @throws ProgramsBusyError when too many checks wait; asking again is safe
 */
export async function prepareArguments(
  tool: ToolSnapshot,
  given: Record<string, unknown>,
  context: ToolContext,
): Promise<Prepared> {
  const declared = tool.declared ?? tool.parameters;
  let args = given;
  try {
    if (tool.presets != null) args = { ...given, ...filledPresets(tool.presets, context, declared) };
  } catch (error) {
    return failedFill(tool, error);
  }
  const problem = await validateArguments(declared, args);
  if (problem === null) return { kind: 'ready', args };
  return failedCall(tool, { code: 'VALIDATION_FAILED', message: problem });
}

/** The result as model, caller and transcript see it; of a client tool, of what was submitted. */
export async function mapOutput(
  tool: ToolSnapshot,
  data: { output: unknown; input: Record<string, unknown> },
): Promise<CallOutcome> {
  if (tool.outputMapping === undefined || tool.outputMapping === null) return { kind: 'result', value: data.output };
  const mapped = await applyMapping(tool.outputMapping, data);
  if (mapped.ok) return { kind: 'result', value: mapped.value };
  return unmapped(tool, mapped.problem);
}

const unmapped = (tool: ToolSnapshot, problem: string): CallOutcome =>
  failedCall(tool, {
    code: 'VALIDATION_FAILED',
    message: `The output mapping: ${problem}`,
    at: 'output_mapping',
    made: true,
  });

/**
 * Presets that take the context are retyped to what the schema declares; of a remote tool that no turn has listed, the
 * server is asked for it. When it gives none, the call itself says why.
 */
async function typed({ tool, projectId, toolContext, signal }: ToolCall): Promise<ToolSnapshot> {
  const { type, declared, remoteName, presets } = tool;
  if (type !== 'mcp' || declared != null || remoteName == null) return tool;
  if (!takesContext(presets) || !isAllowed(tool, remoteName)) return tool;
  const found = await mcpEndpoint(tool, projectId, toolContext);
  if (found.kind === 'error') return tool;
  const { url, headers } = found.endpoint;
  const owner = `${projectId}/${tool.id}`;
  const listed = await listMcpTools({ owner, url, headers, signal }).catch((error: unknown) => {
    if (error instanceof McpFailure) return [];
    throw error;
  });
  const remote = listed.find(({ name }) => name === remoteName);
  return remote === undefined ? tool : { ...tool, declared: remote.parameters };
}

function dispatch(call: ToolCall): Promise<CallOutcome> {
  const { tool } = call;
  if (tool.execute !== null) {
    return dispatchHttp({ ...call, tool: { ...tool, execute: tool.execute }, outbound: outbound() });
  }
  return tool.type === 'pipeline' ? runPipeline(call, callTool) : callMcp(call);
}
