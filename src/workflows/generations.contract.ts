export const GENERATION = 'generation';
export const SUBMIT_TOOL_OUTPUTS = 'submitToolOutputs';
export const AWAIT_REST = 'awaitRest';
export const ROW_CHANGED = 'rowChanged';

export interface GenerationInput {
  generationId: string;
  /** How long a model or tool call may go without a heartbeat before it counts as lost. */
  heartbeatMs: number;
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
}

/** A call that the service makes itself. */
export interface ServerCall {
  call: number;
  timeoutMs: number;
  /** GET or HEAD: may be sent again on connection failure. */
  read: boolean;
}

/** Where the run stands after a step, as its rows say. */
export type StepOutcome =
  { kind: 'settled' } | { kind: 'calls'; step: number; serverCalls: ServerCall[]; clientCalls: number; pause: number };

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
