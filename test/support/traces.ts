import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';

/** Traces of nested calls, which a test lays down itself: `count` of them below one another or side by side. */
export interface LaidTrace {
  id: string;
  parentTraceId?: string | null;
  rootTraceId?: string | null;
  agentId?: string;
  error?: object | null;
  createdAt?: Date;
}

/** Inserts a trace as the service does; links, error and age as given. @returns its id */
export async function layTrace(projectId: string, given: Partial<LaidTrace> = {}): Promise<string> {
  const id = given.id ?? newId('trace');
  await query(
    `insert into traces (id, project_id, agent_id, step_count, parent_trace_id, root_trace_id, error, created_at, updated_at)
     values ($1, $2, $3, 0, $4, $5, $6, $7, $7)`,
    [
      id,
      projectId,
      given.agentId ?? newId('agent'),
      given.parentTraceId ?? null,
      given.rootTraceId ?? null,
      given.error == null ? null : JSON.stringify(given.error),
      given.createdAt ?? new Date(),
    ],
  );
  return id;
}

/** Hangs the trace of a run below another one, as a nested call makes it. */
export async function hang(traceId: string, parentTraceId: string, rootTraceId: string): Promise<void> {
  await query('update traces set parent_trace_id = $2, root_trace_id = $3 where id = $1', [
    traceId,
    parentTraceId,
    rootTraceId,
  ]);
}

/** Makes a trace, and its generations, that much older. */
export async function age(traceId: string, hours: number): Promise<void> {
  for (const [table, column] of [
    ['traces', 'id'],
    ['generations', 'trace_id'],
  ] as const) {
    await query(`update ${table} set created_at = created_at - $2::int * interval '1 hour' where ${column} = $1`, [
      traceId,
      hours,
    ]);
  }
}

/** Tables of the database in which a text stands somewhere, by their names. */
export async function tablesHolding(text: string): Promise<string[]> {
  const tables = await query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'public' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await query(`select 1 from "${name}" r where strpos(r::text, $1) > 0 limit 1`, [text]);
    if (rows.length > 0) found.push(name);
  }
  return found;
}
