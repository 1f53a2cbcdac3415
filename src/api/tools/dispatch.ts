import { clock } from '../core/clock';
import { deadline } from '../core/deadline';
import { OutboundError } from '../core/http';
import type { Outbound, OutboundAnswer } from '../core/http';
import { AuthError, signed } from './auth';
import type { ToolContext } from './context';
import { credentialsOf, failedCall, failedFill, filledHeaders, plainHeaders, redactionFor } from './filling';
import type { Credentials, HeaderMap } from './filling';
import type { Execute } from './models';
import { multipartBody } from './multipart';
import type { CallOutcome } from './outcome';
import type { Redaction } from './redaction';
import { readAnswer } from './response';
import type { ToolSnapshot } from './snapshot';
import { argumentText, encoded, fillUrl, parseUrl } from './templates';

/** Decoded bytes of an answer; a longer one is an error. */
export const RESPONSE_BYTES_MAX = 5_000_000;
const SHOWN_CHARACTERS_MAX = 4096;

/** A tool that is an http call. */
export type HttpToolSnapshot = ToolSnapshot & { execute: Execute };

export interface HttpCall {
  tool: HttpToolSnapshot;
  projectId: string;
  /** Merged and checked. */
  args: Record<string, unknown>;
  toolContext: ToolContext;
  /** `<generation id>:<tool call id>`; of a direct call a fresh value. */
  idempotencyKey: string;
  signal: AbortSignal;
  outbound: Outbound;
}

/**
 * Makes one call of an http tool, with secrets as they are now. Spec: Tools, http. Repeating is safe only where the
 * outcome says so; otherwise the target may have acted already.
 * @throws OutboundError of kind `aborted` when `signal` ended the call
 */
export async function dispatchHttp(call: HttpCall): Promise<CallOutcome> {
  const found = await credentialsOf(call.tool, call.projectId);
  if ('missing' in found)
    return failedCall(call.tool, { code: 'SECRET_NOT_FOUND', message: `${found.missing} is not there` });
  let redaction = redactionFor(found);
  const startedMs = clock.ms();
  try {
    const { request, secrets } = await finalRequest(call, found);
    redaction = redactionFor(found, secrets);
    const answer = await call.outbound.request({
      ...request,
      method: call.tool.execute.method,
      // Asking for a token takes of the same time.
      timeoutMs: Math.max(1, call.tool.execute.timeout_seconds * 1000 - (clock.ms() - startedMs)),
      responseBytesMax: RESPONSE_BYTES_MAX,
      onTooLarge: 'truncate',
      redirects: 'follow',
      signal: call.signal,
    });
    return outcomeOf(call, answer, redaction);
  } catch (error) {
    if (error instanceof AuthError) return authFailure(call, error, redaction);
    if (error instanceof OutboundError) {
      if (error.kind === 'aborted') throw error;
      return transportFailure(call, error, redaction);
    }
    return failedFill(call.tool, error);
  }
}

interface Request {
  url: string;
  headers: Record<string, string>;
  body?: string | Uint8Array;
}

/** The whole request, signed where the tool says so. */
async function finalRequest(
  call: HttpCall,
  credentials: Credentials,
): Promise<{ request: Request; secrets: string[] }> {
  const { method, auth } = call.tool.execute;
  const { url, headers, body } = unsignedRequest(call, credentials);
  const request = { url, headers: plainHeaders(headers), ...(body === undefined ? {} : { body }) };
  if (auth == null) return { request, secrets: [] };
  const { signal, end } = deadline(call.tool.execute.timeout_seconds * 1000, call.signal);
  const added = await signed(auth, { ...request, method }, { credentials, signal })
    .catch((error: unknown) => {
      if (!signal.aborted || call.signal.aborted || !(error instanceof OutboundError)) throw error;
      throw new OutboundError({ kind: 'timeout', detail: 'no token in time', sent: false });
    })
    .finally(end);
  for (const [name, value] of added.headers) headers.set(name.toLowerCase(), [name, value]);
  return { request: { ...request, headers: plainHeaders(headers) }, secrets: added.secrets };
}

function unsignedRequest(
  { tool, args, toolContext, idempotencyKey }: HttpCall,
  credentials: Credentials,
): { url: string; headers: HeaderMap; body?: string | Uint8Array } {
  const { execute } = tool;
  const headers = filledHeaders(tool, credentials, toolContext);
  headers.set('idempotency-key', ['Idempotency-Key', idempotencyKey]);
  const { url, rest } = fillUrl(parseUrl(execute.url), { args, secrets: credentials.secrets });
  const withBody = execute.method === 'POST' || execute.method === 'PUT' || execute.method === 'PATCH';
  if (!withBody) return { url: withQuery(url, rest), headers };
  if (execute.body_mode === 'multipart') {
    const { body, contentType } = multipartBody(rest);
    headers.set('content-type', ['Content-Type', contentType]);
    return { url, headers, body };
  }
  if (!headers.has('content-type')) headers.set('content-type', ['Content-Type', 'application/json']);
  return { url, headers, body: JSON.stringify(rest) };
}

function withQuery(url: string, rest: Record<string, unknown>): string {
  const pairs = Object.entries(rest).map(([name, value]) => `${encoded(name)}=${encoded(argumentText(value))}`);
  if (pairs.length === 0) return url;
  const joint = !url.includes('?') ? '?' : /[?&]$/.test(url) ? '' : '&';
  return url + joint + pairs.join('&');
}

function outcomeOf({ tool }: HttpCall, answer: OutboundAnswer, redaction: Redaction): CallOutcome {
  const { status, body, truncated } = answer;
  const succeeded = status >= 200 && status < 300;
  if (succeeded && truncated) {
    const message = `The answer is longer than ${String(RESPONSE_BYTES_MAX)} bytes`;
    return failedCall(tool, { code: 'TOOL_HTTP_ERROR', message, status });
  }
  const read = readAnswer(body, redaction);
  if (succeeded) return { kind: 'result', value: status === 204 ? null : read.value };
  return failedCall(tool, {
    code: 'TOOL_HTTP_ERROR',
    message: `The target answered ${String(status)}`,
    status,
    body: read.text.slice(0, SHOWN_CHARACTERS_MAX),
  });
}

function authFailure({ tool }: HttpCall, { message, upstream }: AuthError, redaction: Redaction): CallOutcome {
  const body = upstream.body === null ? null : redaction.text(upstream.body).slice(0, SHOWN_CHARACTERS_MAX);
  const meta = { upstream_status: upstream.status, upstream_body: body };
  return failedCall(tool, { code: 'TOOL_AUTH_FAILED', message, meta });
}

function transportFailure({ tool }: HttpCall, error: OutboundError, redaction: Redaction): CallOutcome {
  const detail = redaction.text(error.detail);
  if (error.kind === 'timeout') {
    const seconds = String(tool.execute.timeout_seconds);
    return failedCall(tool, { code: 'TOOL_TIMEOUT', message: `No answer within ${seconds} seconds` });
  }
  if (error.kind === 'egress_blocked') {
    return failedCall(tool, {
      code: 'TOOL_EGRESS_BLOCKED',
      message: `The target may not be called: ${detail}`,
      ...(error.address === undefined ? {} : { address: error.address }),
    });
  }
  const repeatable = tool.execute.method === 'GET' || tool.execute.method === 'HEAD';
  return failedCall(
    tool,
    { code: 'TOOL_HTTP_ERROR', message: `The call failed: ${detail}` },
    repeatable && error.kind === 'connection',
  );
}
