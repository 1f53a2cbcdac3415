import { errorStatus } from './schema';
import type { components } from './schema';

/** The codes of this contract; a newer service may know more of them. */
export type ErrorCode = keyof typeof errorStatus | (string & {});

type Envelope = components['schemas']['Error']['error'];

interface ErrorFacts {
  status: number;
  meta?: Record<string, unknown> | undefined;
  details?: Envelope['details'] | undefined;
  requestId?: string | null;
  retryAfter?: number | null;
  call?: string | null;
}

/** The service refused a call, or a run failed. Branch on `code`; messages may change. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  /** HTTP status; of a failure that was read from a run's record, the status that a waiting call gets for it. */
  readonly status: number;
  /** Facts of an `UPPER_SNAKE` code. */
  readonly meta: Record<string, unknown> | undefined;
  /** Facts of a `lower_snake` code, and of every input check: `{path, message}` each. */
  readonly details: Envelope['details'] | undefined;
  /** `X-Request-Id` of the answer: what support asks for. */
  readonly requestId: string | null;
  /** Seconds after which a repeat may be served; null where waiting is no remedy. */
  readonly retryAfter: number | null;
  /** What was refused, as `POST /v1/…`; null for a failure that was read from a run's record. */
  readonly call: string | null;

  constructor(
    readonly code: ErrorCode,
    message: string,
    { status, meta, details, requestId, retryAfter, call }: ErrorFacts,
  ) {
    super(message);
    this.status = status;
    this.meta = meta;
    this.details = details;
    this.requestId = requestId ?? null;
    this.retryAfter = retryAfter ?? null;
    this.call = call ?? null;
  }

  /** The run that failed, or that the refusal is about. */
  get generationId(): string | null {
    const id = this.meta?.['generation_id'];
    return typeof id === 'string' ? id : null;
  }
}

/** No whole answer came: name, connection or body of the answer was lost. Whether the call had an effect is unknown. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}

/** The caller's own time is up. The run goes on: the same call with `idempotencyKey` waits for it again. */
export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError';

  constructor(
    message: string,
    /** The run, as far as it is known. */
    readonly generationId: string | null,
    /** The key under which it was asked; null where there is none. */
    readonly idempotencyKey: string | null,
  ) {
    super(message);
  }
}

/** A stream could not be brought to its end, or its text is not the one that was given before. The record is whole. */
export class StreamError extends Error {
  override readonly name = 'StreamError';

  constructor(
    readonly reason: 'diverged' | 'interrupted',
    message: string,
    readonly generationId: string,
  ) {
    super(message);
  }
}

/** A run that pauses for tools nobody here answers, or again and again. It stays paused and can be answered later. */
export class ToolLoopError extends Error {
  override readonly name = 'ToolLoopError';

  constructor(
    readonly reason: 'no_handler' | 'too_many_pauses',
    message: string,
    readonly generationId: string,
    /** The tools that are asked for. */
    readonly toolNames: readonly string[],
  ) {
    super(message);
  }
}

/** A post that is not to be trusted. Answer it with 400 and look no further. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';

  constructor(
    readonly reason: 'headers' | 'secret' | 'timestamp' | 'signature' | 'payload',
    message: string,
  ) {
    super(message);
  }
}

const secondsOf = (header: string | null): number | null => {
  if (header === null || header.trim() === '') return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, (at - Date.now()) / 1000);
};

/** What `Retry-After` asks for, in seconds; it may be a number or a date. */
export const retryAfterOf = (response: Response): number | null => secondsOf(response.headers.get('retry-after'));

/** What each answer is an answer to. */
const calls = new WeakMap<Response, string>();

/** Method and path of a request; the query is left out. */
export const nameOf = ({ method, url }: Request): string => `${method} ${new URL(url).pathname}`;

/** Keeps what an answer is an answer to. */
export function answering(request: Request, response: Response): Response {
  calls.set(response, nameOf(request));
  return response;
}

const isEnvelope = (body: unknown): body is { error: Envelope } =>
  typeof body === 'object' &&
  body !== null &&
  'error' in body &&
  typeof body.error === 'object' &&
  body.error !== null &&
  'code' in body.error;

/** The error of an answer; one without the service's envelope comes from something in between: `unexpected_answer`. */
export function errorOf(response: Response, body: unknown): ApiError {
  const facts = {
    status: response.status,
    requestId: response.headers.get('x-request-id'),
    retryAfter: retryAfterOf(response),
    call: calls.get(response) ?? null,
  };
  if (isEnvelope(body)) {
    const { code, message, meta, details } = body.error;
    return new ApiError(code, message, { ...facts, meta, details });
  }
  const text = typeof body === 'string' ? body.slice(0, 200) : '';
  return new ApiError('unexpected_answer', `The answer has status ${response.status}: ${text}`, facts);
}

/** The failure that a run's record tells, as the one who waited for it would have got it. */
export function failureOf(
  id: { generation_id: string; trace_id: string },
  error: { code?: string; message: string; meta?: Record<string, unknown> } | null | undefined,
): ApiError {
  const code: string = error?.code ?? 'GENERATION_FAILED';
  const known: Record<string, number> = errorStatus;
  return new ApiError(code, error?.message ?? 'The generation failed.', {
    status: known[code] ?? 500,
    meta: { ...error?.meta, generation_id: id.generation_id, trace_id: id.trace_id },
  });
}

interface Answer<Data> {
  data?: Data | undefined;
  error?: unknown;
  response: Response;
}

/**
 * The data of a typed call: `await unwrap(client.GET('/v1/projects/{project_id}', …))`.
 * @throws ApiError when it was refused
 */
export async function unwrap<Data>(call: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await call;
  if (!response.ok) throw errorOf(response, error);
  return data as Data;
}
