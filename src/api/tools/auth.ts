import { AwsV4Signer } from 'aws4fetch';
import { clock } from '../core/clock';
import { OutboundError } from '../core/http';
import { GoogleKeyError, GoogleTokenError, googleAccessToken } from '../core/google-token';
import type { Credentials } from './filling';
import type { Auth, AwsAuth, GcpAuth, Guarded } from './models';
import { fillCredential } from './templates';

/** The request as it will go out, but for what signing adds. */
export interface FinalRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body?: string | Uint8Array | undefined;
}

/** What signing adds. */
export interface Signed {
  headers: [name: string, value: string][];
  /** Values made by it that must not come back either. */
  secrets: string[];
}

/** The request cannot be signed; no text of it holds a credential but the body of the endpoint, which may. */
export class AuthError extends Error {
  constructor(
    message: string,
    readonly upstream: { status: number | null; body: string | null } = { status: null, body: null },
  ) {
    super(message);
  }
}

/**
 * Signs a request, last of all: nothing in it may change afterwards. Spec: Tools, `execute.auth`.
 * @throws AuthError; OutboundError of kind `egress_blocked` or `aborted` of a token endpoint
 */
export async function signed(
  auth: Auth,
  request: FinalRequest,
  { credentials, signal }: { credentials: Credentials; signal: AbortSignal },
): Promise<Signed> {
  const value = (field: string, given: Guarded): string =>
    typeof given === 'string' ? fillCredential(given, credentials.secrets) : (credentials.auth.get(field) ?? '');
  return auth.type === 'aws_sigv4' ? signedForAws(auth, request, value) : withGoogleToken(auth, value, signal);
}

type ValueOf = (field: string, given: Guarded) => string;

async function signedForAws(
  auth: AwsAuth,
  { url, method, headers, body }: FinalRequest,
  value: ValueOf,
): Promise<Signed> {
  const token = auth.session_token === undefined ? undefined : value('session_token', auth.session_token);
  const signer = new AwsV4Signer({
    url,
    method,
    headers,
    body: body as string | undefined,
    region: auth.region,
    service: auth.service,
    accessKeyId: value('access_key_id', auth.access_key_id),
    secretAccessKey: value('secret_access_key', auth.secret_access_key),
    ...(token === undefined ? {} : { sessionToken: token }),
    datetime: clock
      .now()
      .toISOString()
      .replace(/[:-]|\.\d{3}/g, ''),
  });
  const { headers: result } = await signer.sign();
  const added = ['authorization', 'x-amz-date', 'x-amz-content-sha256', 'x-amz-security-token'];
  return {
    headers: added.flatMap((name) => {
      const found = result.get(name);
      return found === null ? [] : [[name, found] satisfies [string, string]];
    }),
    secrets: [],
  };
}

async function withGoogleToken(auth: GcpAuth, value: ValueOf, signal: AbortSignal): Promise<Signed> {
  const keyFile = value('credentials', auth.credentials);
  try {
    const token = await googleAccessToken({ keyFile, scopes: auth.scopes, signal });
    return { headers: [['Authorization', `Bearer ${token}`]], secrets: [token] };
  } catch (error) {
    if (error instanceof GoogleKeyError) throw new AuthError(error.message, { status: null, body: null });
    if (error instanceof OutboundError && error.kind !== 'egress_blocked' && error.kind !== 'aborted') {
      throw new AuthError('The token endpoint could not be reached.', { status: null, body: null });
    }
    if (!(error instanceof GoogleTokenError)) throw error;
    throw new AuthError(error.message, { status: error.status, body: error.answered.body });
  }
}
