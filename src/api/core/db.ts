import { createHash } from 'node:crypto';
import type { Client, QueryResult } from 'pg';
import { BaseError, ConnectionError, DatabaseError } from 'sequelize';
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

/** A connection of Sequelize's pool is one of the driver's; the pool destroys one that says it is invalid. */
type PooledClient = Client & { _invalid?: boolean };

/**
 * Rows of one SQL statement with `$1`… parameters; also for `insert`, `update` and `delete … returning`. The statement is
 * prepared once a connection, so its text never holds values.
 */
export async function query<Row extends object>(sql: string, bind: unknown[] = [], tx?: Tx): Promise<Row[]> {
  if (tx !== undefined) return run<Row>((tx as Tx & { connection: PooledClient }).connection, sql, bind);
  const pool = db.connectionManager;
  const connection = (await pool.getConnection({ type: 'write' })) as PooledClient;
  try {
    return await run<Row>(connection, sql, bind);
  } catch (error) {
    if (isDatabaseDown(error)) connection._invalid = true;
    throw error;
  } finally {
    pool.releaseConnection(connection);
  }
}

async function run<Row extends object>(connection: PooledClient, sql: string, bind: unknown[]): Promise<Row[]> {
  try {
    const result: QueryResult<Row> = await connection.query({ ...statement(sql), values: bind.map(storable) });
    return result.rows;
  } catch (error) {
    if (error instanceof Error) driverErrors.add(error);
    throw error;
  }
}

/** Texts of the database hold no NUL; models write it the same way. */
const storable = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\\0') : value;

const statements = new Map<string, { text: string; name?: string }>();
/** A text that names all columns by a star is not prepared: a migration that adds one would break the plan of running processes. */
const STAR = /\b(select|returning)\s+\*|\.\*/;

function statement(sql: string): { text: string; name?: string } {
  let known = statements.get(sql);
  if (known === undefined) {
    known = STAR.test(sql)
      ? { text: sql }
      : { text: sql, name: createHash('sha256').update(sql).digest('base64url').slice(0, 22) };
    statements.set(sql, known);
  }
  return known;
}

/** The first row of a statement, or null. */
export async function queryOne<Row extends object>(sql: string, bind: unknown[] = [], tx?: Tx): Promise<Row | null> {
  return (await query<Row>(sql, bind, tx))[0] ?? null;
}

/** Ends the pool. */
export const closeDatabase = (): Promise<void> => db.close();

interface DriverError extends Error {
  code?: string;
  constraint?: string;
}

/** What statements threw: an error with the same code may come from elsewhere. */
const driverErrors = new WeakSet<Error>();

/** What the driver said: models wrap it, statements do not. */
function driverError(error: unknown): DriverError | null {
  if (error instanceof BaseError) return 'parent' in error ? (error.parent as DriverError) : null;
  return error instanceof Error && driverErrors.has(error) ? error : null;
}

const UNIQUE_VIOLATION = '23505';

/** Whether an error is the breach of a unique constraint (of that name, when one is given). */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  const cause = driverError(error);
  if (cause?.code !== UNIQUE_VIOLATION) return false;
  return constraint === undefined || cause.constraint === constraint;
}

const FOREIGN_KEY_VIOLATION = '23503';

/** Whether a row was to be written for a project whose own row went while the request was under way. */
export function isProjectGone(error: unknown): boolean {
  const cause = driverError(error);
  return cause?.code === FOREIGN_KEY_VIOLATION && cause.constraint?.endsWith('_project_id_fkey') === true;
}

const CONNECTION_CODES = new Set(['57P01', '57P02', '57P03', '53300', 'ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ENOENT']);

/** Whether an error says that the database could not be reached or went away, and not that the statement was wrong. */
export function isDatabaseDown(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (error instanceof BaseError && !(error instanceof DatabaseError)) return false; // One of a model's own checks.
  const cause = driverError(error);
  if (cause === null) return false;
  return CONNECTION_CODES.has(cause.code ?? '') || CONNECTION_LOST.test(cause.message);
}

/** What the driver throws without a code when its connection ends. */
const CONNECTION_LOST = /^(Connection terminated|Client has encountered a connection error|Client was closed)/;
