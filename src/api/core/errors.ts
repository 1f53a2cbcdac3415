/** The one list of error codes: a code that stands not here does not compile. One status each. */
export const catalog = {
  bad_request: 400,
  VALIDATION_FAILED: 400,
  AI_PROVIDER_MISCONFIGURED: 400,
  AI_PROVIDER_NOT_FOUND: 400,
  AGENT_NOT_FOUND: 400,
  DOCUMENT_NOT_FOUND: 400,
  GUARDRAIL_NOT_FOUND: 400,
  INVALID_OUTPUT_SCHEMA: 400,
  INVALID_TEMPLATE_TOKEN: 400,
  INVALID_TOOL_CONTEXT_KEY: 400,
  MISSING_TOOL_CONTEXT_KEY: 400,
  MODEL_LISTING_UNSUPPORTED: 400,
  PIPELINE_INVALID_STEP: 400,
  MEMORY_STORE_NOT_FOUND: 400,
  MODEL_ROUTE_NOT_FOUND: 400,
  SECRET_NOT_FOUND: 400,
  SYSTEM_MESSAGE_NOT_ALLOWED: 400,
  TOOL_NOT_FOUND: 400,
  unauthorized: 401,
  invalid_code: 401,
  access_denied: 403,
  email_not_verified: 403,
  plan_limit_reached: 403,
  TOOL_EGRESS_BLOCKED: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  already_member: 409,
  webhook_limit_reached: 409,
  delivery_pending: 409,
  webhook_inactive: 409,
  api_key_limit_reached: 409,
  idempotency_key_reused: 409,
  VERSION_CONFLICT: 409,
  AGENT_HAS_DEPENDENTS: 409,
  AI_PROVIDER_HAS_DEPENDENTS: 409,
  SECRET_HAS_DEPENDENTS: 409,
  TOOL_HAS_DEPENDENTS: 409,
  IDEMPOTENCY_KEY_REUSED: 409,
  PROJECT_PAUSED: 409,
  PROJECT_ARCHIVED: 409,
  PROJECT_NOT_PAUSED: 409,
  PROJECT_HAS_DEPENDENTS: 409,
  MODEL_NOT_PRICED: 409,
  GENERATION_NOT_AWAITING_TOOL_OUTPUTS: 409,
  GENERATION_CONTENT_UNAVAILABLE: 409,
  GENERATION_ALREADY_SETTLED: 409,
  GENERATION_IN_PROGRESS: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  FORCED_TOOL_CHOICE_CANNOT_STOP: 422,
  PIPELINE_DEPTH_EXCEEDED: 422,
  PIPELINE_STEP_FAILED: 422,
  TOOL_CALL_NOT_SUPPORTED: 422,
  TOOL_UNAVAILABLE: 422,
  too_many_requests: 429,
  rate_limited: 429,
  too_many_attempts: 429,
  internal_error: 500,
  GENERATION_FAILED: 500,
  AI_PROVIDER_ERROR: 502,
  MODEL_LISTING_FAILED: 502,
  OUTPUT_SCHEMA_VALIDATION_FAILED: 502,
  TEXT_ENCODED_TOOL_CALL: 502,
  TOOL_AUTH_FAILED: 502,
  TOOL_HTTP_ERROR: 502,
  google_sign_in_not_configured: 503,
  service_unavailable: 503,
  TOOL_TIMEOUT: 504,
} as const satisfies Record<string, number>;

export type ErrorCode = keyof typeof catalog;

/** One refused part of the input: where it stands (`events.0`, `query.cursor`) and what is wrong with it. */
export interface InputProblem {
  path: string;
  message: string;
}

export interface ErrorExtra {
  /** Facts of an `UPPER_SNAKE` code. */
  meta?: Record<string, unknown>;
  /** Facts of a `lower_snake` code, and of every input check. */
  details?: Record<string, unknown> | InputProblem[];
  headers?: Record<string, string>;
}

/** A refusal that a caller is to see: code, message and facts; the status follows from the code. */
export class ApiError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly extra: ErrorExtra = {},
  ) {
    super(message);
    this.name = 'ApiError';
  }

  get status(): number {
    return catalog[this.code];
  }
}

/** The body of an error answer: `{"error":{"code","message","meta"?,"details"?}}`. */
export function errorBody(error: ApiError): { error: Record<string, unknown> } {
  const { meta, details } = error.extra;
  return {
    error: {
      code: error.code,
      message: error.message,
      ...(meta === undefined ? {} : { meta }),
      ...(details === undefined ? {} : { details }),
    },
  };
}

/** Missing resource, malformed identifier, unknown path or caller not a member: one answer for all of them. */
export const notFound = (): ApiError => new ApiError('not_found', 'Not found.');

/** Missing, malformed, unknown, expired or revoked credential: always the same answer. */
export const unauthorized = (): ApiError =>
  new ApiError('unauthorized', 'A valid credential is required.', { headers: { 'WWW-Authenticate': 'Bearer' } });

/** The service cannot answer now; waiting helps. */
export const unavailable = (message = 'The service is unavailable for the moment.'): ApiError =>
  new ApiError('service_unavailable', message, { headers: { 'Retry-After': '5' } });

/** An input refusal naming one field. */
export const invalidInput = (code: 'bad_request' | 'VALIDATION_FAILED', path: string, message: string): ApiError =>
  new ApiError(code, message, { details: [{ path, message }] });

/** Throws when a condition that the code relies on does not hold: a bug, never a caller's fault. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`invariant: ${message}`);
}
