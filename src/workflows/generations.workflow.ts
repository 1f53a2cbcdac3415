import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  isCancellation,
  proxyActivities,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import { AWAIT_REST, CONTENT_READ, ROW_CHANGED, SUBMIT_TOOL_OUTPUTS } from './generations.contract';
import type {
  GenerationInput,
  RestInput,
  ServerCall,
  Settled,
  StepInput,
  StepOutcome,
  Submission,
} from './generations.contract';
import { database, model, streamedModel, tool } from './options';
import { isRowGone } from './row-gone';

const { acceptToolOutputs, dropContent, recordLostCall, recordPause, settleGeneration } =
  proxyActivities<Activities>(database);

export const submitToolOutputs = defineUpdate<undefined, [Submission]>(SUBMIT_TOOL_OUTPUTS);
export const awaitRest = defineUpdate<undefined, [RestInput]>(AWAIT_REST);
export const rowChanged = defineSignal(ROW_CHANGED);
export const contentRead = defineSignal(CONTENT_READ);

/** What the handlers and the loop tell one another. */
interface Progress {
  /** Whether the run has seen where its rows stand: one that was started again may find a pause there. */
  known: boolean;
  /** Number of the pause that stands, as the row counts. */
  pause: number;
  /** Whether that pause still takes a submission. */
  open: boolean;
  taken: string | undefined;
  moved: boolean;
  /** Number of the last pause that is committed. */
  rested: number;
  /** How often a pause was found in the rows. */
  looks: number;
  /** The run is over, or moves on to a fresh history: waiters are let go and read the row. */
  over: boolean;
  /** The caller that waited has the answer, and took the content with it. */
  read: boolean;
}

/** One run of an agent's model loop. It decides what comes next; rows and activities hold everything else. */
export async function generation(input: GenerationInput): Promise<void> {
  const progress: Progress = {
    known: false,
    pause: 0,
    open: false,
    taken: undefined,
    moved: false,
    rested: 0,
    looks: 0,
    over: false,
    read: false,
  };
  listen(progress);
  let end: End;
  try {
    end = { scratch: await loop(input, progress) };
  } catch (error) {
    end = await settleAfter(error, input.generationId);
  }
  progress.open = false;
  progress.known = true;
  progress.over = true;
  await CancellationScope.nonCancellable(async () => {
    if (end.scratch) await removeScratch(input, progress);
    await condition(allHandlersFinished);
  });
  if (end.failure !== undefined) throw end.failure;
}

/** How the loop ended. */
interface End {
  /** Whether content is left for a caller that waits. */
  scratch: boolean;
  /** The error with which the run is to close. */
  failure?: Error | undefined;
}

/** Under zero retention: waiters are answered already, and what none of them comes for in time is removed. */
async function removeScratch({ generationId, scratchMs }: GenerationInput, progress: Progress): Promise<void> {
  if (scratchMs === undefined) return;
  if (!(await condition(() => progress.read, scratchMs))) await dropContent({ generationId });
}

function listen(progress: Progress): void {
  setHandler(
    submitToolOutputs,
    async (given) => {
      // Only then: a submission is taken before the first wait, so that of two that come together one is refused.
      if (!progress.known) await CancellationScope.nonCancellable(() => condition(() => progress.known));
      if (isElsewhere(progress, given)) await lookAgain(progress);
      refuseUnlessAwaited(progress, given);
      progress.taken = given.submissionId;
      progress.open = false;
      return undefined;
    },
    {
      validator: (given: Submission) => {
        if (progress.known && !isElsewhere(progress, given)) refuseUnlessAwaited(progress, given);
      },
    },
  );
  setHandler(awaitRest, async ({ afterPause }) => {
    // A waiter outlives the cancellation of the run: it is answered by the settlement.
    await CancellationScope.nonCancellable(() => condition(() => progress.over || progress.rested > afterPause));
    return undefined;
  });
  setHandler(rowChanged, () => {
    progress.moved = true;
  });
  setHandler(contentRead, () => {
    progress.read = true;
  });
}

/**
 * A submission names the pause that its row had: another one than the run's means that the run is behind its row or ahead of
 * it, as after the restore of an older copy, or that the caller is late.
 */
const isElsewhere = ({ pause, over }: Progress, given: Submission): boolean => !over && given.pause !== pause;

/** Has the run look at its rows, and waits until it did. */
async function lookAgain(progress: Progress): Promise<void> {
  const { looks } = progress;
  progress.moved = true;
  await CancellationScope.nonCancellable(() => condition(() => progress.over || progress.looks > looks));
}

function refuseUnlessAwaited({ open, pause }: Progress, given: Submission): void {
  if (!open || given.pause !== pause) throw refusal('GENERATION_NOT_AWAITING_TOOL_OUTPUTS');
}

