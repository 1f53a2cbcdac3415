import { createClient } from '@agent-platform/sdk';
import type { Client } from '@agent-platform/sdk';
import type { Server } from 'node:http';
import request from 'supertest';

export interface Reply {
  status: number;
  // Bodies are of many shapes and asserted by value: a test reads what it needs.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  body: any;
  headers: Record<string, string>;
}

/** A caller of the API: a credential (or none) and the five verbs, which take any path and body, wrong ones too. */
export interface ApiClient {
  /** The published client under the same credential; it tells trouble at once. */
  readonly sdk: Client;
  get: (path: string, headers?: Record<string, string>) => Promise<Reply>;
  post: (path: string, body?: object | string, headers?: Record<string, string>) => Promise<Reply>;
  put: (path: string, body?: object, headers?: Record<string, string>) => Promise<Reply>;
  patch: (path: string, body?: object, headers?: Record<string, string>) => Promise<Reply>;
  delete: (path: string, headers?: Record<string, string>) => Promise<Reply>;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

type Send = (method: Method, path: string, body?: object | string, headers?: Record<string, string>) => Promise<Reply>;

const addressOf = (target: Server | string): string => {
  if (typeof target === 'string') return target;
  const address = target.address();
  if (address === null || typeof address === 'string') throw new Error('The server does not listen yet.');
  return `http://127.0.0.1:${String(address.port)}`;
};

/** What the client's typed calls are made of, for paths and bodies that they would not take. */
type AnyCall = (
  path: string,
  options: object,
) => Promise<{ data?: ReadableStream | null; error?: unknown; response: Response }>;

/** The verbs over the published client. */
const overSdk =
  (sdk: () => Client): Send =>
  async (method, path, body, headers = {}) => {
    const call = sdk()[method.toUpperCase() as 'GET'] as unknown as AnyCall;
    const asIs = typeof body === 'string' ? { bodySerializer: (text: string) => text } : {};
    const { error, response } = await call(path, { body, headers, parseAs: 'stream', ...asIs });
    const isJson = (response.headers.get('content-type') ?? '').includes('json');
    const text = response.ok && isJson ? await response.text() : '';
    return {
      status: response.status,
      body: response.ok ? (text === '' ? {} : (JSON.parse(text) as unknown)) : isJson ? error : {},
      headers: Object.fromEntries(response.headers),
    };
  };

/** The verbs over connections of their own: the process behind an address may be killed between two calls. */
const overSockets =
  (target: string, credential?: string): Send =>
  async (method, path, body, headers = {}) => {
    const call = request(target)[method](path);
    if (credential !== undefined) call.set('Authorization', `Bearer ${credential}`);
    for (const [name, value] of Object.entries(headers)) call.set(name, value);
    if (body !== undefined) {
      if (typeof body === 'string' && headers['Content-Type'] === undefined)
        call.set('Content-Type', 'application/json');
      call.send(body);
    }
    const answer = await call;
    return { status: answer.status, body: answer.body as unknown, headers: answer.headers };
  };

/** Calls an application in this process, or one at an address. */
export function apiClient(target: Server | string, credential?: string): ApiClient {
  const sdk = (): Client =>
    createClient({
      baseUrl: addressOf(target),
      retry: { retries: 0 },
      ...(credential === undefined ? {} : { accessToken: credential }),
    });
  const send = typeof target === 'string' ? overSockets(target, credential) : overSdk(sdk);
  return {
    get sdk() {
      return sdk();
    },
    get: (path, headers) => send('get', path, undefined, headers),
    post: (path, body, headers) => send('post', path, body, headers),
    put: (path, body, headers) => send('put', path, body, headers),
    patch: (path, body, headers) => send('patch', path, body, headers),
    delete: (path, headers) => send('delete', path, undefined, headers),
  };
}
