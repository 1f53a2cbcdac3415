import { OutboundError } from '../core/http';
import type { Outbound, OutboundAnswer } from '../core/http';
import { secretValues } from '../secrets/service';
import { hiddenHeaders } from './headers';
import type { Execute } from './models';
import { redactionOf } from './redaction';
import type { Redaction } from './redaction';
import { readAnswer } from './response';
import { toolLiterals } from './service';
import {
  FillError,
  argumentText,
  encoded,
  fillHeader,
  fillUrl,
  parseHeader,
  parseUrl,
  piecesOf,
  secretIdsOf,
} from './templates';

/** Decoded bytes of an answer; a longer one is an error. */
export const RESPONSE_BYTES_MAX = 5_000_000;
const SHOWN_CHARACTERS_MAX = 4096;

export interface HttpCall {
  /** Of the turn's snapshot. */
  tool: { id: string; name: string; execute: Execute };
  projectId: string;
  args: Record<string, unknown>;
  /** `<generation id>:<tool call id>`. */
  idempotencyKey: string;
  signal: AbortSignal;
  outbound: Outbound;
}

/** Why a call failed; URLs are the template's, and no text holds a credential. */
export interface ToolCallError {
  name: string;
  code: 'VALIDATION_FAILED' | 'SECRET_NOT_FOUND' | 'TOOL_EGRESS_BLOCKED' | 'TOOL_HTTP_ERROR' | 'TOOL_TIMEOUT';
  message: string;
  method: string;
  url: string;
  /** Of an answer that is not 2xx. */
  status?: number;
  /** Its first 4,096 characters. */
  body?: string;
  /** The address that may not be called. */
  address?: string;
}

export type HttpOutcome =
  | { kind: 'result'; value: unknown }
  | {
      kind: 'error';
      error: ToolCallError;
      /** Whether the call may be made again: a GET or HEAD whose connection failed. */
      retryable: boolean;
    };

interface Credentials {
  secrets: Map<string, string>;
  literals: Map<string, string>;
}

/**
 * Makes one call of an http tool, with secrets as they are now. Spec: Tools, http. Repeating is safe only where the
 * outcome says so; otherwise the target may have acted already.
 * @throws OutboundError of kind `aborted` when `signal` ended the call
 */
export async function dispatchHttp(call: HttpCall): Promise<HttpOutcome> {
  const found = await credentialsOf(call);
  if ('missing' in found) return failed(call, { code: 'SECRET_NOT_FOUND', message: `${found.missing} is not there` });
  const redaction = redactionOf([...found.secrets.values(), ...[...found.literals.values()].flatMap(partsOfLiteral)]);
  try {
    const request = requestOf(call, found);
    const answer = await call.outbound.request({
      ...request,
      method: call.tool.execute.method,
      timeoutMs: call.tool.execute.timeout_seconds * 1000,
      responseBytesMax: RESPONSE_BYTES_MAX,
      onTooLarge: 'truncate',
      redirects: 'follow',
      signal: call.signal,
    });
    return outcomeOf(call, answer, redaction);
  } catch (error) {
    if (error instanceof FillError) return failed(call, { code: 'VALIDATION_FAILED', message: error.message });
    if (error instanceof OutboundError && error.kind !== 'aborted') return transportFailure(call, error, redaction);
    throw error;
  }
}

/** The secrets that the templates name and the credentials of the headers, or what of them is missing. */
async function credentialsOf({ tool, projectId }: HttpCall): Promise<Credentials | { missing: string }> {
  const { url, headers } = tool.execute;
  const open = Object.values(headers).filter((value) => typeof value === 'string');
  const ids = secretIdsOf([...piecesOf(parseUrl(url)), ...open.flatMap(parseHeader)]);
  const secrets = await secretValues(projectId, ids);
  const missing = ids.find((id) => !secrets.has(id));
  if (missing !== undefined) return { missing: `The secret ${missing}` };
  const hidden = hiddenHeaders(headers);
  if (hidden.length === 0) return { secrets, literals: new Map() };
  const literals = (await toolLiterals(projectId, tool.id)) ?? new Map<string, string>();
  const gone = hidden.find((name) => !literals.has(name));
  return gone === undefined ? { secrets, literals } : { missing: `The credential of the header ${gone}` };
}

