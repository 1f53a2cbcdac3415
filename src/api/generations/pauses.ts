import { clock } from '../core/clock';
import { inTransaction, isUniqueViolation, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { count } from '../core/metrics';
import { acceptedRunBinds, countAcceptedRun, roomExpressions, whereRunFits } from '../plans/runs';
import type { RunRoom } from '../plans/runs';
import { SEAL_COLUMNS, callPlace, sealOfRow, submissionPlace } from './sealing';
import type { ContentSeal, SealRow } from './sealing';
import type { CallError } from './turn';

/**
 * Commits a pause before anyone is told of it: whoever waited is answered by it, and waits no more; a no-op on a settled
 * run, on one that pauses already, and where a late try comes after the outputs. Safe to repeat.
 * Answers whether that pause stands now; null when the row is gone.
 */
export async function storePause(generationId: string, pause: number): Promise<boolean | null> {
  const row = await queryOne<{ stands: boolean; began: boolean }>(
    `with paused as (update generations set status = 'requires_action', pause = $2, awaited = false, last_activity_at = $3, updated_at = $3
       where id = $1 and status = 'in_progress' and exists (
         select 1 from generation_calls k where k.generation_id = $1 and k.pause = $2 and k.answered_at is null) returning id)
     select (select count(*) from paused) = 1 or (status = 'requires_action' and pause = $2) as stands,
       (select count(*) from paused) = 1 as began
     from generations where id = $1`,
    [generationId, pause, clock.now()],
  );
  if (row?.began === true) count('runsPaused', { resource: 'generation' });
  return row?.stands ?? null;
}

/** What a client gave for one call; with an error where the output mapping of its tool failed. */
export interface SubmittedOutput {
  tool_call_id: string;
  output: unknown;
  error?: CallError;
}

/** A submission of tool outputs, as it is stored before the run is told its id. */
export interface SubmissionRow {
  id: string;
  projectId: string;
  generationId: string;
  pause: number;
  outputs: SubmittedOutput[];
  /** How they are stored. */
  seal: ContentSeal;
  idempotencyKey: string | null;
  requestHash: Buffer | null;
}

/** `late`: the pause stands no more; `key_taken`: another submission of the generation holds the idempotency key. */
export type Storing = 'stored' | 'late' | 'key_taken';

/** Those of one pause share one place: only one of them can be accepted. */
const STORE = `
  with ${roomExpressions(9, '$3')},
  standing as (select id from generations where id = $3 and status = 'requires_action' and pause = $4::integer),
  stored as (
    insert into generation_submissions (id, project_id, generation_id, pause, body, idempotency_key, request_hash, created_at)
    select $1, $2, standing.id, $4::integer, $5::json, $6, $7::bytea, $8::timestamptz from standing, fits)
  select plan, runs_max, runs, exists (select 1 from standing) as stands from room`;

/**
 * Stores a submission where the month has a run left for its pause: the stored row holds that run until it is accepted,
 * which counts it, or dropped. Spec: Plans, run.
 * @throws plan_limit_reached
 */
export async function storeSubmission(row: SubmissionRow, ownerUserId: string): Promise<Storing> {
  const binds = [
    row.id,
    row.projectId,
    row.generationId,
    row.pause,
    row.seal.seal(submissionPlace(row.id), row.outputs),
    row.idempotencyKey,
    row.requestHash,
    clock.now(),
  ];
  try {
    return await whereRunFits<Storing>(ownerUserId, async (room, tx) => {
      const made = await queryOne<RunRoom & { stands: boolean }>(STORE, [...binds, ...room], tx);
      if (made?.stands !== true) return { room: null, answer: 'late' };
      return { room: made, answer: 'stored' };
    });
  } catch (error) {
    if (isUniqueViolation(error)) return 'key_taken';
    throw error;
  }
}

/** Removes a submission that was refused; one that was accepted stays. */
export async function dropSubmission(id: string): Promise<void> {
  await query('delete from generation_submissions where id = $1 and accepted_at is null', [id]);
}

/** The submission that holds an idempotency key. */
export const submissionByKey = (
  generationId: string,
  key: string,
): Promise<{ id: string; pause: number; request_hash: Buffer; accepted: boolean } | null> =>
  queryOne(
    `select id, pause, request_hash, accepted_at is not null as accepted from generation_submissions
     where generation_id = $1 and idempotency_key = $2`,
    [generationId, key],
  );

/** Whether a submission was accepted; those that were not go with the settlement. */
export async function wasAccepted(id: string): Promise<boolean> {
  const row = await queryOne('select id from generation_submissions where id = $1 and accepted_at is not null', [id]);
  return row !== null;
}

/** `refused`: the submission is gone, or the pause is not the one that stands. */
export type Acceptance = 'accepted' | 'refused' | 'gone';

/**
 * Confirms the submission that the run took: marks it accepted (unique for the pause) and answers the pause's calls, in
 * one transaction. Safe to repeat.
 */
export async function acceptSubmission(generationId: string, pause: number, submissionId: string): Promise<Acceptance> {
  return inTransaction(async (tx) => {
    const run = await queryOne<SealRow & { status: string; pause: number }>(
      `select g.status, g.pause, ${SEAL_COLUMNS} from generations g
       left join generation_contents c on c.generation_id = g.id where g.id = $1 for update of g`,
      [generationId],
      tx,
    );
    if (run === null) return 'gone';
    const row = await queryOne<{ accepted: boolean; body: unknown }>(
      `select accepted_at is not null as accepted, body from generation_submissions where id = $1 and generation_id = $2 and pause = $3`,
      [submissionId, generationId, pause],
      tx,
    );
    if (row?.accepted === true) return 'accepted';
    if (run.status === 'completed' || run.status === 'failed') return 'accepted'; // Settled meanwhile: the next look at the row ends the run.
    const seal = sealOfRow(generationId, run);
    if (row === null || seal === null || run.status !== 'requires_action' || run.pause !== pause) return 'refused';
    const outputs = seal.open(submissionPlace(submissionId), row.body) as SubmittedOutput[];
    await answerCalls(tx, { generationId, pause, submissionId, outputs, seal });
    return 'accepted';
  });
}

interface Given {
  generationId: string;
  pause: number;
  submissionId: string;
  outputs: SubmittedOutput[];
  seal: ContentSeal;
}

/** What stands in a part of the call that an output answers; undefined where nothing does. */
const partOf = (part: 'result' | 'error', { output, error }: SubmittedOutput): unknown => {
  if (part === 'error') return error;
  return error === undefined ? (output ?? null) : undefined;
};

async function answerCalls(tx: Tx, { generationId, pause, submissionId, outputs, seal }: Given): Promise<void> {
  const given = new Map(outputs.map((output) => [output.tool_call_id, output]));
  const open = await query<{ step: number; call: number; call_id: string }>(
    `select step, call, call_id from generation_calls
     where generation_id = $1 and pause = $2 and call_id = any($3::text[]) and answered_at is null`,
    [generationId, pause, [...given.keys()]],
    tx,
  );
  const sealed = (part: 'result' | 'error'): (string | null)[] =>
    open.map((at) => {
      const output = given.get(at.call_id);
      const value = output === undefined ? undefined : partOf(part, output);
      return value === undefined ? null : seal.seal(callPlace(at, part), value);
    });
  await query(
    `with marked as (update generation_submissions set accepted_at = $2 where id = $3),
     answered as (update generation_calls k set result = o.result::json, error = o.error::json, answered_at = $2
       from unnest($4::int[], $5::int[], $6::text[], $8::text[]) as o (step, call, result, error)
       where k.generation_id = $1 and k.step = o.step and k.call = o.call),
     counted as (${countAcceptedRun(9)})
     update generations set status = 'in_progress', awaited = true, content_bytes = content_bytes + $7,
       last_activity_at = $2, updated_at = $2
     where id = $1`,
    [
      generationId,
      clock.now(),
      submissionId,
      open.map(({ step }) => step),
      open.map(({ call }) => call),
      sealed('result'),
      outputs.reduce((sum, { output, error }) => sum + Buffer.byteLength(JSON.stringify(error ?? output ?? null)), 0),
      sealed('error'),
      ...acceptedRunBinds(),
    ],
    tx,
  );
}
