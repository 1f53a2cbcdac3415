export const GENERATION = 'generation';
export const SUBMIT_TOOL_OUTPUTS = 'submitToolOutputs';
export const AWAIT_REST = 'awaitRest';
export const ROW_CHANGED = 'rowChanged';
export const CONTENT_READ = 'contentRead';

export interface GenerationInput {
  generationId: string;
  /** How long a model or tool call may go without a heartbeat before it counts as lost. */
  heartbeatMs: number;
  /** Queue of the API process that holds the run's stream: model steps are asked there until the first pause. */
  streamQueue?: string;
  /** Under zero retention: how long the answer stays, after the settlement, for a caller that waits. */
  scratchMs?: number;
}

/** Names a stored submission row; the outputs themselves stay in it. */
export interface Submission {
  submissionId: string;
  pause: number;
}

export interface RestInput {
  /** Answer at the end, or at a pause with a higher number than this. */
  afterPause: number;
}

export interface StepInput {
  generationId: string;
  step: number;
  /** The step was asked for before, on a queue that the engine does not go back to: counts as a further try. */
  again?: boolean;
}

/** A call that the service makes itself. */
export interface ServerCall {
  call: number;
  timeoutMs: number;
  /** GET or HEAD: may be sent again on connection failure. */
  read: boolean;
}

/** The run is over; `scratch`: content is left for a caller that waits. */
export interface Settled {
  kind: 'settled';
  scratch?: boolean;
}

/** Where the run stands after a step, as its rows say. */
export type StepOutcome =
  | Settled
  | { kind: 'calls'; step: number; serverCalls: ServerCall[]; clientCalls: number; pause: number }
  /** The provider failed, which was counted: the process that streams asks to be asked again after that wait. */
  | { kind: 'again'; waitMs: number };

export interface CallInput extends StepInput {
  call: number;
}

export interface PauseInput {
  generationId: string;
  pause: number;
}

export interface AcceptInput extends PauseInput {
  submissionId: string;
}

export interface SettleInput {
  generationId: string;
  code: 'GENERATION_CANCELLED' | 'GENERATION_FAILED';
}
