import { heartbeat } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/common';
import { clock, shifted } from '../api/core/clock';
import { config } from '../api/core/config';
import { query } from '../api/core/db';
import { errorFacts, log } from '../api/core/log';
import { count } from '../api/core/metrics';
import { engine, signalRun, startRun } from '../api/core/temporal';
import type { RunInput } from '../api/core/temporal';
import { deliverySweep } from '../api/webhooks/runs';
import { ROW_CHANGED } from '../workflows/generations.contract';
import { codeMailId } from '../workflows/mail.contract';
import type { MailInput } from '../workflows/mail.contract';
import type { LostCounts, RemovalPiece, StartCounts, SweepKind } from '../workflows/sweeps.contract';
import { removals } from './removals';

const UNSEEN_MAX = 1_000;
const UNSETTLED_PAGE = 500;
/** Ends a pass that goes on for ever; the next one takes up the rest. */
const PAGES_MAX = 2_000;
const CALLS_AT_ONCE = 10;
const REMOVALS_A_PIECE = 50;

/** Sign-in codes whose mail nobody began to send. A run that gave up is not repeated: the person asks for another code. */
const codeSweep: SweepKind = {
  name: 'sign_in_codes',
  workflowType: 'mail',
  endsByItself: true,
  unseen: (olderThan, limit) => unsentCodes(olderThan, null, limit).then((codes) => codes.map(({ run }) => run)),
  unsettled: (afterId, limit) =>
    unsentCodes(shifted(clock.now(), -config().SWEEP_INTERVAL_SECONDS * 1000), afterId ?? '', limit),
};

async function unsentCodes(
  olderThan: Date,
  afterId: string | null,
  limit: number,
): Promise<{ id: string; run: RunInput }[]> {
  const rows = await query<{ id: string }>(
    `select id from sign_in_codes
     where run_seen_at is null and created_at < $1 and expires_at > $2 and ($3::text is null or id > $3::text)
     order by ${afterId === null ? 'created_at' : 'id'} limit $4`,
    [olderThan, clock.now(), afterId, limit],
  );
  return rows.map(({ id }) => ({ id, run: codeMailRun(id) }));
}

function codeMailRun(codeId: string): RunInput {
  const input: MailInput = { codeId };
  return {
    type: 'mail',
    id: codeMailId(codeId),
    args: [input],
    labels: { resourceType: 'sign_in_code', resourceId: codeId },
    memo: { trigger: 'sweep' },
    mayRepeat: true,
  };
}

/** Activities of the Schedules: what was left behind is started, what is past its time is removed. All are safe to repeat. */
export const sweepActivities = (deps: { kinds: SweepKind[] }) => {
  const kinds = new Map([...deps.kinds, deliverySweep, codeSweep].map((kind) => [kind.name, kind]));
  return {
    /** Starts the runs of rows whose start was lost, oldest first. */
    async startUnseen({ kind }: { kind: string }): Promise<StartCounts> {
      const sweep = known(kinds, kind);
      return sweep === null ? { started: 0 } : { started: await startUnseen(sweep) };
    },

    /** Compares unsettled rows with the engine's open runs, both ways. */
    async compareRuns({ kind }: { kind: string }): Promise<LostCounts> {
      const sweep = known(kinds, kind);
      return sweep === null ? { started: 0, signalled: 0 } : compareRuns(sweep);
    },

    /** Removes one piece of what is past its time in a table. */
    async removeRows({ table, after }: { table: string; after: string | null }): Promise<RemovalPiece> {
      const remove = known(removals, table);
      let piece: RemovalPiece = { removed: 0, after: remove === null ? null : (after ?? '') };
      for (let page = 0; remove !== null && piece.after !== null && page < REMOVALS_A_PIECE; page += 1) {
        const { removed, after: next } = await remove(piece.after);
        piece = { removed: piece.removed + removed, after: next };
        count('sweepRemoved', { table }, removed);
        heartbeat();
      }
      return piece;
    },
  };
};

