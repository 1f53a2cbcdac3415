import request from 'supertest';
import type { App } from 'supertest/types';

export interface Reply {
  status: number;
  // Bodies are of many shapes and asserted by value: a test reads what it needs.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  body: any;
  headers: Record<string, string>;
}

/** A caller of the API: a credential (or none) and the five verbs. */
export interface ApiClient {
  get: (path: string, headers?: Record<string, string>) => Promise<Reply>;
  post: (path: string, body?: object | string, headers?: Record<string, string>) => Promise<Reply>;
  put: (path: string, body?: object, headers?: Record<string, string>) => Promise<Reply>;
  patch: (path: string, body?: object, headers?: Record<string, string>) => Promise<Reply>;
  delete: (path: string, headers?: Record<string, string>) => Promise<Reply>;
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** Calls an application in this process, or one at an address. */
export function apiClient(target: App | string, credential?: string): ApiClient {
  const send = async (
    method: Method,
    path: string,
    body?: object | string,
    headers: Record<string, string> = {},
  ): Promise<Reply> => {
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
  return {
    get: (path, headers) => send('get', path, undefined, headers),
    post: (path, body, headers) => send('post', path, body, headers),
    put: (path, body, headers) => send('put', path, body, headers),
    patch: (path, body, headers) => send('patch', path, body, headers),
    delete: (path, headers) => send('delete', path, undefined, headers),
  };
}
