import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { createEgressPolicy, parseAllowList } from '../../src/api/core/egress';
import { createOutbound, type Outbound, type OutboundRequest } from '../../src/api/core/http';
import { nextHop } from '../../src/api/core/http-redirects';
import { startLoopback, type Loopback } from '../support/loopback';

interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

let receiver: Loopback;
let other: Loopback;
let client: Outbound;
let replies: Record<string, Reply> = {};

beforeAll(async () => {
  const answer: Parameters<typeof startLoopback>[0] = ({ path }, response) => {
    const { status = 200, headers = {}, body = '' } = replies[path] ?? { status: 404 };
    response.writeHead(status, headers).end(body);
  };
  receiver = await startLoopback(answer);
  other = await startLoopback(answer);
  client = createOutbound({
    policy: createEgressPolicy({ allowedHosts: parseAllowList('127.0.0.1'), deniedCidrs: [] }),
  });
});
afterAll(async () => {
  await client.close();
  await Promise.all([receiver.close(), other.close()]);
});
beforeEach(() => {
  replies = {};
  receiver.requests.length = 0;
  other.requests.length = 0;
});

const send = (path: string, more: Partial<OutboundRequest> = {}): ReturnType<Outbound['request']> =>
  client.request({
    url: receiver.url + path,
    method: 'GET',
    timeoutMs: 5_000,
    responseBytesMax: 1_000,
    onTooLarge: 'fail',
    redirects: 'follow',
    ...more,
  });

describe('bodies', () => {
  const text = 'ä'.repeat(200);
  test.each([
    ['gzip', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['GZIP', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['deflate', deflateRawSync(text)],
    ['br', brotliCompressSync(text)],
    ['deflate, gzip', gzipSync(deflateSync(text))],
    ['deflate, gzip', gzipSync(deflateRawSync(text))],
    ['identity', Buffer.from(text)],
  ])('%s is decoded', async (encoding, body) => {
    replies['/'] = { headers: { 'content-encoding': encoding, 'content-length': String(body.length) }, body };
    const answer = await send('/');
    expect(answer.body.toString()).toBe(text);
    expect(answer.truncated).toBe(false);
    expect(answer.headers['content-length']).toBe(encoding === 'identity' ? String(body.length) : undefined);
  });

  test('what can be decoded is asked for, unless the caller asks otherwise', async () => {
    replies['/'] = {};
    await send('/');
    await send('/', { headers: { 'Accept-Encoding': 'identity' } });
    expect(receiver.requests.map(({ headers }) => headers['accept-encoding'])).toEqual([
      'gzip, deflate, br',
      'identity',
    ]);
  });

  test('an unknown encoding is left alone', async () => {
    replies['/'] = { headers: { 'content-encoding': 'rot13' }, body: 'grkg' };
    const answer = await send('/');
    expect([answer.body.toString(), answer.headers['content-encoding']]).toEqual(['grkg', 'rot13']);
  });

  test.each(['gzip', 'deflate', 'br'])('an empty %s body is empty', async (encoding) => {
    replies['/'] = { headers: { 'content-encoding': encoding } };
    expect((await send('/')).body).toHaveLength(0);
    expect((await send('/', { method: 'HEAD' })).body).toHaveLength(0);
  });

  test.each([
    ['gzip', 'not compressed at all'],
    ['deflate', 'not compressed at all'],
    ['br', 'not compressed at all'],
    ['gzip, gzip, gzip, gzip, gzip, gzip', ''],
  ])('a broken %s body fails', async (encoding, body) => {
    replies['/'] = { headers: { 'content-encoding': encoding }, body };
    await expect(send('/')).rejects.toMatchObject({ kind: 'connection', sent: true });
  });

  test('a body of exactly the limit is whole, one more byte is too much', async () => {
    replies['/fits'] = { body: 'x'.repeat(1_000) };
    replies['/over'] = { body: 'x'.repeat(1_001) };
    expect(await send('/fits')).toMatchObject({ truncated: false, body: Buffer.from('x'.repeat(1_000)) });
    await expect(send('/over')).rejects.toMatchObject({ kind: 'too_large', sent: true });
    expect(await send('/over', { onTooLarge: 'truncate' })).toMatchObject({
      truncated: true,
      body: Buffer.from('x'.repeat(1_000)),
    });
  });

  test.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })],
  ])('a %s bomb is cut at the limit of decoded bytes', async (encoding, compress) => {
    const bomb = compress(Buffer.alloc(60 * 1024 * 1024));
    expect(bomb.length).toBeLessThan(1_000_000);
    replies['/'] = { headers: { 'content-encoding': encoding }, body: bomb };
    const before = process.memoryUsage().arrayBuffers;
    const answer = await send('/', { onTooLarge: 'truncate', responseBytesMax: 64 * 1024 });
    expect([answer.truncated, answer.body.length]).toEqual([true, 64 * 1024]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * 1024 * 1024);
    await expect(send('/')).rejects.toMatchObject({ kind: 'too_large' });
  });
});

