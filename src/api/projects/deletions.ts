import type { DeleteBatchInput } from '../../workflows/deletions.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock } from '../core/clock';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { errorFacts, log } from '../core/log';
import { startRun } from '../core/temporal';
import type { RunInput, RunMemo } from '../core/temporal';

/** What is being deleted: gone for everybody, while a run removes what hangs from it. */
export interface Deletion {
  kind: DeleteBatchInput['kind'];
  id: string;
  projectId: string;
}

/** Writes down, with the end of what is deleted, that what hangs from it is to go. */
export async function recordDeletion({ kind, id, projectId }: Deletion, tx: Tx): Promise<void> {
  await query(
    'insert into deletions (id, project_id, kind, created_at) values ($1, $2, $3, $4)',
    [id, projectId, kind, clock.now()],
    tx,
  );
}

/** The project of a deletion that is not at its end, marked as seen by its run; null when it is. Safe to repeat. */
export async function openDeletion({ kind, id }: DeleteBatchInput): Promise<string | null> {
  const row = await queryOne<{ project_id: string }>(
    'update deletions set run_seen_at = coalesce(run_seen_at, $3) where id = $1 and kind = $2 returning project_id',
    [id, kind, clock.now()],
  );
  return row?.project_id ?? null;
}

/** Ends a deletion: nothing is left. Safe to repeat. */
export async function closeDeletion({ kind, id }: DeleteBatchInput): Promise<void> {
  await query('delete from deletions where id = $1 and kind = $2', [id, kind]);
}

/** The run of a deletion. */
type RunOf = (deletion: Deletion, memo: RunMemo) => RunInput;

/** Starts the run of a committed deletion. A start that fails or is unknown is no error: the sweep starts it. */
export async function startDeletion(run: RunInput): Promise<void> {
  try {
    await startRun(run);
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', resource_id: run.labels.resourceId, ...errorFacts(error) });
  }
}

/** How the sweeps find deletions of a kind whose start was lost, and those without an open run. */
export function deletionSweep(
  kind: Deletion['kind'],
  { name, workflowType, runOf }: { name: string; workflowType: string; runOf: RunOf },
): SweepKind {
  const rowsOf = async (sql: string, bind: unknown[]): Promise<{ id: string; run: RunInput }[]> => {
    const rows = await query<{ id: string; project_id: string }>(sql, bind);
    return rows.map(({ id, project_id: projectId }) => ({
      id,
      run: { ...runOf({ kind, id, projectId }, { trigger: 'sweep' }), mayRepeat: true },
    }));
  };
  return {
    name,
    workflowType,
    endsByItself: true,
    unseen: async (olderThan, limit) => {
      const found = await rowsOf(
        `select id, project_id from deletions where kind = $1 and run_seen_at is null and created_at < $2
         order by created_at limit $3`,
        [kind, olderThan, limit],
      );
      return found.map(({ run }) => run);
    },
    unsettled: (afterId, limit) =>
      rowsOf('select id, project_id from deletions where kind = $1 and id > $2 order by id limit $3', [
        kind,
        afterId ?? '',
        limit,
      ]),
  };
}
