import { createServer, type Socket } from 'node:net';
import type { ServerOptions } from 'node:https';
import { createEgressPolicy, parseAllowList } from '../../src/api/core/egress';
import { createOutbound, type Outbound, type OutboundRequest, type OutboundSettings } from '../../src/api/core/http';
import {
  authorityCertificate,
  receiverCertificate,
  receiverKey,
  selfSignedCertificate,
  selfSignedKey,
} from '../support/certificates';
import { testLookup } from '../support/dns';
import { startLoopback, type Loopback } from '../support/loopback';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

const server = async (...given: Parameters<typeof startLoopback>): Promise<Loopback> => {
  const started = await startLoopback(...given);
  open.push(started);
  return started;
};
const outbound = (allowed: string, settings: Partial<OutboundSettings> = {}): Outbound => {
  const policy = createEgressPolicy({ allowedHosts: parseAllowList(allowed), deniedCidrs: [] });
  const created = createOutbound({ policy, ...settings });
  open.push(created);
  return created;
};
const get = (url: string, more: Partial<OutboundRequest> = {}): OutboundRequest => ({
  url,
  method: 'GET',
  timeoutMs: 5_000,
  responseBytesMax: 1_000_000,
  onTooLarge: 'truncate',
  redirects: 'never',
  ...more,
});
const ok: Parameters<typeof startLoopback>[0] = (_request, response) => response.end('ok');

describe('a request', () => {
  test('carries method, body and headers as given, without those of the transport', async () => {
    const receiver = await server((_request, response) => {
      response.writeHead(418, { 'X-Answer': 'yes' }).end('short and stout');
    });
    const headers = {
      'X-Svc-Context-Key': 'v',
      Host: 'evil.test',
      Connection: 'close',
      'Transfer-Encoding': 'chunked',
      'Content-Length': '1',
    };
    const answer = await outbound('127.0.0.1').request(
      get(`${receiver.url}/a?b=c`, { method: 'POST', body: 'text', headers }),
    );
    expect(answer).toMatchObject({
      status: 418,
      headers: { 'x-answer': 'yes' },
      truncated: false,
      finalUrl: `${receiver.url}/a?b=c`,
    });
    expect(answer.body.toString()).toBe('short and stout');
    expect(receiver.requests).toMatchObject([{ method: 'POST', path: '/a?b=c', body: 'text' }]);
    const seen = receiver.requests[0];
    expect(seen?.headers.host).toBe(`127.0.0.1:${String(receiver.port)}`);
    expect(seen?.headers['content-length']).toBe('4');
    expect(seen?.rawHeaders).toContain('X-Svc-Context-Key');
  });

  test('uses its connection again for the same origin only', async () => {
    const first = await server(ok);
    const second = await server(ok);
    const client = outbound('127.0.0.1');
    for (let index = 0; index < 8; index += 1) await client.request(get(first.url));
    await client.request(get(second.url));
    // A connection rests for a turn of the event loop after each answer, so a hurried caller may alternate between two.
    expect(first.connections()).toBeLessThanOrEqual(2);
    expect(second.connections()).toBe(1);
  });

  test('does not look at proxy variables', async () => {
    const proxy = await server(ok);
    const receiver = await server(ok);
    const names = ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY'];
    for (const name of names) process.env[name] = proxy.url;
    try {
      await outbound('127.0.0.1').request(get(receiver.url));
    } finally {
      for (const name of names) Reflect.deleteProperty(process.env, name);
    }
    expect([proxy.connections(), receiver.connections()]).toEqual([0, 1]);
  });

  test.each(['ftp://127.0.0.1/', 'file:///etc/passwd', 'data:text/plain,x', 'http://u:p@127.0.0.1/', 'nonsense'])(
    '%s is refused',
    async (url) => {
      await expect(outbound('127.0.0.1').request(get(url))).rejects.toMatchObject({
        kind: 'egress_blocked',
        sent: false,
      });
    },
  );

  test('a header that would split the request is refused before anything is sent', async () => {
    const receiver = await server(ok);
    const request = get(receiver.url, { headers: { 'X-A': 'b\r\nX-C: d' } });
    await expect(outbound('127.0.0.1').request(request)).rejects.toMatchObject({ kind: 'connection', sent: false });
    expect(receiver.requests).toEqual([]);
  });
});

