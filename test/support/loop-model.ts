/** A small model of the agent loop, written from the contract and not from the code. Pure. */

/** A tool call of a script: which tool the model asks for, and what comes of it. */
export type CallKind =
  'found' | 'refused' | 'broken' | 'client' | 'unknown' | 'bad-arguments' | 'bad-client-arguments' | 'no-json';

/** What the model does when it is asked. `id` may be anything a provider makes up, doubled ids included. */
export interface ScriptStep {
  calls: { kind: CallKind; id: string }[];
  /** Said beside the calls; a step without calls says `Done.`. */
  says: string;
  /** How often the provider fails before that: three failures are final. */
  failures: number;
  /** The provider refuses the request, which is never tried again. */
  refused: boolean;
  /** The caller cancels while this step's call is under way. */
  cancelled: boolean;
  /** What the caller does where the step pauses. */
  atPause: 'submit' | 'cancel' | 'leave';
}

export interface Script {
  mode: 'background' | 'wait' | 'stream';
  maxSteps: number;
  /** After the last of them the model answers with `LAST_WORDS`. */
  steps: ScriptStep[];
}

export const DONE_WORDS = 'Done.';
export const LAST_WORDS = 'The end.';
/** Tries of a provider that fails; the last of them is final. */
const TRIES_MAX = 3;

export interface ExpectedCall {
  kind: CallKind;
  outcome: 'result' | 'error' | 'none';
}

/** Where a run comes to rest. `said`: all that the model has said until then, in the order of the steps. */
export type Rest = { said: string } & (
  | { kind: 'paused'; asks: number }
  | { kind: 'completed'; content: string; finishReason: 'stop' | 'tool-calls' }
  /** `provider`: the status with which the provider failed; null for a cancelled run. */
  | { kind: 'failed'; provider: number | null }
);

export interface Expected {
  status: 'completed' | 'failed' | 'requires_action';
  stopReason: string | null;
  errorCode: string | null;
  steps: ExpectedCall[][];
  /** The pauses in their order, and then the end unless the run stays paused. */
  rests: Rest[];
  /** Requests that the provider gets for each step that was begun. */
  bought: number[];
}

/** What of a call the record shows, when the caller has answered its own or not. */
const shown = (kind: CallKind, answered: boolean): ExpectedCall['outcome'] => {
  if (kind === 'found') return 'result';
  if (kind === 'client') return answered ? 'result' : 'none';
  return 'error';
};

type SoFar = Pick<Expected, 'steps' | 'rests' | 'bought'> & { said: string };

const completed = ({ said, rests, ...made }: SoFar, stopReason: string, content: string): Expected => {
  const finishReason = stopReason === 'stop' ? 'stop' : 'tool-calls';
  const end: Rest = { kind: 'completed', content, finishReason, said };
  return { ...made, rests: [...rests, end], status: 'completed', stopReason, errorCode: null };
};

const failed = ({ said, rests, ...made }: SoFar, provider: number | null): Expected => ({
  ...made,
  rests: [...rests, { kind: 'failed', provider, said }],
  status: 'failed',
  stopReason: provider === null ? 'cancelled' : 'error',
  errorCode: provider === null ? 'GENERATION_CANCELLED' : 'AI_PROVIDER_ERROR',
});

/** The end that a step brings before it gives anything, with the requests made for it; null when it gives something. */
function endWithin(step: ScriptStep, before: SoFar): Expected | null {
  const after = (requests: number): SoFar => ({ ...before, bought: [...before.bought, requests] });
  if (step.cancelled) return failed(after(1), null);
  if (step.refused) return failed(after(1), 400);
  return step.failures >= TRIES_MAX ? failed(after(TRIES_MAX), 503) : null;
}

/** What must become of a script. */
export function expectedOf({ steps, maxSteps }: Script): Expected {
  let at: SoFar = { steps: [], rests: [], bought: [], said: '' };
  for (const step of steps) {
    if (at.steps.length >= maxSteps) return completed(at, 'max_steps', '');
    const end = endWithin(step, at);
    if (end !== null) return end;
    const answered = step.atPause === 'submit';
    const calls = step.calls.map(({ kind }) => ({ kind, outcome: shown(kind, answered) }));
    const words = calls.length === 0 ? DONE_WORDS : step.says;
    const bought = [...at.bought, step.failures + 1];
    at = { steps: [...at.steps, calls], rests: at.rests, bought, said: at.said + words };
    if (calls.length === 0) return completed(at, 'stop', words);
    const asks = calls.filter(({ kind }) => kind === 'client').length;
    if (asks === 0) continue;
    at = { ...at, rests: [...at.rests, { kind: 'paused', asks, said: at.said }] };
    if (step.atPause === 'cancel') return failed(at, null);
    if (!answered) {
      const { said: _said, ...left } = at;
      return { ...left, status: 'requires_action', stopReason: null, errorCode: null };
    }
  }
  if (at.steps.length >= maxSteps) return completed(at, 'max_steps', '');
  const bought = [...at.bought, 1];
  return completed({ ...at, steps: [...at.steps, []], bought, said: at.said + LAST_WORDS }, 'stop', LAST_WORDS);
}
