import { timingSafeEqual } from 'node:crypto';
import type { Attributes, Model, ModelStatic } from 'sequelize';
import { z } from 'zod';
import { invalidInput } from './errors';
import { hmacWith, signingKey, verifyingKeys } from './keys';
import { selectFrom } from './select';
import type { Where } from './select';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100;
/** No list is longer; the database takes no greater one. */
const OFFSET_MAX = Number.MAX_SAFE_INTEGER;

const integerText = z.string().regex(/^-?\d+$/, 'must be an integer');

const limit = integerText
  .optional()
  .transform((text) => (text === undefined ? LIMIT_DEFAULT : Math.min(LIMIT_MAX, Math.max(1, Number(text)))))
  .meta({ description: 'Rows of a page, from 1 to 100; a number outside is clamped', example: '50' });

const offset = integerText
  .optional()
  .transform((text) => (text === undefined ? 0 : Math.min(OFFSET_MAX, Math.max(0, Number(text)))))
  .meta({ description: 'Rows to skip; a negative number counts as 0', example: '0' });

/** Query of an offset list; areas extend it by their filters. */
export const OffsetQuery = z.strictObject({ limit, offset });

/** Query of a cursor list; areas extend it by their filters. */
export const CursorQuery = z.strictObject({
  limit,
  cursor: z.string().max(2000).optional().meta({ description: 'The `next_cursor` of the page before' }),
});

/** A query value that is `true` or `false`. */
export const booleanText = (fallback: boolean): z.ZodType<boolean, string | undefined> =>
  z
    .enum(['true', 'false'])
    .optional()
    .transform((text) => (text === undefined ? fallback : text === 'true'));

/** Answer of an offset list. */
export const offsetPage = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({
    data: z.array(item).meta({ description: 'The rows of this page, newest first' }),
    total: z.int().meta({ description: 'Rows in all' }),
    limit: z.int().meta({ description: 'The limit that was applied' }),
    offset: z.int().meta({ description: 'The offset that was applied' }),
  });

/** Which end of a cursor list comes first. */
type ListOrder = 'newest' | 'oldest';

/** Answer of a cursor list. */
export const cursorPage = <Item extends z.ZodType>(item: Item, first: ListOrder = 'newest') =>
  z.strictObject({
    data: z.array(item).meta({ description: `The rows of this page, ${first} first` }),
    next_cursor: z.string().nullable().meta({ description: 'Cursor of the next page; null on the last one' }),
  });

interface Position {
  createdAt: Date;
  id: string;
}

/** What a cursor belongs to: one used with another route, project or filter is refused. */
export type CursorScope = Record<string, string | null | undefined>;

const digestOf = (scope: CursorScope, key: Buffer): string =>
  hmacWith(key, JSON.stringify(Object.entries(scope).sort(([a], [b]) => (a < b ? -1 : 1))))
    .toString('base64url')
    .slice(0, 16);

const MAC_BYTES = 16;

function encodeCursor(position: Position, scope: CursorScope): string {
  const key = signingKey('cursor');
  const body = Buffer.from(JSON.stringify([position.createdAt.getTime(), position.id, digestOf(scope, key)]));
  return Buffer.concat([hmacWith(key, body.toString()).subarray(0, MAC_BYTES), body]).toString('base64url');
}

const CursorBody = z.tuple([z.int(), z.string(), z.string()]);

function decodeCursor(cursor: string, scope: CursorScope): Position {
  const refused = invalidInput('bad_request', 'query.cursor', 'The cursor is not one of this list.');
  const bytes = Buffer.from(cursor, 'base64url');
  const body = bytes.subarray(MAC_BYTES).toString();
  const mac = bytes.subarray(0, MAC_BYTES);
  const key = verifyingKeys('cursor').find(
    (candidate) => mac.length === MAC_BYTES && timingSafeEqual(mac, hmacWith(candidate, body).subarray(0, MAC_BYTES)),
  );
  if (key === undefined) throw refused;
  const [createdAt, id, digest] = CursorBody.parse(JSON.parse(body));
  if (digest !== digestOf(scope, key)) throw refused;
  return { createdAt: new Date(createdAt), id };
}

type Row = Model & { id: string; createdAt: Date };

export interface CursorListInput<M extends Model> {
  where: Where<M>;
  limit: number;
  cursor: string | undefined;
  /** Route id, project and filters. */
  scope: CursorScope;
  /** Default `newest`. */
  first?: ListOrder;
}

/**
 * One page of a cursor list, newest first unless said, with the id as tie-breaker; rows added later never shift a page.
 * @throws bad_request at `query.cursor` when the cursor does not decode or belongs to another list
 */
export async function listByCursor<M extends Row>(
  model: ModelStatic<M>,
  { where, limit: rowsMax, cursor, scope, first = 'newest' }: CursorListInput<M>,
): Promise<{ rows: Attributes<M>[]; nextCursor: string | null }> {
  const after = cursor === undefined ? undefined : decodeCursor(cursor, scope);
  const [beyond, direction] = first === 'newest' ? ['<', 'desc'] : ['>', 'asc'];
  const select = selectFrom(model, where);
  if (after !== undefined)
    select.and((bind) => `(created_at, id) ${beyond} (${bind(after.createdAt)}::timestamptz, ${bind(after.id)})`);
  const found = await select.rows(
    (bind) => `order by created_at ${direction}, id ${direction} limit ${bind(rowsMax + 1)}`,
  );
  const rows = found.slice(0, rowsMax);
  const last = rows.at(-1);
  return { rows, nextCursor: found.length > rowsMax && last !== undefined ? encodeCursor(last, scope) : null };
}

/** One page of an offset list, newest first with the id as tie-breaker, and the exact total. */
export async function listByOffset<M extends Row>(
  model: ModelStatic<M>,
  { where, limit: rowsMax, offset: skipped }: { where: Where<M>; limit: number; offset: number },
): Promise<{ rows: Attributes<M>[]; total: number; limit: number; offset: number }> {
  const [rows, total] = await Promise.all([
    selectFrom(model, where).rows(
      (bind) => `order by created_at desc, id desc limit ${bind(rowsMax)} offset ${bind(skipped)}`,
    ),
    selectFrom(model, where).count(),
  ]);
  return { rows, total, limit: rowsMax, offset: skipped };
}

/** An offset page with its rows presented. */
export const presentOffsetPage = <M, Out>(
  page: { rows: M[]; total: number; limit: number; offset: number },
  present: (row: M) => Out,
): { data: Out[]; total: number; limit: number; offset: number } => ({
  data: page.rows.map(present),
  total: page.total,
  limit: page.limit,
  offset: page.offset,
});

/** A cursor page with its rows presented. */
export const presentCursorPage = <M, Out>(
  page: { rows: M[]; nextCursor: string | null },
  present: (row: M) => Out,
): { data: Out[]; next_cursor: string | null } => ({ data: page.rows.map(present), next_cursor: page.nextCursor });