describe('the guard', () => {
  test.each([
    ['127.0.0.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['0x7F.0.0.1', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['①②⑦.⓪.⓪.①', '127.0.0.1'],
    ['%31%32%37.0.0.1', '127.0.0.1'],
    ['0', '0.0.0.0'],
    ['[::]', '::'],
    ['[::1]', '::1'],
    ['[::ffff:127.0.0.1]', '::ffff:7f00:1'],
    ['[64:ff9b::127.0.0.1]', '64:ff9b::7f00:1'],
    ['[2002:7f00:1::]', '2002:7f00:1::'],
    ['169.254.169.254', '169.254.169.254'],
    ['2852039166', '169.254.169.254'],
    ['10.0.0.5', '10.0.0.5'],
  ])('the literal %s is refused as %s', async (host, address) => {
    const receiver = await server(ok);
    const request = get(`http://${host}:${String(receiver.port)}/`);
    await expect(outbound('').request(request)).rejects.toMatchObject({ kind: 'egress_blocked', address, sent: false });
    expect(receiver.connections()).toBe(0);
  });

  test.each([
    ['one private address', [['10.0.0.5']], '10.0.0.5'],
    ['a public and a private address', [['1.1.1.1', '10.0.0.5']], '10.0.0.5'],
    ['a private address after an allowed one', [['127.0.0.1', '192.168.0.1']], '192.168.0.1'],
    ['a mapped private address', [['::ffff:10.0.0.5']], '::ffff:10.0.0.5'],
    ['a scoped address', [['fe80::1%lo']], 'fe80::1%lo'],
  ])('a host with %s is refused', async (_case, answers, address) => {
    const receiver = await server(ok);
    const { lookup } = testLookup({ 'hook.test': answers });
    const request = get(`http://hook.test:${String(receiver.port)}/`);
    await expect(outbound('127.0.0.1', { lookup }).request(request)).rejects.toMatchObject({
      kind: 'egress_blocked',
      address,
    });
    expect(receiver.connections()).toBe(0);
  });

  test.each([
    ['cannot be resolved', {}],
    ['has no address', { 'hook.test': [[]] }],
    ['resolves to something else', { 'hook.test': [['other.test']] }],
    ['has too many addresses', { 'hook.test': [Array.from({ length: 65 }, () => '127.0.0.1')] }],
  ])('a host that %s is refused', async (_case, table) => {
    const { lookup } = testLookup(table);
    await expect(outbound('127.0.0.1,hook.test', { lookup }).request(get('http://hook.test/'))).rejects.toMatchObject({
      kind: 'egress_blocked',
      sent: false,
    });
  });

  test('[webhooks 3] the answer that was checked is the one used, and a changed answer meets the check again', async () => {
    const receiver = await server((_request, response) => {
      response.writeHead(200, { connection: 'close' }).end('ok');
    });
    // The loopback stands for a public address here, so that the test stays on this machine.
    const { lookup, asked } = testLookup({ 'hook.test': [['127.0.0.1'], ['10.0.0.5']] });
    const client = outbound('127.0.0.1', { lookup });
    const request = get(`http://hook.test:${String(receiver.port)}/`);
    expect((await client.request(request)).status).toBe(200);
    expect(asked).toEqual(['hook.test']);
    await expect(client.request(request)).rejects.toMatchObject({ kind: 'egress_blocked', address: '10.0.0.5' });
    expect(asked).toEqual(['hook.test', 'hook.test']);
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.requests[0]?.headers.host).toBe(`hook.test:${String(receiver.port)}`);
  });

  test('the allow list exempts a name, at its port only where one is given', async () => {
    const receiver = await server(ok);
    const { lookup } = testLookup({ 'hook.test': [['127.0.0.1']] });
    const request = get(`http://hook.test:${String(receiver.port)}/`);
    expect((await outbound('hook.test', { lookup }).request(request)).status).toBe(200);
    expect((await outbound(`hook.test:${String(receiver.port)}`, { lookup }).request(request)).status).toBe(200);
    await expect(outbound('hook.test:1', { lookup }).request(request)).rejects.toMatchObject({
      kind: 'egress_blocked',
    });
  });

  test('the next checked address is tried when one does not answer', async () => {
    const receiver = await server(ok);
    const { lookup } = testLookup({ 'hook.test': [['::1', '127.0.0.1']] });
    const request = get(`http://hook.test:${String(receiver.port)}/`);
    expect((await outbound('127.0.0.1,::1', { lookup }).request(request)).status).toBe(200);
  });

  test("the system's resolver is asked by default", async () => {
    const receiver = await server(ok);
    const request = get(`http://localhost:${String(receiver.port)}/`);
    expect((await outbound('localhost').request(request)).status).toBe(200);
    await expect(outbound('').request(request)).rejects.toMatchObject({ kind: 'egress_blocked' });
  });
});

