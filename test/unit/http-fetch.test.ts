import { gzipSync } from 'node:zlib';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createEgressPolicy, parseAllowList } from '../../src/api/core/egress';
import { createOutbound, outboundErrorOf, type Outbound } from '../../src/api/core/http';
import { startLoopback, type Loopback } from '../support/loopback';

let receiver: Loopback;
let client: Outbound;
let answer: Parameters<typeof startLoopback>[0];

beforeAll(async () => {
  receiver = await startLoopback((request, response) => {
    answer(request, response);
  });
  client = createOutbound({
    policy: createEgressPolicy({ allowedHosts: parseAllowList('127.0.0.1'), deniedCidrs: [] }),
  });
});
afterAll(async () => {
  await client.close();
  await receiver.close();
});
beforeEach(() => {
  receiver.requests.length = 0;
  answer = (_request, response) => response.end('ok');
});

const failureOf = async (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => undefined,
    (error: unknown) => error,
  );

test('sends what it is given and answers as fetch does', async () => {
  answer = (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/json', 'set-cookie': ['a=1', 'b=2'] }).end('{"a":1}');
  };
  const init = { method: 'POST', body: JSON.stringify({ q: 1 }), headers: new Headers({ 'X-Key': 'v' }) };
  const response = await client.fetch(new URL(`${receiver.url}/v1/x?y=z`), init);
  expect(response).toBeInstanceOf(Response);
  expect([response.status, response.ok, response.url]).toEqual([201, true, `${receiver.url}/v1/x?y=z`]);
  expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  expect(await response.json()).toEqual({ a: 1 });
  expect(receiver.requests).toMatchObject([
    { method: 'POST', path: '/v1/x?y=z', body: '{"q":1}', headers: { 'x-key': 'v' } },
  ]);
});

test('takes a Request, and forms', async () => {
  await (await client.fetch(new Request(receiver.url, { method: 'PUT', body: 'b' }))).text();
  const form = new FormData();
  form.set('field', 'value');
  await (await client.fetch(receiver.url, { method: 'POST', body: form })).text();
  expect(receiver.requests[0]).toMatchObject({ method: 'PUT', body: 'b' });
  expect(receiver.requests[1]?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
  expect(receiver.requests[1]?.body).toContain('name="field"');
});

test('hands over each chunk when it comes', async () => {
  let finish: () => void = () => undefined;
  answer = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
    finish = () => response.end('data: 2\n\n');
  };
  const response = await client.fetch(receiver.url);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const next = async (): Promise<string> => Buffer.from((await reader.read()).value ?? []).toString();
  expect(await next()).toBe('data: 1\n\n');
  finish();
  expect(await next()).toBe('data: 2\n\n');
  expect((await reader.read()).done).toBe(true);
});

test.each([204, 205, 304])('status %d has no body', async (status) => {
  answer = (_request, response) => response.writeHead(status).end();
  const response = await client.fetch(receiver.url);
  expect([response.status, response.body]).toEqual([status, null]);
});

test('a refused address is a TypeError that tells why', async () => {
  const error = await failureOf(client.fetch(`http://169.254.169.254/latest`));
  expect(error).toBeInstanceOf(TypeError);
  expect(outboundErrorOf(error)).toMatchObject({ kind: 'egress_blocked', address: '169.254.169.254', sent: false });
  expect(outboundErrorOf(new Error('other'))).toBeUndefined();
});

test.each(['http://user:secret@127.0.0.1/', 'nonsense secret', 'ftp://secret.test/', 'javascript:secret'])(
  'the URL %s is refused as an address that may not be called, and not repeated',
  async (url) => {
    const error = (await failureOf(client.fetch(url))) as Error;
    expect(outboundErrorOf(error)).toMatchObject({ kind: 'egress_blocked', sent: false });
    expect(`${error.message} ${String(outboundErrorOf(error))}`).not.toContain('secret');
    expect(receiver.requests).toEqual([]);
  },
);