/** A worker of an older build may be asked for what it does not know; a newer one will do it. */
function known<Value>(values: ReadonlyMap<string, Value>, name: string): Value | null {
  const found = values.get(name);
  if (found === undefined) log.warn({ msg: 'unknown sweep', name });
  return found ?? null;
}

/** Goes on while pages bring rows that were not started before: a started row is seen by its run soon, but not at once. */
async function startUnseen(sweep: SweepKind): Promise<number> {
  const started = new Set<string>();
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const runs = await sweep.unseen(shifted(clock.now(), -config().SWEEP_INTERVAL_SECONDS * 1000), UNSEEN_MAX);
    const fresh = runs.filter(({ id }) => !started.has(id));
    await inChunks(fresh, (run) => startUnsettled(sweep.name, run));
    for (const { id } of fresh) started.add(id);
    if (runs.length < UNSEEN_MAX || fresh.length === 0) break;
  }
  return started.size;
}

/** An id that is closed belongs to a run that ended without settling its row: it is started again. */
async function startUnsettled(kind: string, run: RunInput): Promise<void> {
  if ((await startRun(run)) === 'closed') await startRun({ ...run, mayRepeat: true });
  count('sweepRepairs', { kind, action: 'started' });
}

async function compareRuns(sweep: SweepKind): Promise<LostCounts> {
  // The runs first: a row that is made while the rows are read has its run not in this list, and one whose run is in
  // the list existed before.
  const open = await openRuns(sweep.workflowType);
  let started = 0;
  let signalled = 0;
  let after: string | null = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const rows = await sweep.unsettled(after, UNSETTLED_PAGE);
    // Whether the run moves too or waits at a pause that its row has left, as after the restore of an older copy, cannot be
    // seen from here: a run that moves takes no notice.
    signalled += await tellRuns(
      sweep.name,
      rows.filter(({ run, moving }) => moving === true && open.has(run.id)).map(({ run }) => run.id),
    );
    const suspects = rows.filter(({ run }) => !open.delete(run.id)).map(({ run }) => run);
    await inChunks(suspects, async (run) => {
      if (await isOpen(run.id)) return; // The engine's list lags behind.
      await startRun({ ...run, mayRepeat: true });
      started += 1;
      count('sweepRepairs', { kind: sweep.name, action: 'started' });
    });
    after = rows.at(-1)?.id ?? null;
    if (rows.length < UNSETTLED_PAGE) {
      const orphans = sweep.endsByItself === true ? [] : [...open];
      return { started, signalled: signalled + (await tellRuns(sweep.name, orphans)) };
    }
  }
  // Rows were left out, so nothing is known of the runs that remain.
  return { started, signalled };
}

async function tellRuns(kind: string, ids: string[]): Promise<number> {
  let signalled = 0;
  await inChunks(ids, async (id) => {
    if (!(await signalRun(id, ROW_CHANGED))) return;
    signalled += 1;
    count('sweepRepairs', { kind, action: 'told' });
  });
  return signalled;
}

async function openRuns(workflowType: string): Promise<Set<string>> {
  const ids = new Set<string>();
  const runs = engine().workflow.list({
    query: `WorkflowType = "${workflowType}" AND ExecutionStatus = "Running"`,
    pageSize: UNSETTLED_PAGE,
  });
  for await (const { workflowId } of runs) {
    ids.add(workflowId);
    if (ids.size % UNSETTLED_PAGE === 0) heartbeat();
  }
  heartbeat();
  return ids;
}

async function isOpen(id: string): Promise<boolean> {
  try {
    const { status } = await engine().workflow.getHandle(id).describe();
    return status.name === 'RUNNING' || status.name === 'PAUSED';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** Works through a list a few at a time. One that fails is left to the next pass; when a whole chunk fails, so does this. */
async function inChunks<Item>(items: Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += CALLS_AT_ONCE) {
    const results = await Promise.allSettled(items.slice(at, at + CALLS_AT_ONCE).map(work));
    const failures = results.filter((result) => result.status === 'rejected').map((result) => result.reason as unknown);
    for (const failure of failures) log.warn({ msg: 'sweep could not act', ...errorFacts(failure) });
    if (failures.length === results.length) throw failures[0];
    heartbeat();
  }
}
