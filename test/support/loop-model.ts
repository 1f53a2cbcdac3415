/** A small model of the agent loop, written from the contract and not from the code. Pure. */

/** A tool call of a script: which tool the model asks for, and what comes of it. */
export type CallKind =
  'found' | 'refused' | 'broken' | 'client' | 'unknown' | 'bad-arguments' | 'bad-client-arguments' | 'no-json';

/** What the model does when it is asked. `id` may be anything a provider makes up, doubled ids included. */
export interface ScriptStep {
  calls: { kind: CallKind; id: string }[];
  /** How often the provider fails before that: three failures are final. */
  failures: number;
  /** The provider refuses the request, which is never tried again. */
  refused: boolean;
  /** The caller cancels while this step's call is under way. */
  cancelled: boolean;
  /** What the caller does where the step pauses. */
  atPause: 'submit' | 'cancel';
}

export interface Script {
  mode: 'background' | 'stream';
  maxSteps: number;
  /** After the last of them the model answers with text. */
  steps: ScriptStep[];
}

export interface ExpectedCall {
  kind: CallKind;
  outcome: 'result' | 'error' | 'none';
}

export interface Expected {
  status: 'completed' | 'failed';
  stopReason: string;
  errorCode: string | null;
  steps: ExpectedCall[][];
  pauses: number;
}

const ends = (status: Expected['status'], stopReason: string, errorCode: string | null = null) => ({
  status,
  stopReason,
  errorCode,
});
const cancelled = ends('failed', 'cancelled', 'GENERATION_CANCELLED');
const refused = ends('failed', 'error', 'AI_PROVIDER_ERROR');

/** What of a call the record shows, when the caller has answered its own or not. */
const shown = (kind: CallKind, answered: boolean): ExpectedCall['outcome'] => {
  if (kind === 'found') return 'result';
  if (kind === 'client') return answered ? 'result' : 'none';
  return 'error';
};

/** What must become of a script. */
export function expectedOf({ steps, maxSteps }: Script): Expected {
  const made: ExpectedCall[][] = [];
  let pauses = 0;
  for (const step of steps) {
    if (made.length >= maxSteps) return { ...ends('completed', 'max_steps'), steps: made, pauses };
    if (step.cancelled) return { ...cancelled, steps: made, pauses };
    if (step.refused || step.failures >= 3) return { ...refused, steps: made, pauses };
    const asks = step.calls.some(({ kind }) => kind === 'client');
    const answered = step.atPause === 'submit';
    made.push(step.calls.map(({ kind }) => ({ kind, outcome: shown(kind, answered) })));
    if (step.calls.length === 0) return { ...ends('completed', 'stop'), steps: made, pauses };
    if (asks) pauses += 1;
    if (asks && !answered) return { ...cancelled, steps: made, pauses };
  }
  if (made.length >= maxSteps) return { ...ends('completed', 'max_steps'), steps: made, pauses };
  return { ...ends('completed', 'stop'), steps: [...made, []], pauses };
}
