import { CONTENT_READ } from '../../workflows/generations.contract';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { errorFacts, log } from '../core/log';
import { signalRun } from '../core/temporal';
import type { GenerationRows } from './present';
import { generationRows } from './rows';
import { SEAL_COLUMNS, sealOfRow } from './sealing';
import type { ContentSeal, SealRow } from './sealing';
import { isSettled } from './models';

/** What a run under zero retention leaves for a caller that waits: sealed, until that caller's read or the run removes it. */

/**
 * Removes all content of a settled run under zero retention, the key first of all; answers whether there was any. Nothing
 * is changed of other runs. Safe to repeat.
 * Spec: Generations, what is kept; durable part, scratch.
 */
export async function dropContent(generationId: string, tx?: Tx): Promise<boolean> {
  const row = await queryOne<{ removed: boolean }>(
    `with run as (select id from generations where id = $1 and content_mode = 'none'
       and status in ('completed', 'failed') for no key update),
     contents as (delete from generation_contents c using run where c.generation_id = run.id returning 1),
     steps as (update generation_steps s set content = null from run where s.generation_id = run.id and s.content is not null),
     calls as (delete from generation_calls k using run where k.generation_id = run.id),
     submissions as (update generation_submissions b set body = 'null' from run where b.generation_id = run.id),
     errors as (update generations g set error = null from run where g.id = run.id and g.error is not null)
     select exists (select 1 from contents) as removed from run`,
    [generationId],
    tx,
  );
  return row?.removed ?? false;
}

/** Whether a settled run under zero retention still holds content for a caller that waits. */
export async function holdsScratch(generationId: string): Promise<boolean> {
  const rows = await query(
    `select 1 as found from generation_contents c join generations g on g.id = c.generation_id
     where g.id = $1 and g.content_mode = 'none' and g.status in ('completed', 'failed')`,
    [generationId],
  );
  return rows.length > 0;
}

/**
 * Reads a run for a caller that waits for it. Of a settled run under zero retention that read takes the content along: of
 * several callers one gets it, the others see the record without output.
 * Spec: Generations, durable part, scratch.
 * @returns null when there is no such run in the project
 */
export async function takeRows(projectId: string, generationId: string): Promise<GenerationRows | null> {
  const seen = await generationRows({ projectId, generationId });
  if (seen === null || seen.row.contentMode === 'full' || !isSettled(seen.row)) return seen;
  const taken = await inTransaction(async (tx) => {
    // Of two at once the second waits here, and finds nothing.
    await query('select id from generations where id = $1 for no key update', [generationId], tx);
    const rows = await generationRows({ projectId, generationId, taking: true }, tx);
    await dropContent(generationId, tx);
    return rows;
  });
  if (taken?.held === true) tellRead(generationId);
  return taken;
}

/** The run need not wait any longer; one that is not told ends by its timer. */
function tellRead(generationId: string): void {
  signalRun(generationId, CONTENT_READ).catch((error: unknown) => {
    log.warn({ msg: 'run not told of the read', generation_id: generationId, ...errorFacts(error) });
  });
}

/** The seal of a run; null when its content, or its row, is gone. */
export async function sealOf(generationId: string, tx?: Tx): Promise<ContentSeal | null> {
  const row = await queryOne<SealRow>(
    `select ${SEAL_COLUMNS} from generations g left join generation_contents c on c.generation_id = g.id where g.id = $1`,
    [generationId],
    tx,
  );
  return row === null ? null : sealOfRow(generationId, row);
}