/** A target may echo a credential without its scheme: `Bearer x` is also known as `x`. */
const partsOfLiteral = (value: string): string[] => [value, value.slice(value.indexOf(' ') + 1)];

function requestOf(
  { tool, args, idempotencyKey }: HttpCall,
  { secrets, literals }: Credentials,
): { url: string; headers: Record<string, string>; body?: string } {
  const { execute } = tool;
  const headers = new Map([['user-agent', ['User-Agent', 'svc-tools/1']]]);
  for (const [name, value] of Object.entries(execute.headers)) {
    const filled = typeof value === 'string' ? fillHeader(name, value, secrets) : (literals.get(name) ?? '');
    headers.set(name.toLowerCase(), [name, filled]);
  }
  headers.set('idempotency-key', ['Idempotency-Key', idempotencyKey]);
  const { url, rest } = fillUrl(parseUrl(execute.url), { args, secrets });
  const withBody = execute.method === 'POST' || execute.method === 'PUT' || execute.method === 'PATCH';
  if (withBody && !headers.has('content-type')) headers.set('content-type', ['Content-Type', 'application/json']);
  return {
    url: withBody ? url : withQuery(url, rest),
    headers: Object.fromEntries(headers.values()) as Record<string, string>,
    ...(withBody ? { body: JSON.stringify(rest) } : {}),
  };
}

function withQuery(url: string, rest: Record<string, unknown>): string {
  const pairs = Object.entries(rest).map(([name, value]) => `${encoded(name)}=${encoded(argumentText(value))}`);
  if (pairs.length === 0) return url;
  const joint = !url.includes('?') ? '?' : /[?&]$/.test(url) ? '' : '&';
  return url + joint + pairs.join('&');
}

function outcomeOf(call: HttpCall, answer: OutboundAnswer, redaction: Redaction): HttpOutcome {
  const { status, body, truncated } = answer;
  const succeeded = status >= 200 && status < 300;
  if (succeeded && truncated) {
    return failed(call, {
      code: 'TOOL_HTTP_ERROR',
      message: `The answer is longer than ${String(RESPONSE_BYTES_MAX)} bytes`,
      status,
    });
  }
  const read = readAnswer(body, redaction);
  if (succeeded) return { kind: 'result', value: status === 204 ? null : read.value };
  return failed(call, {
    code: 'TOOL_HTTP_ERROR',
    message: `The target answered ${String(status)}`,
    status,
    body: read.text.slice(0, SHOWN_CHARACTERS_MAX),
  });
}

function transportFailure(call: HttpCall, error: OutboundError, redaction: Redaction): HttpOutcome {
  const detail = redaction.text(error.detail);
  if (error.kind === 'timeout') {
    const seconds = String(call.tool.execute.timeout_seconds);
    return failed(call, { code: 'TOOL_TIMEOUT', message: `No answer within ${seconds} seconds` });
  }
  if (error.kind === 'egress_blocked') {
    return failed(call, {
      code: 'TOOL_EGRESS_BLOCKED',
      message: `The target may not be called: ${detail}`,
      ...(error.address === undefined ? {} : { address: error.address }),
    });
  }
  const repeatable = call.tool.execute.method === 'GET' || call.tool.execute.method === 'HEAD';
  return failed(
    call,
    { code: 'TOOL_HTTP_ERROR', message: `The call failed: ${detail}` },
    repeatable && error.kind === 'connection',
  );
}

const failed = (
  { tool }: HttpCall,
  facts: Omit<ToolCallError, 'name' | 'method' | 'url'>,
  retryable = false,
): HttpOutcome => ({
  kind: 'error',
  error: { name: tool.name, method: tool.execute.method, url: tool.execute.url, ...facts },
  retryable,
});
