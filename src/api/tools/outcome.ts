import type { ErrorCode } from '../core/errors';

/** Said of what was called and cannot be worked on, since too many programs of tenants wait. */
export const TOO_BUSY = 'too much is to be checked';

/** The codes with which a call of a tool may fail. */
export type ToolErrorCode = Extract<
  ErrorCode,
  | 'VALIDATION_FAILED'
  | 'SECRET_NOT_FOUND'
  | 'TOOL_NOT_FOUND'
  | 'MISSING_TOOL_CONTEXT_KEY'
  | 'TOOL_EGRESS_BLOCKED'
  | 'TOOL_CALL_NOT_SUPPORTED'
  | 'PIPELINE_STEP_FAILED'
  | 'PIPELINE_DEPTH_EXCEEDED'
  | 'TOOL_HTTP_ERROR'
  | 'TOOL_AUTH_FAILED'
  | 'TOOL_TIMEOUT'
>;

/** Why a call failed; URLs are the template's, and no text holds a credential. */
export interface ToolCallError {
  /** The tool's. */
  name: string;
  code: ToolErrorCode;
  message: string;
  /** Of a refused input: the part it is about, where that is not `input`. */
  at?: string | undefined;
  /** The call itself was made, and what came back could not be used: it is a run, and may not be taken for one that was refused. */
  made?: true | undefined;
  /** Of calls over HTTP. */
  method?: string | undefined;
  /** Template of the URL, of calls over HTTP. */
  url?: string | undefined;
  /** Of an answer that is not 2xx. */
  status?: number | undefined;
  /** Its first 4,096 characters. */
  body?: string | undefined;
  /** The address that may not be called. */
  address?: string | undefined;
  /** Further facts of the code, as a direct call answers them in `meta`. */
  meta?: Record<string, unknown> | undefined;
}

/** What a call of a tool of any type gave. */
export type CallOutcome =
  | { kind: 'result'; value: unknown }
  | {
      kind: 'error';
      error: ToolCallError;
      /** Whether the call may be made again: a GET or HEAD whose connection failed. */
      retryable: boolean;
    };

/** How transcripts call a failure; `HttpToolError` is the specification's own name. */
const errorNames: Record<ToolErrorCode, string> = {
  VALIDATION_FAILED: 'InvalidArguments',
  SECRET_NOT_FOUND: 'SecretNotFound',
  TOOL_NOT_FOUND: 'ToolNotFound',
  MISSING_TOOL_CONTEXT_KEY: 'MissingToolContextKey',
  TOOL_EGRESS_BLOCKED: 'ToolEgressBlocked',
  TOOL_CALL_NOT_SUPPORTED: 'ToolCallNotSupported',
  PIPELINE_STEP_FAILED: 'PipelineStepFailed',
  PIPELINE_DEPTH_EXCEEDED: 'PipelineDepthExceeded',
  TOOL_HTTP_ERROR: 'HttpToolError',
  TOOL_AUTH_FAILED: 'ToolAuthFailed',
  TOOL_TIMEOUT: 'ToolTimeout',
};

/** A failed call as its transcript keeps it and the model reads it. Spec: Generations, transcript. */
export const transcriptError = ({ code, message, status, method, url, body }: ToolCallError) => ({
  name: errorNames[code],
  message,
  ...(status === undefined ? {} : { status }),
  ...(method === undefined ? {} : { method }),
  ...(url === undefined ? {} : { url }),
  ...(body === undefined ? {} : { body }),
});