test('follows redirects by the same rules', async () => {
  const other = await startLoopback((_request, response) => response.end('there'));
  try {
    answer = ({ path }, response) => {
      const location = path === '/' ? `${other.url}/x` : path === '/meta' ? 'http://169.254.169.254/' : path;
      response.writeHead(302, { location }).end();
    };
    const response = await client.fetch(receiver.url, { headers: { Authorization: 'Bearer x' } });
    expect([await response.text(), response.url]).toEqual(['there', `${other.url}/x`]);
    expect(other.requests[0]?.headers).not.toHaveProperty('authorization');
    expect(outboundErrorOf(await failureOf(client.fetch(`${receiver.url}/meta`)))).toMatchObject({
      kind: 'egress_blocked',
    });
    expect(outboundErrorOf(await failureOf(client.fetch(`${receiver.url}/loop`)))).toMatchObject({ kind: 'redirects' });
    expect((await client.fetch(receiver.url, { redirect: 'manual' })).status).toBe(302);
    expect(outboundErrorOf(await failureOf(client.fetch(receiver.url, { redirect: 'error' })))).toMatchObject({
      kind: 'redirects',
    });
  } finally {
    await other.close();
  }
});

test('an endless body ends with an error after 32 MiB, decoded', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(40 * 1024 * 1024)));
  };
  const error = await failureOf((await client.fetch(receiver.url)).arrayBuffer());
  expect(outboundErrorOf(error)).toMatchObject({ kind: 'too_large' });
  answer = (_request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(32 * 1024 * 1024)));
  };
  expect((await (await client.fetch(receiver.url)).arrayBuffer()).byteLength).toBe(32 * 1024 * 1024);
});

test("the caller's signal ends it with its own reason, before the answer and in the body", async () => {
  const closed: string[] = [];
  answer = ({ path }, response) => {
    response.on('close', () => closed.push(path));
    if (path === '/body') response.writeHead(200).write('begun');
    if (path === '/') response.end();
  };
  const before = new AbortController();
  const waiting = failureOf(client.fetch(`${receiver.url}/wait`, { signal: before.signal }));
  setTimeout(() => {
    before.abort(new Error('enough'));
  }, 50);
  expect(await waiting).toMatchObject({ message: 'enough' });

  const during = new AbortController();
  const response = await client.fetch(`${receiver.url}/body`, { signal: during.signal });
  const reading = failureOf(response.text());
  during.abort();
  expect(await reading).toMatchObject({ name: 'AbortError' });

  const aborted = await failureOf(client.fetch(receiver.url, { signal: AbortSignal.abort() }));
  expect(aborted).toMatchObject({ name: 'AbortError' });
  await (await client.fetch(receiver.url, { method: 'HEAD' })).text();
  expect(closed).toEqual(expect.arrayContaining(['/wait', '/body']));
});

test('dropping a body ends the connection', async () => {
  let closed: () => void = () => undefined;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  answer = (_request, response) => {
    response.on('close', closed);
    response.writeHead(200).write('begun');
  };
  const response = await client.fetch(receiver.url);
  await response.body?.cancel();
  await expect(gone).resolves.toBeUndefined();
});

test('a connection that breaks in mid-body is an error of the body', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': '100' }).write('half', () => response.destroy());
  };
  const error = await failureOf((await client.fetch(receiver.url)).text());
  expect(error).toBeInstanceOf(TypeError);
  expect(outboundErrorOf(error)).toMatchObject({ kind: 'connection', sent: true });
});

test('a vendor adapter streams over it, and its errors tell what the guard said', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (content: string): string =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
    response.end(`${chunk('Hel')}${chunk('lo')}data: [DONE]\n\n`);
  };
  const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'Hi' }] }];
  const model = (baseURL: string): ReturnType<ReturnType<typeof createOpenAICompatible>> =>
    createOpenAICompatible({ name: 'local', baseURL, fetch: client.fetch })('m');
  const { stream } = await model(`${receiver.url}/v1`).doStream({ prompt });
  let text = '';
  for await (const part of stream) if (part.type === 'text-delta') text += part.delta;
  expect(text).toBe('Hello');
  const error = await failureOf(Promise.resolve(model('http://10.0.0.5/v1').doGenerate({ prompt })));
  expect(outboundErrorOf(error)).toMatchObject({ kind: 'egress_blocked', address: '10.0.0.5' });
});
