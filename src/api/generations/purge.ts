import { clock } from '../core/clock';
import { inTransaction, query } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, invalidInput, notFound } from '../core/errors';
import { removeEventsOf } from '../webhooks/purging';
import type { GenerationRow } from './models';
import { heldGeneration } from './rows';
import { getGeneration } from './service';

/** Who removes content: a caller, or the service itself (`system`, with the reason as its id). */
export interface Purger {
  type: 'api_key' | 'user' | 'system';
  id: string;
}

/** What repeated changes may add up to, as text: as much as one request may carry. */
const METADATA_BYTES_MAX = 1_048_576;

/** The refusal of a purge while a run still needs its content. */
export const inProgress = (generationId?: string): ApiError =>
  new ApiError('GENERATION_IN_PROGRESS', 'A generation is running or waits for tool outputs.', {
    ...(generationId === undefined ? {} : { meta: { generation_id: generationId } }),
  });

/**
 * Removes the content of generations in the caller's transaction: input, steps, output, error, metadata, stored tool
 * outputs, the error that their trace repeats, and the events that tell of them with their settled deliveries. Rows, counts, usage and attribution stay. One
 * that has a stamp already keeps it and is left alone. Safe to repeat.
 * Spec: Generations, what is kept; Traces, content purge.
 * @param ids generations of one project
 * @throws GENERATION_IN_PROGRESS when one of them runs or waits; nothing is changed then
 */
export async function purgeGenerations(tx: Tx, projectId: string, ids: string[], by: Purger): Promise<void> {
  const rows = await query<{ id: string; settled: boolean; redacted: boolean }>(
    `select id, status in ('completed', 'failed') as settled, content_redacted_at is not null as redacted
     from generations where project_id = $1 and id = any($2::text[]) order by id for update`,
    [projectId, ids],
    tx,
  );
  const open = rows.find(({ settled }) => !settled);
  if (open !== undefined) throw inProgress(open.id);
  const due = rows.filter(({ redacted }) => !redacted).map(({ id }) => id);
  if (due.length === 0) return;
  await query(
    `with contents as (delete from generation_contents where generation_id = any($1::text[])),
     steps as (update generation_steps set content = null where generation_id = any($1::text[]) and content is not null),
     calls as (delete from generation_calls where generation_id = any($1::text[])),
     submissions as (update generation_submissions set body = 'null' where generation_id = any($1::text[])),
     -- A trace repeats the error of the last generation that failed in it.
     errors as (update traces t set error = null, updated_at = $2 from generations g
       where g.id = any($1::text[]) and t.id = g.trace_id and t.error -> 'meta' ->> 'generation_id' = g.id)
     update generations set error = null, metadata = null, content_redacted_at = $2, updated_at = $2,
       content_redacted_by_principal_type = $3, content_redacted_by_principal_id = $4
     where id = any($1::text[])`,
    [due, clock.now(), by.type, by.id],
    tx,
  );
  await removeEventsOf(tx, projectId, due);
}

/**
 * Removes the content of one generation and answers its record. Safe to repeat: the first stamp stays.
 * @throws not_found, GENERATION_IN_PROGRESS
 */
export async function purgeGeneration(projectId: string, id: string, by: Purger): Promise<GenerationRow> {
  await getGeneration(projectId, id);
  await inTransaction((tx) => purgeGenerations(tx, projectId, [id], by));
  return getGeneration(projectId, id);
}

/**
 * Merges entries into the caller's metadata, name by name; a value is replaced as a whole. Safe to repeat.
 * @throws not_found, GENERATION_CONTENT_UNAVAILABLE, VALIDATION_FAILED when it grows beyond 1 MiB
 */
export async function updateMetadata(
  projectId: string,
  id: string,
  metadata: Record<string, unknown>,
): Promise<GenerationRow> {
  return inTransaction(async (tx) => {
    const row = await heldGeneration(projectId, id, tx);
    if (row === null) throw notFound();
    if (row.contentRedactedAt != null) {
      throw new ApiError('GENERATION_CONTENT_UNAVAILABLE', 'The content of the generation was removed.', {
        meta: { generation_id: id },
      });
    }
    const merged = { ...row.metadata, ...metadata };
    if (Buffer.byteLength(JSON.stringify(merged)) > METADATA_BYTES_MAX) {
      throw invalidInput('VALIDATION_FAILED', 'metadata', 'all entries together must not exceed 1 MiB');
    }
    const updatedAt = clock.now();
    await query(
      'update generations set metadata = $2, updated_at = $3 where id = $1',
      [id, JSON.stringify(merged), updatedAt],
      tx,
    );
    return { ...row, metadata: merged, updatedAt };
  });
}
