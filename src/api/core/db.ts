import { BaseError, ConnectionError, DatabaseError, QueryTypes, UniqueConstraintError } from 'sequelize';
import type { Transaction } from 'sequelize';
import { withCommitActions } from './after-commit';
import { config } from './config';
import { openDatabase } from './db-pool';

export type Tx = Transaction;

/** The database of this process. */
export const db = openDatabase(config().DATABASE_URL, config().DATABASE_POOL_MAX);

/** Runs `fn` in one transaction: it commits when `fn` returns and rolls back when it throws. No call to the outside inside. */
export const inTransaction = <T>(fn: (tx: Tx) => Promise<T>): Promise<T> =>
  withCommitActions((inner) => db.transaction(inner), fn);

/** Rows of one SQL statement with `$1`… parameters; also for `insert`, `update` and `delete … returning`. */
export async function query<Row extends object>(sql: string, bind: unknown[] = [], tx?: Tx): Promise<Row[]> {
  return db.query<Row>(sql, {
    bind,
    type: QueryTypes.SELECT,
    raw: true,
    ...(tx === undefined ? {} : { transaction: tx }),
  });
}

/** The first row of a statement, or null. */
export async function queryOne<Row extends object>(sql: string, bind: unknown[] = [], tx?: Tx): Promise<Row | null> {
  return (await query<Row>(sql, bind, tx))[0] ?? null;
}

/** Ends the pool. */
export const closeDatabase = (): Promise<void> => db.close();

/** Whether an error is the breach of a unique constraint (of that name, when one is given). */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (!(error instanceof UniqueConstraintError)) return false;
  if (constraint === undefined) return true;
  return (error.parent as { constraint?: string }).constraint === constraint;
}

const CONNECTION_CODES = new Set(['57P01', '57P02', '57P03', '53300', 'ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ENOENT']);

/** Whether an error says that the database could not be reached or went away, and not that the statement was wrong. */
export function isDatabaseDown(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof BaseError)) return false;
  const cause = error instanceof DatabaseError ? (error.parent as { code?: string } & Error) : undefined;
  if (cause === undefined) return false;
  return CONNECTION_CODES.has(cause.code ?? '') || cause.message.startsWith('Connection terminated');
}
