import { setTimeout as sleep } from 'node:timers/promises';
import { Client as EngineClient, Connection } from '@temporalio/client';
import { Client as DatabaseClient } from 'pg';

export interface RunRow {
  id: string;
  status: string;
  stop_reason: string | null;
  pause: number;
  streamed: boolean;
  agent_id: string;
  error_code: string | null;
  run_seen_at: Date | null;
  completed_at: Date | null;
}

export interface StepRow {
  generation_id: string;
  step: number;
  model: string | null;
  retries: number;
  provider_failures: number;
  /** Null while only tries are counted. */
  stored_at: Date | null;
}

export interface AcceptedRow {
  generation_id: string;
  pause: number;
  accepted: number;
  keys: (string | null)[];
}

export interface EventRow {
  resource_id: string;
  events: number;
}

export interface DeliveryRow {
  id: string;
  status: string;
  attempts: number;
}

/** Everything that the database says of the drill's runs. */
export interface Rows {
  runs: RunRow[];
  steps: StepRow[];
  accepted: AcceptedRow[];
  events: EventRow[];
  deliveries: DeliveryRow[];
}

/** Reads over a connection of its own, since the database may have been restarted since the last time. */
export async function select<Row extends object>(databaseUrl: string, sql: string): Promise<Row[]> {
  const client = new DatabaseClient({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

export const readRuns = (url: string): Promise<RunRow[]> =>
  select(
    url,
    `select id, status, stop_reason, pause, streamed, agent_id, error ->> 'code' as error_code, run_seen_at, completed_at
     from generations order by created_at`,
  );

export async function readRows(url: string): Promise<Rows> {
  return {
    runs: await readRuns(url),
    steps: await select(
      url,
      'select generation_id, step, model, retries, provider_failures, stored_at from generation_steps',
    ),
    accepted: await select(
      url,
      `select generation_id, pause, count(*)::int as accepted, array_agg(idempotency_key) as keys
       from generation_submissions where accepted_at is not null group by generation_id, pause`,
    ),
    events: await select(
      url,
      `select resource_id, count(*)::int as events from events where type like 'generation.%' group by resource_id`,
    ),
    deliveries: await select(url, 'select id, status, attempts from webhook_deliveries'),
  };
}

/** What is still under way; empty when nothing moves any more. */
export async function unfinished(url: string): Promise<string[]> {
  const rows = await select<{ id: string }>(
    url,
    `select id from generations where status = 'in_progress' union all select id from webhook_deliveries where status = 'pending'`,
  );
  return rows.map(({ id }) => id);
}

/** Waits until nothing is under way; answers what is left when the time is up. */
export async function quiet(url: string, timeoutMs: number): Promise<string[]> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const left = await unfinished(url).catch(() => ['the database does not answer']);
    if (left.length === 0 || performance.now() > end) return left;
    await sleep(500);
  }
}

/** Ids of the generations that have an open run in the engine. */
export async function openRuns(address: string): Promise<Set<string>> {
  const connection = await Connection.connect({ address });
  try {
    const ids = new Set<string>();
    const query = 'WorkflowType = "generation" AND ExecutionStatus = "Running"';
    for await (const { workflowId } of new EngineClient({ connection }).workflow.list({ query })) ids.add(workflowId);
    return ids;
  } finally {
    await connection.close();
  }
}
