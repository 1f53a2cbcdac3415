import type { Client as FetchClient } from 'openapi-fetch';
import type { components, paths } from './schema';

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** Paths that have a method. */
export type PathWith<Verb extends Method> = {
  [Path in keyof paths]: paths[Path] extends { [Name in Verb]: { responses: unknown } } ? Path : never;
}[keyof paths];

type Operation<Path extends keyof paths, Verb extends Method> = Verb extends keyof paths[Path]
  ? NonNullable<paths[Path][Verb]>
  : never;

type ParamsOf<Given> = Given extends { parameters: infer Params }
  ? object extends Params
    ? { params?: Params }
    : { params: Params }
  : { params?: never };

type BodyOf<Given> = Given extends { requestBody: { content: { 'application/json': infer Body } } }
  ? { body: Body }
  : Given extends { requestBody?: infer Optional }
    ? NonNullable<Optional> extends never
      ? { body?: never }
      : NonNullable<Optional> extends { content: { 'application/json': infer Body } }
        ? { body?: Body }
        : { body?: never }
    : { body?: never };

/** Parameters and body of a call as the contract wants them, and what `fetch` takes beside. */
export type CallOptions<Path extends keyof paths, Verb extends Method> = ParamsOf<Operation<Path, Verb>> &
  BodyOf<Operation<Path, Verb>> & {
    headers?: Record<string, string>;
    signal?: AbortSignal;
  };

type Success = 200 | 201 | 202 | 204;

type DataOf<Given> = Given extends { responses: infer Responses }
  ? {
      [Status in keyof Responses & Success]: Responses[Status] extends { content: { 'application/json': infer Body } }
        ? Body
        : undefined;
    }[keyof Responses & Success]
  : never;

/** What a call came to: `data`, or the `error` that the service answered. */
export type CallResult<Data> =
  | { data: Data; error?: never; response: Response }
  | { data?: never; error: components['schemas']['Error']; response: Response };

/** One method over all paths that have it. */
export type Call<Verb extends Method> = <Path extends PathWith<Verb>>(
  path: Path,
  ...options: object extends CallOptions<Path, Verb>
    ? [options?: CallOptions<Path, Verb>]
    : [options: CallOptions<Path, Verb>]
) => Promise<CallResult<DataOf<Operation<Path, Verb>>>>;

/** The typed calls of every route. */
export interface Calls extends Pick<FetchClient<paths>, 'use' | 'eject'> {
  GET: Call<'get'>;
  POST: Call<'post'>;
  PUT: Call<'put'>;
  PATCH: Call<'patch'>;
  DELETE: Call<'delete'>;
}
