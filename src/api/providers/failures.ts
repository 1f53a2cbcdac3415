import { APICallError } from '@ai-sdk/provider';
import type { OutboundError } from '../core/http-error';
import { outboundErrorOf } from '../core/http-error';

/** What a failed call to a provider means for the run. */
export interface ProviderFailure {
  /** 429, 5xx and connection failures may pass; every other refusal stays. */
  retryable: boolean;
  statusCode: number | null;
  /** `Provider returned <status>: <provider message>`, or why there was no answer. */
  message: string;
  /** Milliseconds the provider asked to wait; null when it named none. */
  retryAfterMs: number | null;
}

const MESSAGE_CHARACTERS_MAX = 2_000;
const RETRY_AFTER_MS_MAX = 10 * 60_000;

/**
 * Maps what the vendor's package threw. Pure.
 * Spec: Errors, `AI_PROVIDER_ERROR`.
 */
export function providerFailureOf(error: unknown, nowMs: number): ProviderFailure {
  const blocked = outboundErrorOf(error);
  if (blocked !== undefined) return connectionFailure(blocked);
  if (APICallError.isInstance(error) && error.statusCode !== undefined)
    return answeredFailure(error, error.statusCode, nowMs);
  if (APICallError.isInstance(error)) {
    return { retryable: true, statusCode: null, message: 'Provider could not be reached.', retryAfterMs: null };
  }
  return {
    retryable: false,
    statusCode: null,
    message: 'Provider gave an answer that could not be read.',
    retryAfterMs: null,
  };
}

function connectionFailure({ kind, detail }: OutboundError): ProviderFailure {
  if (kind === 'egress_blocked') {
    return { retryable: false, statusCode: null, message: 'Provider address is not allowed.', retryAfterMs: null };
  }
  const final = kind === 'too_large' || kind === 'redirects';
  return {
    retryable: !final,
    statusCode: null,
    message: `Provider could not be reached: ${detail}.`,
    retryAfterMs: null,
  };
}

function answeredFailure(error: APICallError, statusCode: number, nowMs: number): ProviderFailure {
  if (statusCode < 300) {
    return {
      retryable: false,
      statusCode,
      message: 'Provider gave an answer that could not be read.',
      retryAfterMs: null,
    };
  }
  const said = error.message.trim() === '' ? 'no message' : error.message.trim();
  return {
    retryable: statusCode === 429 || statusCode >= 500,
    statusCode,
    message: `Provider returned ${String(statusCode)}: ${said}`.slice(0, MESSAGE_CHARACTERS_MAX),
    retryAfterMs: retryAfterOf(error.responseHeaders?.['retry-after'], nowMs),
  };
}

/** `Retry-After` is a number of seconds or a date; bounded, so that a provider cannot hold a run for days. */
function retryAfterOf(header: string | undefined, nowMs: number): number | null {
  if (header === undefined) return null;
  const seconds = Number(header);
  const waitMs = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - nowMs;
  return Number.isFinite(waitMs) && waitMs >= 0 ? Math.min(waitMs, RETRY_AFTER_MS_MAX) : null;
}
