import { ToolLoopError } from './errors';
import type { AgentTarget, GenerationResult, PendingToolCall, ToolOutput } from './types';

/** What a function knows of its call. */
export interface ToolContext extends AgentTarget {
  generationId: string;
  callId: string;
  toolName: string;
  /** Fires when the caller gives the run up. */
  signal: AbortSignal;
}

/** Answers one tool: any JSON value. It may be called with arguments that the model made up. */
export type ToolHandler = (args: never, context: ToolContext) => unknown;

/** One function a client tool, by the tool's name. */
export type ToolHandlers = Readonly<Record<string, ToolHandler>>;

export interface ToolLoopOptions {
  /** Pauses that are answered at most; 32 by default. */
  pausesMax?: number;
  /** What the model is told when a function throws; by default `{error: <message>}`. */
  onToolError?: (error: unknown, call: PendingToolCall) => unknown;
}

interface Loop extends ToolLoopOptions {
  target: AgentTarget;
  signal: AbortSignal;
  submit: (generationId: string, outputs: ToolOutput[]) => Promise<GenerationResult>;
}

const PAUSES_MAX = 32;

/** Answers pause after pause until the run is over. @throws ToolLoopError */
export async function runToolLoop(
  first: GenerationResult,
  handlers: ToolHandlers,
  loop: Loop,
): Promise<GenerationResult> {
  let result = first;
  for (let pauses = 0; result.status === 'requires_action'; pauses += 1) {
    const calls = result.required_action?.tool_calls ?? [];
    const names = [...new Set(calls.map(({ tool_name: name }) => name))];
    if (pauses >= (loop.pausesMax ?? PAUSES_MAX)) {
      throw new ToolLoopError('too_many_pauses', `${result.id} paused more than ${pauses} times.`, result.id, names);
    }
    const missing = names.filter((name) => !Object.hasOwn(handlers, name));
    if (missing.length > 0) {
      throw new ToolLoopError('no_handler', `Nobody answers ${missing.join(', ')}.`, result.id, missing);
    }
    const { id } = result;
    const outputs = await Promise.all(calls.map((call) => outputOf(call, handlers, { ...loop, generationId: id })));
    loop.signal.throwIfAborted();
    result = await loop.submit(id, outputs);
  }
  return result;
}

async function outputOf(
  call: PendingToolCall,
  handlers: ToolHandlers,
  { target, signal, generationId, onToolError = errorOutput }: Loop & { generationId: string },
): Promise<ToolOutput> {
  const context: ToolContext = { ...target, generationId, callId: call.id, toolName: call.tool_name, signal };
  const answered = { tool_call_id: call.id };
  try {
    // A tool without anything to say has answered all the same.
    return { ...answered, output: (await handlers[call.tool_name]?.(call.args as never, context)) ?? null };
  } catch (error) {
    signal.throwIfAborted();
    return { ...answered, output: onToolError(error, call) ?? null };
  }
}

const errorOutput = (error: unknown): { error: string } => ({
  error: error instanceof Error ? error.message : String(error),
});
