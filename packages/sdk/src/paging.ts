import type { Calls, CallResult } from './calls';
import { errorOf } from './errors';
import type { paths } from './schema';

type ItemOf<Path extends keyof paths> = paths[Path] extends {
  get: { responses: { 200: { content: { 'application/json': { data: (infer Item)[] } } } } };
}
  ? Item
  : never;

/** Every path whose GET answers a list. */
export type ListPath = { [Path in keyof paths]: [ItemOf<Path>] extends [never] ? never : Path }[keyof paths];
/** An entry of the list at a path. */
export type ListItem<Path extends ListPath> = ItemOf<Path>;

type Parameters<Path extends ListPath> = paths[Path] extends { get: { parameters: infer Given } } ? Given : never;
type Defined<Given, Name extends string> = Given extends { [Key in Name]?: infer Value } ? NonNullable<Value> : never;

/** What a list is asked with; where it goes on is the iterator's matter. */
export type ListOptions<Path extends ListPath> = {
  query?: Omit<Defined<Parameters<Path>, 'query'>, 'limit' | 'offset' | 'cursor'>;
  /** Entries asked for at a time, at most 100; 50 by default. */
  pageSize?: number;
  signal?: AbortSignal;
} & ([Defined<Parameters<Path>, 'path'>] extends [never]
  ? { path?: never }
  : { path: Defined<Parameters<Path>, 'path'> });

interface Page {
  data: { id?: string }[];
  next_cursor?: string | null;
  total?: number;
}

/** Where the page after this one begins; null after the last. */
function nextOf(page: Page, at: number): { cursor: string } | { offset: number } | null {
  if (typeof page.next_cursor === 'string') return { cursor: page.next_cursor };
  const offset = at + page.data.length;
  return page.total === undefined || page.data.length === 0 || offset >= page.total ? null : { offset };
}

/**
 * All entries of a list, page after page, whether it pages by cursor or by offset. Entries that appear meanwhile do not
 * make others appear twice; one that is deleted meanwhile may hide another one from a list that pages by offset.
 * @throws ApiError
 */
export async function* items<Path extends ListPath>(
  calls: Calls,
  path: Path,
  options: ListOptions<Path>,
): AsyncGenerator<ListItem<Path>, void, undefined> {
  const get = calls.GET as unknown as (path: string, init: object) => Promise<CallResult<Page>>;
  const seen = new Set<string>();
  let where: object = {};
  for (let at = 0; ;) {
    const params = { path: options.path ?? {}, query: { ...options.query, limit: options.pageSize, ...where } };
    const { data, error, response } = await get(path, { params, signal: options.signal });
    if (data === undefined) throw errorOf(response, error);
    for (const item of data.data) {
      if (item.id !== undefined && seen.has(item.id)) continue;
      if (item.id !== undefined) seen.add(item.id);
      yield item as ListItem<Path>;
    }
    const next = nextOf(data, at);
    if (next === null) return;
    where = next;
    at += data.data.length;
  }
}
