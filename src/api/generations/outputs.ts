import { randomUUID } from 'node:crypto';
import { ROW_CHANGED, SUBMIT_TOOL_OUTPUTS } from '../../workflows/generations.contract';
import type { Submission } from '../../workflows/generations.contract';
import { assertRunnable } from '../projects/service';
import { clock } from '../core/clock';
import { ApiError, notFound, unavailable } from '../core/errors';
import type { InputProblem } from '../core/errors';
import { faultPoint } from '../core/faults';
import type { ProjectAccess } from '../core/route';
import { cancelRun, runEnded, signalRun, startRun, updateRun } from '../core/temporal';
import { mapOutput } from '../tools/call';
import { transcriptError } from '../tools/outcome';
import { requestHashOf } from './idempotency';
import type { RequestHash } from './idempotency';
import { isSettled } from './models';
import type { GenerationError, GenerationRow } from './models';
import { failure } from './endings';
import { dropSubmission, storeSubmission, submissionByKey, wasAccepted } from './pauses';
import type { SubmittedOutput } from './pauses';
import type { GenerationRows } from './present';
import { generationRows, toolsOf } from './rows';
import { awaitGenerationRest, generationRun } from './runs';
import { getGeneration, restOf } from './service';
import type { Generated } from './service';

/** How long a running worker may take to take a submission or a cancel; beyond it none runs. */
const TAKE_TIMEOUT_MS = 15_000;

export interface OutputsInput {
  project: ProjectAccess;
  agentId: string;
  generationId: string;
  outputs: { tool_call_id: string; output?: unknown }[];
  idempotencyKey: string | null;
}

const notAwaiting = (generationId: string): ApiError =>
  new ApiError('GENERATION_NOT_AWAITING_TOOL_OUTPUTS', 'The generation does not wait for tool outputs.', {
    meta: { generation_id: generationId },
  });

/**
 * Gives a paused run the outputs of its client tools and waits for what follows. The outputs are stored first; the run
 * decides which of several submissions wins. Safe to repeat with an idempotency key.
 * Spec: Generation states; Errors, `GENERATION_NOT_AWAITING_TOOL_OUTPUTS`.
 * @throws not_found, VALIDATION_FAILED, PROJECT_PAUSED, PROJECT_ARCHIVED, GENERATION_NOT_AWAITING_TOOL_OUTPUTS,
 *   IDEMPOTENCY_KEY_REUSED, plan_limit_reached, service_unavailable, and the code with which the run failed
 */
export async function submitOutputs(input: OutputsInput): Promise<Generated> {
  const rows = await generationRows({
    projectId: input.project.id,
    generationId: input.generationId,
    agentId: input.agentId,
  });
  if (rows === null) throw notFound();
  const hash = requestHashOf({ outputs: input.outputs });
  const repeat = await repeatedSubmission(input, rows, hash);
  if (repeat !== null) return repeat;
  assertRunnable(input.project);
  if (rows.row.status !== 'requires_action') throw notAwaiting(input.generationId);
  checkOutputs(rows, input.outputs);
  const submission = { submissionId: randomUUID(), pause: rows.row.pause };
  const outputs = await mapped(input, rows);
  await faultPoint('outputs-mapped');
  const stored = await storeSubmission(
    {
      id: submission.submissionId,
      projectId: input.project.id,
      generationId: input.generationId,
      pause: submission.pause,
      outputs,
      seal: rows.seal,
      idempotencyKey: input.idempotencyKey,
      requestHash: input.idempotencyKey === null ? null : hash.present,
    },
    input.project.ownerUserId,
  );
  if (stored !== 'stored') {
    // The same key came twice at once: this one waits for what the other one gets, also when that is accepted by now.
    const other = await repeatedSubmission(input, rows, hash);
    if (other === null) throw notAwaiting(input.generationId);
    return other;
  }
  return send(rows.row, submission);
}

/** Answers null when no submission holds the key. @throws IDEMPOTENCY_KEY_REUSED */
async function repeatedSubmission(
  input: OutputsInput,
  rows: GenerationRows,
  hash: RequestHash,
): Promise<Generated | null> {
  if (input.idempotencyKey === null) return null;
  const earlier = await submissionByKey(input.generationId, input.idempotencyKey);
  if (earlier === null) return null;
  if (!hash.matches(earlier.request_hash)) {
    throw new ApiError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another submission.', {
      meta: { generation_id: input.generationId },
    });
  }
  if (earlier.accepted) return restOf(rows.row, earlier.pause);
  // It was stored, and whether the run took it is not known yet: asking again with its id is safe.
  return send(rows.row, { submissionId: earlier.id, pause: earlier.pause });
}

function checkOutputs({ calls }: GenerationRows, outputs: OutputsInput['outputs']): void {
  const pending = new Set(calls.filter((call) => call.kind === 'client' && !call.answered).map(({ callId }) => callId));
  const seen = new Set<string>();
  const problems: InputProblem[] = [];
  outputs.forEach(({ tool_call_id: id }, index) => {
    const path = `tool_outputs.${String(index)}.tool_call_id`;
    if (seen.has(id)) problems.push({ path, message: `${id} is given twice` });
    else if (!pending.has(id)) problems.push({ path, message: `${id} is not a pending call` });
    seen.add(id);
  });
  for (const id of pending)
    if (!seen.has(id)) problems.push({ path: 'tool_outputs', message: `the output of ${id} is missing` });
  if (problems.length > 0) {
    throw new ApiError('VALIDATION_FAILED', 'There must be exactly one output for each pending call.', {
      details: problems,
    });
  }
}

