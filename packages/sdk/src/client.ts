import createCalls from 'openapi-fetch';
import type { Calls } from './calls';
import { Generations } from './generations';
import { items } from './paging';
import type { ListItem, ListOptions, ListPath } from './paging';
import { DEFAULT_RETRY, retrying } from './retry';
import type { RetryPolicy } from './retry';
import type { paths } from './schema';

export interface ClientOptions {
  /** Address of the service, for example `https://agents.example.com`. */
  baseUrl: string;
  /** An API key, `svc_sk_…`. At most one of `apiKey`, `accessToken` and `getToken`. */
  apiKey?: string;
  /** The token of a session. */
  accessToken?: string;
  /** Asked before every try, for tokens that are renewed. */
  getToken?: () => string | Promise<string>;
  /** In place of the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
  /** Go with every request. */
  headers?: Record<string, string>;
  /** What is repeated, and how; `{ retries: 0 }` for nothing. */
  retry?: Partial<RetryPolicy>;
}

/** The typed calls of every route (`GET`, `POST`, …), and what makes the frequent ones short. */
export interface Client extends Calls {
  readonly generations: Generations;
  /** All entries of a list: `for await (const agent of client.items('/v1/projects/{project_id}/agents', {path}))`. */
  items: <Path extends ListPath>(
    path: Path,
    ...options: object extends ListOptions<Path> ? [options?: ListOptions<Path>] : [options: ListOptions<Path>]
  ) => AsyncGenerator<ListItem<Path>, void, undefined>;
}

function tokenSource({ apiKey, accessToken, getToken }: ClientOptions): () => string | undefined | Promise<string> {
  const given = [apiKey, accessToken, getToken].filter((credential) => credential !== undefined);
  if (given.length > 1) throw new TypeError('Give one of apiKey, accessToken and getToken.');
  return getToken ?? (() => apiKey ?? accessToken);
}

/**
 * A client of one service under one credential. Makes no connection by itself and holds nothing that has to be closed.
 * @throws TypeError for several credentials
 */
export function createClient(options: ClientOptions): Client {
  const tokenOf = tokenSource(options);
  const retry = { ...DEFAULT_RETRY, ...options.retry };
  const fetch = options.fetch ?? ((request: Request) => globalThis.fetch(request));
  const authorized = async (request: Request): Promise<Request> => {
    // A call may bring a credential of its own.
    const token = request.headers.has('authorization') ? undefined : await tokenOf();
    if (token !== undefined) request.headers.set('Authorization', `Bearer ${token}`);
    return request;
  };
  const calls = createCalls<paths>({
    baseUrl: options.baseUrl,
    fetch: retrying(fetch, retry, authorized),
    ...(options.headers === undefined ? {} : { headers: options.headers }),
  }) as unknown as Calls;
  return Object.assign(calls, {
    generations: new Generations(calls, retry),
    items: <Path extends ListPath>(path: Path, given?: ListOptions<Path>) =>
      items(calls, path, given ?? ({} as ListOptions<Path>)),
  });
}
