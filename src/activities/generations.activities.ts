import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { activityInfo } from '@temporalio/activity';
import { dueCall, storeCall } from '../api/generations/calls';
import type { CallAnswer, DueCall } from '../api/generations/calls';
import { isRead } from '../api/generations/moves';
import { acceptSubmission, storePause } from '../api/generations/pauses';
import { dropContent, holdsScratch, sealOf } from '../api/generations/scratch';
import { settleFailed } from '../api/generations/settlement';
import { faultPoint } from '../api/core/faults';
import { callTool } from '../api/tools/call';
import { ProgramsBusyError } from '../api/core/programs';
import { outputAt } from '../api/generations/inputs';
import type { ToolOutputContent } from '../api/generations/turn';
import { factsOf } from '../api/tools/direct';
import { transcriptError } from '../api/tools/outcome';
import type { CallOutcome } from '../api/tools/outcome';
import { firstAttempts } from '../api/webhooks/first-attempts';
import type {
  AcceptInput,
  CallInput,
  PauseInput,
  SettleInput,
  Settled,
  StepInput,
  StepOutcome,
} from '../workflows/generations.contract';
import { rowGone } from './failures';
import { isRepeated, withHeartbeats } from './heartbeats';
import { finishDeliveries, modelSteps } from './model-steps';

const READ_TRIES_MAX = 3;

const endings: Record<SettleInput['code'], string> = {
  GENERATION_CANCELLED: 'The generation was cancelled.',
  GENERATION_FAILED: 'The generation failed.',
};

/** Activities of the model loop. Each is safe to repeat: every write is a no-op on a settled row and on what is stored already. */
export const generationActivities = () => {
  const runStep = modelSteps();
  return {
    /** Makes the model call that the rows ask for and stores it, or answers what is stored. Settles the run when it is the last. */
    runModelStep: (input: StepInput): Promise<StepOutcome> => withHeartbeats((attempt) => runStep(input, attempt)),

    /** Makes one call of a step and stores its answer; a failing tool is an answer too. Throws only when a read may be sent again. */
    async callTool(at: CallInput): Promise<void> {
      const state = await dueCall(at.generationId, at.step, at.call);
      if (state.kind === 'gone') throw rowGone();
      if (state.kind === 'answered') return;
      await withHeartbeats(async ({ signal }) => {
        const answer = await answerTo(state.call, at.generationId, signal);
        await storeCall(at, answer, state.call.seal);
        await faultPoint('call-stored');
      });
    },

    /** Records a call that was lost with its worker: it may have been sent, so it is not repeated, and the model decides. */
    async recordLostCall(at: CallInput): Promise<void> {
      const error = { name: 'ToolOutcomeUnknown', message: 'outcome unknown' };
      const seal = await sealOf(at.generationId);
      if (seal === null) throw rowGone();
      await storeCall(at, { result: null, error }, seal);
    },

    /** Commits a pause; false when it does not stand, since the row moved on without the run. */
    async recordPause({ generationId, pause }: PauseInput): Promise<boolean> {
      const stands = await storePause(generationId, pause);
      if (stands === null) throw rowGone();
      return stands;
    },

    /** Confirms the submission that the run took; false when it is gone, and the pause stands. */
    async acceptToolOutputs({ generationId, pause, submissionId }: AcceptInput): Promise<boolean> {
      const acceptance = await acceptSubmission(generationId, pause, submissionId);
      if (acceptance === 'gone') throw rowGone();
      return acceptance === 'accepted';
    },

    /** Settles a run that was cancelled, or ends unexpectedly. */
    async settleGeneration({ generationId, code }: SettleInput): Promise<Settled> {
      const deliveries = await settleFailed(generationId, code, endings[code]);
      if (deliveries === null) throw rowGone();
      firstAttempts.offer(deliveries);
      if (isRepeated()) await finishDeliveries(generationId);
      return (await holdsScratch(generationId)) ? { kind: 'settled', scratch: true } : { kind: 'settled' };
    },

    /** Removes what a settled run under zero retention still holds: nobody came for it in time. */
    async dropContent({ generationId }: { generationId: string }): Promise<void> {
      await dropContent(generationId);
    },
  };
};

/** @throws a retryable failure for a read whose connection failed and that has tries left; a cancellation when the try is taken back */
async function answerTo(
  { tool, args, callId, projectId, toolContext, fills }: DueCall,
  generationId: string,
  signal: AbortSignal,
): Promise<CallAnswer> {
  const outcome = await callTool({
    tool,
    projectId,
    args,
    toolContext,
    idempotencyKey: `${generationId}:${callId}`,
    signal,
  }).catch((error: unknown) => {
    if (error instanceof ProgramsBusyError) return notChecked(tool.name);
    throw signal.aborted ? new CancelledFailure('CANCELLED') : error;
  });
  if (outcome.kind === 'result')
    return fills === null ? { result: outcome.value, error: null } : filling(fills, outcome.value);
  if (outcome.retryable && isRead(tool) && activityInfo().attempt < READ_TRIES_MAX) {
    throw ApplicationFailure.create({ type: outcome.error.code, message: outcome.error.code });
  }
  const { code } = outcome.error;
  const error = transcriptError(outcome.error);
  return { result: null, error: fills === null ? error : { ...error, code, meta: factsOf(outcome.error).meta ?? {} } };
}

/** Nothing was sent: the model may call again. */
const notChecked = (name: string): CallOutcome => ({
  kind: 'error',
  error: { name, code: 'VALIDATION_FAILED', message: 'The arguments could not be checked: too much is to be checked' },
  retryable: false,
});

/** The part of a result that fills a message. */
async function filling(content: ToolOutputContent, result: unknown): Promise<CallAnswer> {
  const taken = await outputAt(content, result);
  if ('value' in taken) return { result: taken.value, error: null };
  return { result: null, error: { name: 'NoOutput', code: 'VALIDATION_FAILED', message: taken.problem } };
}