/** The outputs as the model will read them: through the output mappings of their tools. */
async function mapped({ outputs, generationId }: OutputsInput, { calls }: GenerationRows): Promise<SubmittedOutput[]> {
  const tools = await toolsOf(generationId);
  return Promise.all(
    outputs.map(async ({ tool_call_id: id, output = null }) => {
      const call = calls.find(({ callId }) => callId === id);
      const tool = tools.find(({ name }) => name === call?.toolName);
      if (call === undefined || tool?.outputMapping == null) return { tool_call_id: id, output };
      const args = (call.pinned ?? call.args) as Record<string, unknown>;
      const given = await mapOutput(tool, { output, input: args });
      return given.kind === 'result'
        ? { tool_call_id: id, output: given.value }
        : { tool_call_id: id, output: null, error: transcriptError(given.error) };
    }),
  );
}

async function send(row: GenerationRow, submission: Submission): Promise<Generated> {
  const deadline = clock.ms() + TAKE_TIMEOUT_MS;
  try {
    const outcome = await updateRun(
      row.id,
      { name: SUBMIT_TOOL_OUTPUTS, args: [submission], updateId: submission.submissionId },
      TAKE_TIMEOUT_MS,
    );
    if (outcome === 'timeout') throw unavailable('No worker took the outputs in time; they may still be taken.');
    if (outcome === 'no-run') await afterNoRun(row, deadline);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS') throw error;
    await dropSubmission(submission.submissionId);
    throw notAwaiting(row.id);
  }
  const rest = await restOf(row, submission.pause).catch(async (error: unknown) => {
    throw await lostToCancel(row, submission, error);
  });
  return rest;
}

/** A run that was cancelled before it accepted the outputs never had them: the submitter lost the race. */
async function lostToCancel(row: GenerationRow, submission: Submission, error: unknown): Promise<unknown> {
  const now = await getGeneration(row.projectId, row.id);
  if (now.stopReason !== 'cancelled') return error;
  return (await wasAccepted(submission.submissionId)) ? error : notAwaiting(row.id);
}

/** The engine has no open run: the row is settled (the outputs came too late), or the run was lost and is started again. */
async function afterNoRun(row: GenerationRow, deadline: number): Promise<never> {
  const now = await getGeneration(row.projectId, row.id);
  if (isSettled(now)) throw new ApiError('GENERATION_NOT_AWAITING_TOOL_OUTPUTS', 'settled');
  await repair(now);
  throw unavailable(clock.ms() < deadline ? 'The run is being restored.' : 'No worker took the outputs in time.');
}

/** Starts the run of an unsettled row again; the rows say where it goes on. */
async function repair(row: GenerationRow): Promise<void> {
  await startRun({ ...generationRun(row, 'sweep'), mayRepeat: true });
  await signalRun(row.id, ROW_CHANGED);
}

/**
 * Cancels a run and answers its record. Cancel and settlement race for one compare-and-set on the status.
 * @throws not_found, GENERATION_ALREADY_SETTLED, service_unavailable when no worker took it in time
 */
export async function cancelGeneration(projectId: string, id: string): Promise<GenerationRow> {
  const row = await getGeneration(projectId, id);
  if (isSettled(row)) throw alreadySettled(row);
  if (!(await cancelRun(id))) {
    const now = await getGeneration(projectId, id);
    if (isSettled(now)) throw alreadySettled(now);
    await repair(now);
    await cancelRun(id);
  }
  if (!(await isOver(row))) throw unavailable('No worker took the cancellation in time; it may still be taken.');
  const after = await getGeneration(projectId, id);
  if (after.stopReason !== 'cancelled') throw alreadySettled(after);
  // Under zero retention no error is recorded, and this one says nothing that the record does not.
  if (after.contentMode === 'none') after.error = cancellation(after);
  return after;
}

function cancellation({ id, traceId }: GenerationRow): GenerationError | null {
  const ending = failure({ generationId: id, traceId }, 'GENERATION_CANCELLED', 'The generation was cancelled.');
  return ending.status === 'failed' ? ending.error : null;
}

/** Waits for the settlement; a run under zero retention may stay open after it, for the caller that waits. */
async function isOver(row: GenerationRow): Promise<boolean> {
  if (row.contentMode === 'full') return runEnded(row.id, TAKE_TIMEOUT_MS);
  const outcome = await awaitGenerationRest(row, Number.MAX_SAFE_INTEGER, {
    timeoutMs: TAKE_TIMEOUT_MS,
    outlastsOutages: true,
  });
  return outcome === 'answered' || outcome === 'no-run';
}

const alreadySettled = (row: GenerationRow): ApiError =>
  new ApiError('GENERATION_ALREADY_SETTLED', `The generation is ${row.status}.`, { meta: { generation_id: row.id } });