describe('TLS', () => {
  const names: (string | undefined)[] = [];
  const trusted: ServerOptions = {
    cert: receiverCertificate,
    key: receiverKey,
    SNICallback: (name, done) => {
      names.push(name);
      done(null);
    },
  };
  const { lookup } = testLookup({ 'receiver.test': [['127.0.0.1']], 'other.test': [['127.0.0.1']] });
  const call = async (tls: ServerOptions, host: string, more: Partial<OutboundRequest> = {}): Promise<number> => {
    const receiver = await server(ok, tls);
    const client = outbound('127.0.0.1', { lookup, ca: authorityCertificate });
    return (await client.request(get(`https://${host}:${String(receiver.port)}/`, more))).status;
  };

  test('names and verifies the original host, whatever Host header a caller gives', async () => {
    names.length = 0;
    await expect(call(trusted, 'receiver.test', { headers: { host: 'other.test' } })).resolves.toBe(200);
    expect(names).toEqual(['receiver.test']);
  });

  test.each([
    ['a certificate of another name', trusted, 'other.test', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['a certificate of a name for an address', trusted, '127.0.0.1', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [
      'a self-signed certificate',
      { cert: selfSignedCertificate, key: selfSignedKey },
      'receiver.test',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
    ],
  ])('%s is refused', async (_case, tls, host, detail) => {
    await expect(call(tls, host)).rejects.toMatchObject({ kind: 'tls', detail, sent: false });
  });

  test('a server that speaks only TLS 1.1 is refused', async () => {
    const old: ServerOptions = {
      ...trusted,
      minVersion: 'TLSv1.1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    };
    await expect(call(old, 'receiver.test')).rejects.toMatchObject({ kind: 'tls', sent: false });
  });

  test('a server without TLS is refused', async () => {
    const receiver = await server(ok);
    const request = get(`https://127.0.0.1:${String(receiver.port)}/`);
    await expect(outbound('127.0.0.1').request(request)).rejects.toMatchObject({ kind: 'tls', sent: false });
  });
});

describe('failures', () => {
  const bare = async (onData: (socket: Socket) => void): Promise<string> => {
    const sockets = new Set<Socket>();
    const listening = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('data', () => {
        onData(socket);
      });
    });
    await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
    open.push({
      close: () =>
        new Promise((resolve) => {
          for (const socket of sockets) socket.destroy();
          listening.close(() => {
            resolve();
          });
        }),
    });
    const address = listening.address();
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? String(address.port) : ''}/`;
  };

  test('a closed port: nothing was sent', async () => {
    const receiver = await startLoopback(ok);
    await receiver.close();
    await expect(outbound('127.0.0.1').request(get(receiver.url))).rejects.toMatchObject({
      kind: 'connection',
      detail: 'ECONNREFUSED',
      sent: false,
    });
  });

  test('a connection that breaks before the answer: something may have been sent', async () => {
    const url = await bare((socket) => socket.destroy());
    await expect(outbound('127.0.0.1').request(get(url))).rejects.toMatchObject({ kind: 'connection', sent: true });
  });

  test('a connection that breaks in mid-body', async () => {
    const url = await bare((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', () => socket.destroy());
    });
    await expect(outbound('127.0.0.1').request(get(url))).rejects.toMatchObject({ kind: 'connection', sent: true });
  });

  test('an answer that is no HTTP', async () => {
    const url = await bare((socket) => socket.end('220 mail ready\r\n'));
    await expect(outbound('127.0.0.1').request(get(url))).rejects.toMatchObject({
      kind: 'connection',
      detail: 'malformed response',
      sent: true,
    });
  });

  test('no connection in time: nothing was sent, and nothing is sent later', async () => {
    const receiver = await server(ok);
    let answer: (addresses: { address: string }[]) => void = () => undefined;
    const lookup = (): Promise<{ address: string }[]> => new Promise((resolve) => (answer = resolve));
    const client = outbound('127.0.0.1', { lookup });
    const request = get(`http://hook.test:${String(receiver.port)}/`, { timeoutMs: 50 });
    await expect(client.request(request)).rejects.toMatchObject({ kind: 'timeout', sent: false });
    answer([{ address: '127.0.0.1' }]);
    // A second request on the same client is served after whatever the first one still does.
    const next = client.request({ ...request, timeoutMs: 5_000, method: 'HEAD' });
    answer([{ address: '127.0.0.1' }]);
    expect((await next).status).toBe(200);
    expect(receiver.requests.map(({ method }) => method)).toEqual(['HEAD']);
  });

  test('no headers in time', async () => {
    const url = await bare(() => undefined);
    await expect(outbound('127.0.0.1').request(get(url, { timeoutMs: 50 }))).rejects.toMatchObject({
      kind: 'timeout',
      sent: true,
    });
  });

  test('a body that never ends in time, however it trickles', async () => {
    const url = await bare((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n');
      const trickle = (): void => {
        if (socket.destroyed) return;
        socket.write('.');
        setTimeout(trickle, 10);
      };
      trickle();
    });
    const begun = Date.now();
    await expect(outbound('127.0.0.1').request(get(url, { timeoutMs: 100 }))).rejects.toMatchObject({
      kind: 'timeout',
      sent: true,
    });
    expect(Date.now() - begun).toBeLessThan(2_000);
  });

  test("the caller's signal ends a request, before it starts and in its middle", async () => {
    const url = await bare((socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx'));
    const client = outbound('127.0.0.1');
    await expect(client.request(get(url, { signal: AbortSignal.abort() }))).rejects.toMatchObject({
      kind: 'aborted',
      sent: false,
    });
    const request = get(url, { signal: AbortSignal.timeout(50) });
    await expect(client.request(request)).rejects.toMatchObject({ kind: 'aborted', sent: true });
  });

  test('close ends what is under way', async () => {
    const url = await bare(() => undefined);
    const client = outbound('127.0.0.1');
    const pending = expect(client.request(get(url))).rejects.toMatchObject({ kind: 'aborted' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await client.close();
    await pending;
  });
});
