import { isReservedKey } from './context';
import { ProgramsBusyError } from '../core/programs';
import type { ToolContext } from './context';
import { failedCall } from './filling';
import { evaluate } from './mapping';
import type { Evaluated } from './mapping';
import type { PipelineStep } from './models';
import { TOO_BUSY } from './outcome';
import type { CallOutcome, ToolErrorCode } from './outcome';
import { findSnapshot } from './resolve';
import { inlineSnapshotOf } from './snapshot';
import type { ToolSnapshot } from './snapshot';

/** How many pipelines may stand in one another, the outermost included. */
const DEPTH_MAX = 5;

/** One call of a tool of any type, as it is handed on to a step. */
interface StepCall {
  /** An mcp tool with its `remoteName`. */
  tool: ToolSnapshot;
  projectId: string;
  args: Record<string, unknown>;
  toolContext: ToolContext;
  idempotencyKey: string;
  signal: AbortSignal;
  /** How many pipelines the call stands in, its own included: 1 where nothing else runs it. */
  depth?: number;
}

type CallTool = (call: StepCall) => Promise<CallOutcome>;
type Failure = Extract<CallOutcome, { kind: 'error' }>;

/** What expressions see: the merged arguments, and each earlier step's output under its id. */
interface Data {
  input: unknown;
  steps: Record<string, unknown>;
}

/**
 * Runs a pipeline's steps in order, each through `callTool`, and answers its output; the first failing step ends it. Each
 * step's call has the idempotency key `<key>:<step id>`. Nothing is taken back: repeating a pipeline repeats its steps.
 * Spec: Tools, pipeline.
 * @throws ProgramsBusyError before the first step; what `callTool` throws when `signal` ended the call
 */
export async function runPipeline(call: StepCall, callTool: CallTool): Promise<CallOutcome> {
  const { tool, args, depth = 1 } = call;
  if (depth > DEPTH_MAX) {
    return failure(
      tool,
      'PIPELINE_DEPTH_EXCEEDED',
      `Pipelines may stand in one another at most ${String(DEPTH_MAX)} deep`,
    );
  }
  const data: Data = { input: args, steps: {} };
  let last: unknown = null;
  for (const step of tool.pipeline?.steps ?? []) {
    const outcome = await runStep({ ...call, depth }, { step, data, callTool }).catch((error: unknown) => {
      // What ran before must not look like something that may be asked for again.
      if (error instanceof ProgramsBusyError && Object.keys(data.steps).length > 0)
        return failure(tool, 'VALIDATION_FAILED', TOO_BUSY);
      throw error;
    });
    if (outcome.kind === 'error') return stepFailed(tool, step.id, outcome);
    last = outcome.value;
    data.steps[step.id] = last;
  }
  const output = tool.pipeline?.output;
  if (output === undefined) return { kind: 'result', value: last };
  const mapped = await evaluate(output, data).catch((error: unknown): Evaluated => {
    if (error instanceof ProgramsBusyError) return { ok: false, problem: TOO_BUSY };
    throw error;
  });
  if (mapped.ok) return { kind: 'result', value: mapped.value };
  const message = `The output of the pipeline: ${mapped.problem}`;
  return failedCall(tool, { code: 'VALIDATION_FAILED', message, at: 'pipeline.output', made: true });
}

async function runStep(
  call: StepCall & { depth: number },
  { step, data, callTool }: { step: PipelineStep; data: Data; callTool: CallTool },
): Promise<CallOutcome> {
  const tool = await toolOf(call, step);
  if ('kind' in tool) return tool;
  const values = await evaluate(Object.values(step.input), data);
  if (!values.ok) return failure(call.tool, 'VALIDATION_FAILED', `The input of the step: ${values.problem}`);
  const list = values.value as unknown[];
  return callTool({
    tool,
    projectId: call.projectId,
    args: Object.fromEntries(Object.keys(step.input).map((name, index) => [name, list[index]])),
    toolContext: forwarded(call.toolContext, call.tool.contextKeys),
    idempotencyKey: `${call.idempotencyKey}:${step.id}`,
    signal: call.signal,
    depth: call.depth + 1,
  });
}

/** The tool of a step as it is now: what it names may have changed since the pipeline was written. */
async function toolOf({ tool: owner, projectId }: StepCall, step: PipelineStep): Promise<ToolSnapshot | Failure> {
  const found =
    step.tool === undefined
      ? await findSnapshot(projectId, step.tool_id ?? '')
      : inlineSnapshotOf(owner, step, step.tool);
  if (found === null) return failure(owner, 'TOOL_NOT_FOUND', 'The tool of the step is not there');
  if (found.type !== 'mcp') return found;
  if (step.action === undefined) return failure(owner, 'VALIDATION_FAILED', 'The step names no action of its mcp tool');
  return { ...found, remoteName: step.action };
}

/** What the pipeline's own `context_keys` lets through to its steps, whose tools narrow it further. */
function forwarded(context: ToolContext, keys: readonly string[] | null | undefined): ToolContext {
  if (keys == null) return context;
  return Object.fromEntries(Object.entries(context).filter(([key]) => isReservedKey(key) || keys.includes(key)));
}

/** Too many pipelines in one another is the whole call's failure, not that of the step where it showed. */
function stepFailed(tool: ToolSnapshot, stepId: string, { error: { code, message } }: Failure): Failure {
  if (code === 'PIPELINE_DEPTH_EXCEEDED') return failure(tool, code, message);
  return failedCall(tool, {
    code: 'PIPELINE_STEP_FAILED',
    message: `The step ${stepId} failed: ${message}`,
    meta: { step_id: stepId, code, message },
  });
}

const failure = (tool: ToolSnapshot, code: ToolErrorCode, message: string): Failure =>
  failedCall(tool, { code, message });
