import { request } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { useService } from '../support/app';

const service = useService();

interface RawReply {
  status: number | undefined;
  headers: IncomingHttpHeaders;
  body: string;
}

/** The path as it is written: a URL parser would resolve its dots before it is sent. */
function raw(path: string, method = 'GET'): Promise<RawReply> {
  const { hostname, port } = new URL(service.baseUrl);
  return new Promise((done, failed) => {
    const sent = request({ hostname, port, path, method }, (reply) => {
      let body = '';
      reply.setEncoding('utf8').on('data', (piece: string) => (body += piece));
      reply.on('end', () => done({ status: reply.statusCode, headers: reply.headers, body }));
    });
    sent.on('error', failed).end();
  });
}

const linked = (html: string): string[] => [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url = '']) => url);
const assets = async (): Promise<string[]> =>
  linked((await raw('/docs')).body).filter((url) => url.startsWith('/docs/'));

test('the reference page needs no credential and names nothing of another host', async () => {
  const { status, headers, body } = await raw('/docs');
  expect([status, headers['content-type'], headers['cache-control']]).toEqual([
    200,
    'text/html; charset=utf-8',
    'no-cache',
  ]);
  expect(linked(body)).toEqual([
    'data:,',
    expect.stringMatching(/^\/docs\/viewer\.[0-9a-f]{12}\.css$/),
    '/openapi.json',
    expect.stringMatching(/^\/docs\/viewer\.[0-9a-f]{12}\.js$/),
    expect.stringMatching(/^\/docs\/start\.[0-9a-f]{12}\.js$/),
  ]);
  expect(body).not.toMatch(/https?:|style=|<style|\bon[a-z]+=/);
  expect(body.match(/<script/g)).toHaveLength(2);
  expect((await raw('/docs/')).body).toBe(body);
});

test('the policy of the page allows its own host only: no inline code, no eval, no frame', async () => {
  const policy = String((await raw('/docs')).headers['content-security-policy']);
  expect(policy.split('; ')).toEqual(
    expect.arrayContaining(["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"]),
  );
  expect(policy).not.toMatch(/unsafe|https?:|\*/);
});

test('every file of the page is there, of its type, and may be kept for good', async () => {
  const paths = await assets();
  expect(paths).toHaveLength(3);
  for (const path of paths) {
    const { status, headers, body } = await raw(path);
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([
      200,
      path.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8',
      'public, max-age=31536000, immutable',
    ]);
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(Number(headers['content-length'])).toBe(Buffer.byteLength(body));
  }
  const start = await raw(paths.find((path) => path.includes('/start.')) ?? '');
  expect(start.body).toContain('fetch("/openapi.json")');
  expect(start.body).not.toMatch(/https?:/);
  expect(start.body).toContain('validatorUrl: null');
  expect(start.body).toContain('persistAuthorization: false');
});

test('HEAD answers the headers alone; another method is 405 with Allow', async () => {
  for (const path of ['/docs', ...(await assets())]) {
    const [whole, head, post] = [await raw(path), await raw(path, 'HEAD'), await raw(path, 'POST')];
    expect([head.status, head.body]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(whole.headers['content-length']);
    expect([post.status, post.headers.allow]).toEqual([405, 'GET']);
  }
});

test.each([
  '/docs/../package.json',
  '/docs/%2e%2e/package.json',
  '/docs/%2e%2e%2fpackage.json',
  '/docs/..%2f..%2fpackage.json',
  '/docs/..',
  '/docs/%2e%2e',
  '/docs/package.json',
  '/docs/swagger-ui-bundle.js',
  '/docs/index.html',
  '/docs/constructor',
  '/docs/viewer.css/x',
])('%s is 404', async (path) => {
  const { status, body } = await raw(path);
  expect([status, JSON.parse(body)]).toEqual([404, { error: { code: 'not_found', message: 'Not found.' } }]);
});

test('the page stands in the contract document, its files do not', async () => {
  const { body } = await service.client().get('/openapi.json');
  expect(Object.keys(body.paths as object).filter((path) => path.startsWith('/docs'))).toEqual(['/docs']);
  expect(body.paths['/docs'].get.responses['200'].content).toEqual({ 'text/html': { schema: { type: 'string' } } });
});
