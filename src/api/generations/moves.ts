import type { ServerCall, StepOutcome } from '../../workflows/generations.contract';
import type { ToolSnapshot } from '../tools/resolve';
import { failure } from './endings';
import type { Ending } from './endings';
import { stopsAfter } from './steering';
import type { RunView } from './steps';
import { INPUT_STEP, toolOfCall } from './turn';
import type { CallError, ParsedCall, Turn } from './turn';

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
  const refused = refusalOf(view);
  if (refused !== null) return { kind: 'end', ending: refused };
  const last = view.steps.at(-1)?.step ?? 0;
  const open = view.calls.filter((call) => !call.answered);
  if (open.length > 0) {
    const waiting = open.map((call) => ({ ...call, toolId: null }));
    // The pause of these calls was numbered when their step was stored, and stands in the row once it is committed.
    const pause = view.status === 'requires_action' ? view.pause : view.pause + 1;
    return { kind: 'calls', outcome: callsOutcome(view, open[0]?.step ?? last, waiting, pause) };
  }
  const ending = endAfter(view, last);
  return ending === null ? { kind: 'step', step: last + 1 } : { kind: 'end', ending };
}

/** Why a run ends before anything is called for it. */
function refusalOf(view: RunView): Ending | null {
  if (view.maxCallDepth === 0) return { status: 'completed', stopReason: 'depth_guard' };
  const unfilled = view.calls.find(({ step, error }) => step === INPUT_STEP && error !== null);
  return unfilled?.error == null ? null : inputFailure(view, unfilled.error);
}

/** Why a run ends after the step whose calls are all answered; null when it goes on. */
function endAfter(view: RunView, last: number): Ending | null {
  if (view.contentBytes > CONTENT_BYTES_MAX) return failed(view, 'The generation has too much content.');
  const lost = view.retries - view.providerFailures;
  if (lost >= LOST_TRIES_MAX) return failed(view, 'The model call was lost too often.', { lost_tries: lost });
  const called = view.calls.filter(({ step }) => step === last && step !== INPUT_STEP);
  if (stopsAfter(view.turn, called)) return { status: 'completed', stopReason: 'tool-calls' };
  return last >= view.turn.maxSteps ? { status: 'completed', stopReason: 'max_steps' } : null;
}

/** The calls of a step, as the workflow needs them. */
export function callsOutcome(view: RunView, step: number, calls: ParsedCall[], pause: number): StepOutcome {
  return {
    kind: 'calls',
    step,
    serverCalls: serverCallsOf(view.turn, step, calls),
    clientCalls: calls.filter(({ kind, error }) => kind === 'client' && error === null).length,
    pause,
  };
}

/** An unforeseen end of a run. */
export const failed = (view: RunView, message: string, meta: Record<string, unknown> = {}): Ending =>
  failure(view, 'GENERATION_FAILED', message, meta);

/** A message could not be filled: the run fails with the code of the call, before any model call. */
const inputFailure = (view: RunView, { code, message, meta }: CallError): Ending =>
  failure(view, code ?? 'GENERATION_FAILED', `${message}.`, meta);

/** Reads and HEAD may be sent again on connection failure. */
export const isRead = ({ method }: ToolSnapshot): boolean => method === 'GET' || method === 'HEAD';

/** Calls of an answer that the service has to make, as the workflow needs them. */
export const serverCallsOf = (
  turn: Turn,
  step: number,
  calls: Pick<ParsedCall, 'call' | 'toolName' | 'kind' | 'error'>[],
): ServerCall[] =>
  calls.flatMap(({ call, toolName, kind, error }) => {
    const tool = toolOfCall(turn, { step, call, toolName });
    if (kind === 'client' || kind === 'none' || error !== null || tool === null || tool.timeoutMs === null) return [];
    return [{ call, timeoutMs: tool.timeoutMs, read: isRead(tool) }];
  });
