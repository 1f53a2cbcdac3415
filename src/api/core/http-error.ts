export type OutboundFailure =
  'egress_blocked' | 'timeout' | 'connection' | 'tls' | 'too_large' | 'redirects' | 'aborted';

interface OutboundErrorFields {
  kind: OutboundFailure;
  /** Short cause, safe to show to a tenant: `ECONNREFUSED`, `CERT_HAS_EXPIRED`, `127.0.0.1 is not public`. */
  detail: string;
  /** True when any byte of the request may have left this process; false = repeating it is safe. */
  sent: boolean;
  /** The refused address. */
  address?: string;
  cause?: unknown;
}

/** The one way in which an outbound request fails; an HTTP status of 400 or more is an answer, not a failure. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly kind: OutboundFailure;
  readonly detail: string;
  readonly sent: boolean;
  readonly address: string | undefined;

  constructor(fields: OutboundErrorFields) {
    super(`${fields.kind}: ${fields.detail}`, { cause: fields.cause });
    this.kind = fields.kind;
    this.detail = fields.detail;
    this.sent = fields.sent;
    this.address = fields.address;
  }
}

/** Names for what the HTTP library calls by codes of its own. */
const LIBRARY_CODES: Record<string, { kind: OutboundFailure; detail: string }> = {
  UND_ERR_CONNECT_TIMEOUT: { kind: 'connection', detail: 'ETIMEDOUT' },
  UND_ERR_HEADERS_TIMEOUT: { kind: 'timeout', detail: 'no response headers in time' },
  UND_ERR_BODY_TIMEOUT: { kind: 'timeout', detail: 'response body stalled' },
  UND_ERR_HEADERS_OVERFLOW: { kind: 'too_large', detail: 'response headers too large' },
  UND_ERR_SOCKET: { kind: 'connection', detail: 'connection closed' },
  UND_ERR_INVALID_ARG: { kind: 'connection', detail: 'invalid request' },
  UND_ERR_DESTROYED: { kind: 'aborted', detail: 'client closed' },
  UND_ERR_CLOSED: { kind: 'aborted', detail: 'client closed' },
};
const TLS_CODE =
  /^(ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO$|CERT_|CRL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|HOSTNAME_MISMATCH)/;
const CAUSES_MAX = 5;

/** A text field of an error, read by shape: errors of the runtime need not be of this realm's classes. */
export function errorText(error: unknown, field: 'code' | 'name'): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const value = (error as { code?: unknown; name?: unknown })[field];
  return typeof value === 'string' ? value : undefined;
}

function described(error: unknown): { kind: OutboundFailure; detail: string } {
  const code = errorText(error, 'code');
  if (errorText(error, 'name') === 'HTTPParserError') return { kind: 'connection', detail: 'malformed response' };
  if (code === undefined) return { kind: 'connection', detail: errorText(error, 'name') ?? 'unknown' };
  const known = LIBRARY_CODES[code];
  if (known !== undefined) return known;
  if (TLS_CODE.test(code)) return { kind: 'tls', detail: code };
  if (code.startsWith('Z_') || code.startsWith('ERR__ERROR_FORMAT') || code.startsWith('ERR_BROTLI'))
    return { kind: 'connection', detail: 'malformed content encoding' };
  return { kind: 'connection', detail: code };
}

/** Any error of the transport as an OutboundError; `sent` is added to what the error itself says. */
export function toOutboundError(error: unknown, sent: boolean): OutboundError {
  if (!(error instanceof OutboundError)) return new OutboundError({ ...described(error), sent, cause: error });
  if (error.sent || !sent) return error;
  const { kind, detail, address } = error;
  return new OutboundError({
    kind,
    detail,
    sent: true,
    cause: error.cause,
    ...(address === undefined ? {} : { address }),
  });
}

/** The OutboundError behind an error of a library that was given `outbound.fetch`, if that was the reason. */
export function outboundErrorOf(error: unknown): OutboundError | undefined {
  let current = error;
  for (let depth = 0; depth < CAUSES_MAX && typeof current === 'object' && current !== null; depth += 1) {
    if (current instanceof OutboundError) return current;
    current = (current as { cause?: unknown }).cause;
  }
  return undefined;
}
