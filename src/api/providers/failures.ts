import { APICallError } from '@ai-sdk/provider';
import { z } from 'zod';
import { GoogleKeyError, GoogleTokenError } from '../core/google-token';
import type { OutboundError } from '../core/http-error';
import { outboundErrorOf } from '../core/http-error';
import { CutStreamError, ProviderCallError, StreamedError } from './streams';

/** What a failed call to a provider means for the run. */
export interface ProviderFailure {
  /** 429, 5xx and connection failures may pass; every other refusal stays. */
  retryable: boolean;
  statusCode: number | null;
  /** `Provider returned <status>: <provider message>`, or why there was no answer. Holds no credential. */
  message: string;
  /** Milliseconds the provider asked to wait; null when it named none. */
  retryAfterMs: number | null;
}

const MESSAGE_CHARACTERS_MAX = 2_000;
const RETRY_AFTER_MS_MAX = 10 * 60_000;
const UNREADABLE = 'Provider gave an answer that could not be read.';
const HIDDEN = '[secret]';

/** Statuses of the errors that vendors send by name inside of a stream, as they document them. */
const STREAMED_STATUS: Record<string, number> = {
  overloaded_error: 529,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  api_error: 500,
  server_error: 500,
  internal_error: 500,
  timeout_error: 504,
  invalid_request_error: 400,
  context_length_exceeded: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  model_not_found: 404,
  request_too_large: 413,
  internalServerException: 500,
  serviceUnavailableException: 503,
  throttlingException: 429,
  modelStreamErrorException: 424,
  modelTimeoutException: 408,
  validationException: 400,
  UNAVAILABLE: 503,
  INTERNAL: 500,
  RESOURCE_EXHAUSTED: 429,
  DEADLINE_EXCEEDED: 504,
  INVALID_ARGUMENT: 400,
  PERMISSION_DENIED: 403,
};

/**
 * Maps what a model's call threw, or the error of an error part of its stream. Pure.
 * Spec: Errors, `AI_PROVIDER_ERROR`.
 */
export function providerFailureOf(error: unknown, nowMs: number): ProviderFailure {
  const [cause, hidden] = error instanceof ProviderCallError ? [error.cause, error.hidden] : [error, []];
  const failure = failureOf(cause, nowMs);
  // A vendor may repeat in its refusal what it was given. Struck out before the text is cut, which could part a secret.
  return { ...failure, message: withoutTexts(failure.message, hidden).slice(0, MESSAGE_CHARACTERS_MAX) };
}

function failureOf(error: unknown, nowMs: number): ProviderFailure {
  const blocked = outboundErrorOf(error);
  if (blocked !== undefined) return connectionFailure(blocked);
  if (APICallError.isInstance(error)) return callFailure(error, nowMs);
  if (error instanceof StreamedError) return streamedFailure(error.kind, error.said);
  if (error instanceof CutStreamError) return lost('Provider could not be reached: the answer broke off.');
  if (error instanceof GoogleTokenError) {
    const {
      status,
      message,
      answered: { retryAfter },
    } = error;
    return status < 300 ? final(UNREADABLE) : refused(status, message, retryAfterOf(retryAfter, nowMs));
  }
  if (error instanceof GoogleKeyError) return final(`Provider cannot be called: ${error.message}.`);
  return final(isBrokenFrame(error) ? 'Provider could not be reached: the answer broke off.' : UNREADABLE, error);
}

const lost = (message: string): ProviderFailure => ({ retryable: true, statusCode: null, message, retryAfterMs: null });

const final = (message: string, error?: unknown): ProviderFailure => ({
  ...lost(message),
  retryable: isBrokenFrame(error),
});

/** What Bedrock's package says of a stream that ends inside of a frame. */
const isBrokenFrame = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('Incomplete Amazon Bedrock event-stream frame');

function connectionFailure({ kind, detail }: OutboundError): ProviderFailure {
  if (kind === 'egress_blocked') return final('Provider address is not allowed.');
  const isFinal = kind === 'too_large' || kind === 'redirects';
  return { ...lost(`Provider could not be reached: ${detail}.`), retryable: !isFinal };
}

function callFailure(error: APICallError, nowMs: number): ProviderFailure {
  if (error.statusCode === undefined) return lost('Provider could not be reached.');
  if (error.statusCode < 300) return { ...final(UNREADABLE), statusCode: error.statusCode };
  const streamed = firstOfStream(error);
  if (streamed !== null) return streamedFailure(streamed, error.message);
  return refused(error.statusCode, error.message, retryAfterOf(error.responseHeaders?.['retry-after'], nowMs));
}

const StreamedBody = z.object({ type: z.string() });

/** Anthropic's package throws an error that came first in a stream as a status of its own making; its type says which it is. */
function firstOfStream({ responseBody, statusCode }: APICallError): string | null {
  if (responseBody === undefined || (statusCode !== 500 && statusCode !== 529)) return null;
  const type = StreamedBody.safeParse(jsonOf(responseBody)).data?.type;
  return type !== undefined && type in STREAMED_STATUS ? type : null;
}

/** An error without a name that is known is the vendor's own trouble: the request was taken before. */
function streamedFailure(kind: string | null, said: string): ProviderFailure {
  const known = kind === null ? undefined : (STREAMED_STATUS[kind] ?? statusIn(kind));
  if (known !== undefined) return refused(known, said, null);
  return lost(`Provider ended its answer with an error: ${said}`);
}

const statusIn = (kind: string): number | undefined => (/^[45]\d\d$/.test(kind) ? Number(kind) : undefined);

function refused(statusCode: number, message: string, retryAfterMs: number | null): ProviderFailure {
  const said = message.trim() === '' ? 'no message' : message.trim();
  return {
    retryable: statusCode === 429 || statusCode >= 500,
    statusCode,
    message: `Provider returned ${String(statusCode)}: ${said}`,
    retryAfterMs,
  };
}

/** The message with every one of the texts struck out, longer ones first: one may be a part of another. Pure. */
export const withoutTexts = (message: string, hidden: readonly string[]): string =>
  [...hidden]
    .sort((one, other) => other.length - one.length)
    .reduce((text, secret) => (secret === '' ? text : text.replaceAll(secret, HIDDEN)), message);

/** `Retry-After` is a number of seconds or a date; bounded, so that a provider cannot hold a run for days. */
function retryAfterOf(header: string | undefined, nowMs: number): number | null {
  if (header === undefined) return null;
  const seconds = Number(header);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - nowMs;
  return Number.isFinite(waitMs) && waitMs >= 0 ? Math.min(waitMs, RETRY_AFTER_MS_MAX) : null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