/** Answers whether content is left for a caller that waits. */
async function loop(input: GenerationInput, progress: Progress): Promise<boolean> {
  const { generationId } = input;
  const ask = modelSteps(input);
  for (let step = 1; ;) {
    const at = await ask(step, progress.rested === 0);
    if (at.kind === 'settled') return at.scratch === true;
    if (at.clientCalls === 0) progress.known = true;
    await callAll(input, at.step, at.serverCalls);
    if (at.clientCalls > 0) await pauseFor(generationId, at.pause, progress);
    step = at.step + 1;
    if (workflowInfo().continueAsNewSuggested) await moveOn(input, progress);
  }
}

type AskStep = (step: number, streaming: boolean) => Promise<Exclude<StepOutcome, { kind: 'again' }>>;

/**
 * Asks for model steps: at the process that holds the run's stream while there is one, else on the common queue. A step
 * that the stream's process did not take, or was lost with it, goes to the common queue, and so do the steps after it.
 */
function modelSteps({ generationId, heartbeatMs, streamQueue }: GenerationInput): AskStep {
  const common = proxyActivities<Activities>(model(heartbeatMs));
  const streamed = streamQueue === undefined ? undefined : proxyActivities<Activities>(streamedModel(streamQueue));
  let lost = streamed === undefined;
  return async (step, streaming) => {
    let given: StepInput = { generationId, step };
    for (;;) {
      const at =
        lost || !streaming ? await common.runModelStep(given) : await streamed?.runModelStep(given).catch(orLost);
      if (at === undefined) lost = true;
      else if (at.kind !== 'again') return at;
      else await sleep(at.waitMs);
      given = { generationId, step, again: true };
    }
  };
}

/** A step that failed for another reason than its end goes to the common queue, whose tries have no number. */
function orLost(error: unknown): undefined {
  if (isCancellation(error) || isRowGone(error) || !(error instanceof ActivityFailure)) throw error;
  return undefined;
}

/** Makes the calls of one step, all at once; one that was lost with its worker is recorded as such, never repeated. */
async function callAll(
  { generationId, heartbeatMs }: GenerationInput,
  step: number,
  calls: ServerCall[],
): Promise<void> {
  await Promise.all(
    calls.map(async ({ call, timeoutMs, read }) => {
      const { callTool } = proxyActivities<Activities>(tool(heartbeatMs, timeoutMs, read));
      try {
        await callTool({ generationId, step, call });
      } catch (error) {
        if (isCancellation(error) || isRowGone(error)) throw error;
        await recordLostCall({ generationId, step, call });
      }
    }),
  );
}

/** Waits for the outputs of one pause; also returns when the row was changed by others, and the next look at it decides. */
async function pauseFor(generationId: string, pause: number, progress: Progress): Promise<void> {
  if (pause !== progress.pause) progress.taken = undefined;
  progress.pause = pause;
  progress.moved = false;
  for (;;) {
    progress.open = progress.taken === undefined; // Open before anyone can be told.
    progress.known = true;
    progress.looks += 1;
    if (!(await recordPause({ generationId, pause }))) return;
    progress.rested = pause;
    await condition(() => progress.taken !== undefined || progress.moved);
    const submissionId = progress.taken;
    if (submissionId === undefined) return;
    if (await acceptToolOutputs({ generationId, pause, submissionId })) return;
    progress.taken = undefined; // Its row is gone (a database restored from an older copy): the pause stands.
  }
}

/**
 * A long run goes on with a fresh history; the rows are its program counter, so nothing is handed over. What is left of a
 * stream comes from the rows: a fresh history would not know that its process is gone, or that the run has paused.
 */
async function moveOn({ streamQueue: _left, ...input }: GenerationInput, progress: Progress): Promise<void> {
  progress.known = true;
  progress.over = true;
  await condition(allHandlersFinished);
  await continueAsNew<typeof generation>(input);
}

/** No run ends before its row is settled; the run closes with its own cancellation. */
async function settleAfter(error: unknown, generationId: string): Promise<End> {
  if (isRowGone(error)) return { scratch: false };
  if (!isCancellation(error) && !(error instanceof ActivityFailure)) throw error; // The SDK's own: continue-as-new, a bug.
  const code = isCancellation(error) ? 'GENERATION_CANCELLED' : 'GENERATION_FAILED';
  let scratch = false;
  try {
    const settled = await CancellationScope.nonCancellable(() => settleGeneration({ generationId, code }));
    // A worker of an older build answers nothing.
    scratch = (settled as Settled | undefined)?.scratch === true;
  } catch (second) {
    if (!isRowGone(second)) throw second;
  }
  return { scratch, ...(isCancellation(error) && error instanceof Error ? { failure: error } : {}) };
}

const refusal = (code: string): ApplicationFailure => ApplicationFailure.nonRetryable(code, code);
