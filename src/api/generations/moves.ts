import type { ServerCall, StepOutcome } from '../../workflows/generations.contract';
import type { ToolSnapshot } from '../tools/resolve';
import { failure } from './endings';
import type { Ending } from './endings';
import { stopsAfter } from './steering';
import type { RunView } from './steps';
import type { ParsedCall } from './turn';

/** Bounds of one run. */
export const CALLS_PER_STEP_MAX = 64;
export const CONTENT_BYTES_MAX = 32 * 1024 * 1024;
export const PROVIDER_FAILURES_MAX = 3;
export const LOST_TRIES_MAX = 5;

/** What a run's rows say comes next. */
export type Move =
  | { kind: 'settled' }
  | { kind: 'calls'; outcome: StepOutcome }
  | { kind: 'end'; ending: Ending }
  | { kind: 'step'; step: number };

/** Decides from the rows alone, whatever step the engine expected. Pure. */
export function nextMove(view: RunView): Move {
  if (view.status === 'completed' || view.status === 'failed') return { kind: 'settled' };
  const last = view.steps.at(-1)?.step ?? 0;
  const open = view.calls.filter((call) => !call.answered);
  if (open.length > 0) {
    const waiting = open.map((call) => ({ ...call, toolId: null }));
    // The pause of these calls was numbered when their step was stored, and stands in the row once it is committed.
    const pause = view.status === 'requires_action' ? view.pause : view.pause + 1;
    return { kind: 'calls', outcome: callsOutcome(view, last, waiting, pause) };
  }
  if (view.contentBytes > CONTENT_BYTES_MAX)
    return { kind: 'end', ending: failed(view, 'The generation has too much content.') };
  if (view.retries - view.providerFailures >= LOST_TRIES_MAX) {
    return {
      kind: 'end',
      ending: failed(view, 'The model call was lost too often.', { lost_tries: view.retries - view.providerFailures }),
    };
  }
  if (view.maxCallDepth === 0) return { kind: 'end', ending: { status: 'completed', stopReason: 'depth_guard' } };
  const called = view.calls.filter(({ step }) => step === last);
  if (stopsAfter(view.turn, called)) return { kind: 'end', ending: { status: 'completed', stopReason: 'tool-calls' } };
  if (last >= view.turn.maxSteps) return { kind: 'end', ending: { status: 'completed', stopReason: 'max_steps' } };
  return { kind: 'step', step: last + 1 };
}

/** The calls of a step, as the workflow needs them. */
export function callsOutcome(view: RunView, step: number, calls: ParsedCall[], pause: number): StepOutcome {
  return {
    kind: 'calls',
    step,
    serverCalls: serverCallsOf(calls, view.turn.tools),
    clientCalls: calls.filter(({ kind, error }) => kind === 'client' && error === null).length,
    pause,
  };
}

/** An unforeseen end of a run. */
export const failed = (view: RunView, message: string, meta: Record<string, unknown> = {}): Ending =>
  failure(view, 'GENERATION_FAILED', message, meta);

/** Reads and HEAD may be sent again on connection failure. */
export const isRead = ({ method }: ToolSnapshot): boolean => method === 'GET' || method === 'HEAD';

/** Calls of an answer that the service has to make, as the workflow needs them. */
export const serverCallsOf = (
  calls: Pick<ParsedCall, 'call' | 'toolName' | 'kind' | 'error'>[],
  tools: ToolSnapshot[],
): ServerCall[] =>
  calls.flatMap(({ call, toolName, kind, error }) => {
    const tool = tools.find(({ name }) => name === toolName);
    if (kind === 'client' || kind === 'none' || error !== null || tool === undefined || tool.timeoutMs === null)
      return [];
    return [{ call, timeoutMs: tool.timeoutMs, read: isRead(tool) }];
  });
