import { createHash, createHmac, generateKeyPairSync } from 'node:crypto';
import { jwtVerify } from 'jose';
import { googleTokenEndpoint } from '../../src/api/core/google-token';
import { useService } from '../support/app';
import type { ApiClient, Reply } from '../support/client';
import { startReceiver } from '../support/receiver';
import type { ReceivedRequest, Receiver } from '../support/receiver';

const service = useService();
let receiver: Receiver;
let api: ApiClient;
let at: string;

beforeEach(async () => {
  receiver = await startReceiver();
  const owner = await service.signedIn();
  const { id } = await service.project(owner);
  at = `/v1/projects/${id}`;
  api = service.client(owner.token);
});

afterEach(() => receiver.close());

const tool = async (execute: object): Promise<string> => {
  const body = { name: 'target', parameters: { type: 'object' }, execute: { url: `${receiver.url}/call`, ...execute } };
  const answer = await api.post(`${at}/tools`, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body.id as string;
};
const call = (id: string, input: object = {}): Promise<Reply> => api.post(`${at}/tools/${id}/call`, { input });
const secret = async (value: string): Promise<string> =>
  (await api.post(`${at}/secrets`, { name: 's', value })).body.id as string;

describe('aws_sigv4', () => {
  const KEY = 'canary/secret+key';
  const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
  const sha = (text: string): string => createHash('sha256').update(text).digest('hex');

  /** The signature that the receiver of a request works out for itself. */
  function expectedSignature({ method, path, headers, body }: ReceivedRequest, region: string): string {
    const names = /SignedHeaders=([^,]+)/.exec(String(headers.authorization))![1]!.split(';');
    const [pathname, search = ''] = path.split('?');
    const canonical = [
      method,
      encodeURIComponent(pathname!).replaceAll('%2F', '/'),
      search.split('&').sort().join('&'),
      ...names.map((name) => `${name}:${String(headers[name])}`),
      '',
      names.join(';'),
      sha(body),
    ].join('\n');
    const stamp = String(headers['x-amz-date']);
    const scope = `${stamp.slice(0, 8)}/${region}/execute-api/aws4_request`;
    const text = ['AWS4-HMAC-SHA256', stamp, scope, sha(canonical)].join('\n');
    const key = [stamp.slice(0, 8), region, 'execute-api', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${KEY}`);
    return hmac(key, text).toString('hex');
  }

  const auth = { type: 'aws_sigv4', region: 'eu-central-1', service: 'execute-api', access_key_id: 'AKID' };

  test('signs the final request: body, query, context and idempotency key', async () => {
    const headers = { 'X-Tenant': '{{context:tenant}}', Authorization: 'configured' };
    const id = await tool({
      url: `${receiver.url}/call/{a}?b={b}`,
      headers,
      auth: { ...auth, secret_access_key: KEY },
    });
    const input = { a: 'x y', b: '1', rest: true };
    const answer = await api.post(`${at}/tools/${id}/call`, { input, tool_context: { tenant: 'acme' } });
    expect(answer.status).toBe(200);
    const seen = receiver.requests[0]!;
    const authorization = String(seen.headers.authorization);
    expect(authorization).toMatch(/Credential=AKID\/\d{8}\/eu-central-1\/execute-api\/aws4_request, /);
    expect(authorization).toMatch(/SignedHeaders=\S*host;idempotency-key;x-amz-date;x-svc-context-tenant;x-tenant, /);
    expect(authorization).toContain(`Signature=${expectedSignature(seen, 'eu-central-1')}`);
    expect(seen.body).toBe('{"rest":true}');
  });

  test('takes its key from a secret as it is now, and no echo of it comes back', async () => {
    const id = await secret('before');
    const target = await tool({ auth: { ...auth, secret_access_key: `{{secret:${id}}}` } });
    await api.patch(`${at}/secrets/${id}`, { value: KEY });
    receiver.respond({ status: 403, body: `not ${KEY}` });
    const answer = await call(target);
    expect(String(receiver.requests[0]!.headers.authorization)).toContain(
      expectedSignature(receiver.requests[0]!, 'eu-central-1'),
    );
    expect(answer.body.error.meta.tool_response_body).toBe('not [secret]');
  });
});

describe('gcp_service_account', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const keyFile = (given: object = {}): string =>
    JSON.stringify({
      type: 'service_account',
      client_email: `robot-${String(Math.random())}@project.iam.gserviceaccount.com`,
      private_key_id: 'kid-1',
      private_key: pem,
      token_uri: 'http://169.254.169.254/token',
      ...given,
    });
  const auth = (credentials: string) => ({ type: 'gcp_service_account', credentials, scopes: ['scope-a', 'scope-b'] });
  const fixed = googleTokenEndpoint.url;

  beforeEach(() => {
    googleTokenEndpoint.url = `${receiver.url}/token`;
    receiver.respond({ body: { access_token: 'ya29.canary', expires_in: 3600 } }, '/token');
  });

  afterEach(() => {
    googleTokenEndpoint.url = fixed;
  });

  test('the endpoint is the one of Google, whatever a key file says', () => {
    expect(fixed).toBe('https://oauth2.googleapis.com/token');
  });

  test('a token is asked for with a signed assertion, used, kept, and never comes back', async () => {
    const id = await tool({ headers: { authorization: 'configured' }, auth: auth(keyFile()) });
    receiver.respond((request) => ({ body: { echo: request.headers.authorization } }), '/call');
    expect((await call(id)).body).toEqual({ echo: 'Bearer [secret]' });
    expect((await call(id)).status).toBe(200);
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/token', '/call', '/call']);
    expect(receiver.requests[2]!.headers.authorization).toBe('Bearer ya29.canary');
    const asked = new URLSearchParams(receiver.requests[0]!.body);
    expect(asked.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const { payload, protectedHeader } = await jwtVerify(asked.get('assertion') ?? '', publicKey, { audience: fixed });
    expect(protectedHeader).toMatchObject({ alg: 'RS256', kid: 'kid-1' });
    expect(payload).toMatchObject({ scope: 'scope-a scope-b', iss: expect.stringMatching(/^robot-/) });
    expect(payload.exp! - payload.iat!).toBe(3600);
  });

  test('TOOL_AUTH_FAILED carries what the endpoint answered, and the target is not called', async () => {
    receiver.respond({ status: 401, body: { error: 'invalid_grant' } }, '/token');
    const answer = await call(await tool({ auth: auth(keyFile()) }));
    expect([answer.status, answer.body.error.code]).toEqual([502, 'TOOL_AUTH_FAILED']);
    expect(answer.body.error.meta).toMatchObject({ upstream_status: 401, upstream_body: '{"error":"invalid_grant"}' });
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/token']);
  });

  test.each([
    ['not json', 'text'],
    ['of another type', keyFile({ type: 'external_account', credential_source: { file: '/etc/passwd' } })],
    ['with a broken key', keyFile({ private_key: 'canary' })],
  ])('TOOL_AUTH_FAILED: a key file %s is not used', async (_name, text) => {
    const answer = await call(await tool({ auth: auth(text) }));
    expect([answer.status, answer.body.error.code]).toEqual([502, 'TOOL_AUTH_FAILED']);
    expect(answer.body.error.meta).toMatchObject({ upstream_status: null, upstream_body: null });
    expect(JSON.stringify(answer.body)).not.toContain('canary');
    expect(receiver.requests).toHaveLength(0);
  });

  test('an endpoint that cannot be reached fails the call, and one too slow for the tool is a timeout', async () => {
    receiver.respond({ disconnect: true }, '/token');
    expect((await call(await tool({ auth: auth(keyFile()) }))).body.error.code).toBe('TOOL_AUTH_FAILED');
    receiver.respond({ delayMs: 5_000 }, '/token');
    const slow = await call(await tool({ timeout_seconds: 1, auth: auth(keyFile()) }));
    expect([slow.status, slow.body.error.code]).toEqual([504, 'TOOL_TIMEOUT']);
  });

  test('an endpoint at an address inside is refused', async () => {
    googleTokenEndpoint.url = 'http://169.254.169.254/token';
    const answer = await call(await tool({ auth: auth(keyFile()) }));
    expect([answer.status, answer.body.error.code]).toEqual([403, 'TOOL_EGRESS_BLOCKED']);
  });
});