describe('redirects', () => {
  const secrets = { Authorization: 'Bearer x', Cookie: 'a=b', 'Proxy-Authorization': 'Basic y', 'X-Kept': 'z' };

  test('are never followed where the caller says so', async () => {
    replies['/'] = { status: 302, headers: { location: `${other.url}/there` }, body: 'gone' };
    const answer = await send('/', { redirects: 'never' });
    expect([answer.status, answer.body.toString()]).toEqual([302, 'gone']);
    expect(other.requests).toEqual([]);
  });

  test('keep credentials on the same origin and drop them on another', async () => {
    replies['/'] = { status: 307, headers: { location: '/second' } };
    replies['/second'] = { status: 307, headers: { location: `${other.url}/third` } };
    replies['/third'] = { body: 'here' };
    const answer = await send('/', { headers: secrets });
    expect(answer).toMatchObject({ status: 200, finalUrl: `${other.url}/third` });
    expect(receiver.requests[1]?.headers).toMatchObject({ authorization: 'Bearer x', cookie: 'a=b', 'x-kept': 'z' });
    const { headers } = other.requests[0] ?? { headers: {} };
    expect(headers).toMatchObject({ 'x-kept': 'z' });
    for (const name of ['authorization', 'cookie', 'proxy-authorization']) expect(headers).not.toHaveProperty(name);
  });

  test.each([
    [301, 'POST', 'GET', ''],
    [302, 'PUT', 'GET', ''],
    [303, 'DELETE', 'GET', ''],
    [302, 'HEAD', 'HEAD', ''],
    [303, 'HEAD', 'HEAD', ''],
    [307, 'POST', 'POST', '{}'],
    [308, 'PATCH', 'PATCH', '{}'],
  ] as const)('%d turns %s into %s', async (status, method, expected, body) => {
    replies['/'] = { status, headers: { location: '/next' } };
    replies['/next'] = {};
    const sends = method === 'HEAD' || method === 'DELETE' ? {} : { body: '{}' };
    await send('/', { method, headers: { 'Content-Type': 'application/json' }, ...sends });
    const next = receiver.requests[1];
    expect([next?.method, next?.body]).toEqual([expected, body]);
    if (method !== 'HEAD')
      expect(next?.headers['content-type']).toBe(expected === 'GET' ? undefined : 'application/json');
  });

  test('end after the fifth', async () => {
    for (let hop = 0; hop < 6; hop += 1)
      replies[`/${String(hop)}`] = { status: 302, headers: { location: `/${String(hop + 1)}` } };
    replies['/6'] = { body: 'end' };
    expect((await send('/1')).body.toString()).toBe('end');
    receiver.requests.length = 0;
    await expect(send('/0')).rejects.toMatchObject({ kind: 'redirects', sent: true });
    expect(receiver.requests).toHaveLength(6);
  });

  test.each([
    ['a private address', 'http://169.254.169.254/latest', { kind: 'egress_blocked', address: '169.254.169.254' }],
    ['a hex spelling of it', 'http://0xa9fea9fe/', { kind: 'egress_blocked', address: '169.254.169.254' }],
    ['another scheme', 'file:///etc/passwd', { kind: 'egress_blocked' }],
    ['an address with credentials', 'http://a:b@127.0.0.1/', { kind: 'egress_blocked' }],
    ['something that is no URL', 'http://[', { kind: 'redirects' }],
  ])('to %s are refused, and count as sent', async (_case, location, expected) => {
    replies['/'] = { status: 302, headers: { location } };
    await expect(send('/')).rejects.toMatchObject({ ...expected, sent: true });
  });

  test('need a location', async () => {
    replies['/'] = { status: 302, body: 'nowhere' };
    expect(await send('/')).toMatchObject({ status: 302, body: Buffer.from('nowhere') });
  });

  test('to another port or scheme of the same host are another origin', () => {
    const hop = { url: new URL('https://a.test/x'), method: 'GET', headers: secrets };
    const kept = (location: string): string[] => Object.keys(nextHop(hop, 302, location)?.headers ?? {});
    expect(kept('https://a.test:443/y')).toEqual(Object.keys(secrets));
    expect(kept('http://a.test/y')).toEqual(['X-Kept']);
    expect(kept('https://a.test:8443/y')).toEqual(['X-Kept']);
    expect(kept('https://b.a.test/y')).toEqual(['X-Kept']);
    expect(kept('//b.test')).toEqual(['X-Kept']);
    expect(nextHop(hop, 304, '/y')).toBeNull();
  });
});
