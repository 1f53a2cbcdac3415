import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { LanguageModelV3CallOptions, LanguageModelV3StreamResult } from '@ai-sdk/provider';
import { clock } from '../api/core/clock';
import { inTransaction, queryOne } from '../api/core/db';
import { observe } from '../api/core/metrics';
import { inSpan } from '../api/core/tracing';
import { UnderWay } from '../api/core/under-way';
import { faultPoint } from '../api/core/faults';
import { firstAttempts } from '../api/webhooks/first-attempts';
import { startPendingDeliveries } from '../api/webhooks/runs';
import {
  CALLS_PER_STEP_MAX,
  CONTENT_BYTES_MAX,
  PROVIDER_FAILURES_MAX,
  callsOutcome,
  failed,
  nextMove,
} from '../api/generations/moves';
import { AnswerParts } from '../api/generations/parts';
import type { ModelAnswer } from '../api/generations/parts';
import { holdsScratch } from '../api/generations/scratch';
import { settle } from '../api/generations/settlement';
import { failure } from '../api/generations/endings';
import type { Ending } from '../api/generations/endings';
import { countProviderFailure, isUnsettled, openStep, storeStep } from '../api/generations/steps';
import type { RunView, StepCounts } from '../api/generations/steps';
import { streams } from '../api/generations/streams';
import type { LiveRun } from '../api/generations/streams';
import { choiceAt, offeredTools } from '../api/generations/steering';
import { finalTextProblem } from '../api/generations/final-text';
import { callsOf, modelTools, promptOf, stopReasonOf, textOf } from '../api/generations/turn';
import type { ParsedCall } from '../api/generations/turn';
import { languageModel, promptCacheOptions } from '../api/providers/adapters';
import type { ModelAccess } from '../api/providers/adapters';
import { providerFailureOf } from '../api/providers/failures';
import { providerAccess } from '../api/providers/service';
import { resolveSurface } from '../api/generations/surface';
import { prepareArguments } from '../api/tools/call';
import type { StepInput, StepOutcome } from '../workflows/generations.contract';
import { retryIn, rowGone } from './failures';
import { isOneAttempt, isRepeated, leaving } from './heartbeats';
import type { Attempt } from './heartbeats';

/** The run is over; under zero retention the workflow is told whether content is left for a caller that waits. */
const settled = async ({ generationId, contentMode }: RunView): Promise<StepOutcome> =>
  contentMode === 'none' && (await holdsScratch(generationId))
    ? { kind: 'settled', scratch: true }
    : { kind: 'settled' };

/** A try before this one may have committed the settlement and died before the first attempts of its deliveries. */
export async function finishDeliveries(generationId: string): Promise<void> {
  const row = await queryOne<{ project_id: string }>('select project_id from generations where id = $1', [
    generationId,
  ]);
  if (row !== null) await startPendingDeliveries(row.project_id, generationId);
}

/** The row is gone, or its content with the settlement that an earlier try committed. */
async function nothingLeft(generationId: string): Promise<ApplicationFailure> {
  if (isRepeated()) await finishDeliveries(generationId);
  return rowGone();
}

/** Makes the model step that a run's rows ask for. One instance a process: a retry that lands here joins the call under way. */
export function modelSteps() {
  const underWay = new UnderWay<StepOutcome>();
  return async ({ generationId, step, again }: StepInput, attempt: Attempt): Promise<StepOutcome> => {
    const view = await openStep(generationId, step, isRepeated() || again === true);
    if (view === null) throw await nothingLeft(generationId);
    const move = nextMove(view);
    switch (move.kind) {
      case 'settled':
        if (isRepeated()) await startPendingDeliveries(view.projectId, generationId);
        return settled(view);
      case 'calls':
        return move.outcome;
      case 'end':
        return end(view, move.ending);
      case 'step':
        // A run that is behind or ahead of its rows is told where they stand, and asks for the step that they are at: its
        // tries are counted under the number that it asks for.
        if (move.step !== step) return callsOutcome(view, move.step - 1, [], view.pause);
        return underWay.join(
          `${generationId}:${String(step)}`,
          leaving(attempt, () => isUnsettled(generationId)),
          (abort) => callModel(view, step, abort),
        );
    }
  };
}

/** Settles a run without a model call. */
async function end(view: RunView, ending: Ending): Promise<StepOutcome> {
  const deliveries = await inTransaction((tx) => settle(tx, view.generationId, ending));
  firstAttempts.offer(deliveries ?? []);
  return settled(view);
}

async function callModel(opened: RunView, step: number, abort: AbortSignal): Promise<StepOutcome> {
  const view = await withTools(opened, step, abort);
  if (view === null) throw rowGone();
  const access = await providerAccess(view.projectId, view.turn.aiProviderId);
  if (!access.ok) {
    return end(view, failure(view, 'AI_PROVIDER_MISCONFIGURED', 'The AI provider of the agent cannot be used.'));
  }
  const choice = choiceAt(view.turn, step);
  if ('missing' in choice) {
    return end(
      view,
      failure(view, 'TOOL_UNAVAILABLE', `The tool ${choice.missing}, which this step must call, is unavailable.`, {
        tool_name: choice.missing,
      }),
    );
  }
  const startedAt = clock.now();
  const call: ModelCall = { view, step, access, abort, toolChoice: choice.toolChoice, startedAt, said: false };
  let result: ModelAnswer;
  try {
    result = await askTraced(call);
  } catch (error) {
    if (abort.aborted) {
      took(call, 'cut');
      throw new CancelledFailure('CANCELLED');
    }
    return failedCall(call, error);
  }
  return store(call, result);
}

/** The run with the tools of its mcp servers, which are asked once a turn; null when its row is gone. */
async function withTools(view: RunView, step: number, signal: AbortSignal): Promise<RunView | null> {
  if ((view.turn.unresolved ?? []).length === 0) return view;
  const turn = await resolveSurface(view, signal).catch((error: unknown) => {
    throw signal.aborted ? new CancelledFailure('CANCELLED') : error;
  });
  return turn === null ? openStep(view.generationId, step, false) : { ...view, turn };
}

/** One call of a provider. */
interface ModelCall {
  view: RunView;
  step: number;
  access: ModelAccess;
  abort: AbortSignal;
  toolChoice: LanguageModelV3CallOptions['toolChoice'];
  startedAt: Date;
  /** Whether a part of the answer is out to a reader: from then on a failure is final. */
  said: boolean;
}

/** Takes down how long a step took; `stored` and `failed` after their commit. */
const took = ({ access, startedAt }: ModelCall, outcome: 'stored' | 'late' | 'retry' | 'failed' | 'cut'): void =>
  observe('stepSeconds', { vendor: access.provider, outcome }, (clock.ms() - startedAt.getTime()) / 1000);

/** The call in a span that names vendor, model, counts and how it ended, and nothing of what was said. */
const askTraced = (call: ModelCall): Promise<ModelAnswer> => {
  const facts = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': call.access.provider,
    'gen_ai.request.model': call.view.turn.model,
    'svc.step': call.step,
  };
  return inSpan('chat', { kind: 'client', facts }, async (span) => {
    const answer = await ask(call);
    const { input, output } = countsOf(answer.usage);
    span.set({
      'gen_ai.usage.input_tokens': input,
      'gen_ai.usage.output_tokens': output,
      'gen_ai.response.finish_reasons': answer.finishReason.unified,
    });
    return answer;
  });
};

async function ask(call: ModelCall): Promise<ModelAnswer> {
  const { view, step, access, abort } = call;
  const { turn } = view;
  const offered = offeredTools(turn, step);
  const options: LanguageModelV3CallOptions = {
    prompt: promptOf(view, turn.promptCaching === true ? promptCacheOptions(access.provider) : {}),
    ...(offered.length === 0 ? {} : { tools: modelTools(offered), toolChoice: call.toolChoice }),
    ...(turn.temperature === null ? {} : { temperature: turn.temperature }),
    headers: { 'Idempotency-Key': `${view.generationId}:${String(step)}` },
    abortSignal: abort,
  };
  const live = streams.live(view.generationId);
  const model = languageModel(access, turn.model);
  return live === undefined ? model.doGenerate(options) : askAloud(call, live, () => model.doStream(options));
}

/** Hands the answer on as it comes; the provider is called once the reader's answer is open. */
async function askAloud(
  call: ModelCall,
  live: LiveRun,
  begin: () => PromiseLike<LanguageModelV3StreamResult>,
): Promise<ModelAnswer> {
  await live.opened;
  live.begin(call.step);
  const { stream } = await begin();
  const parts = new AnswerParts();
  for await (const part of stream) {
    const text = parts.add(part);
    if (text === '') continue;
    call.said = true;
    await live.say(call.step, text);
  }
  return parts.answer();
}

/**
 * Tries again while the provider's failures of this step are fewer than allowed and nothing of the answer is out.
 * @throws a retryable failure on the common queue; on a process's own the workflow is told to ask again
 */
async function failedCall(call: ModelCall, error: unknown): Promise<StepOutcome> {
  const { view, step, said } = call;
  const { retryable, statusCode, message, retryAfterMs } = providerFailureOf(error, clock.ms());
  const failures = retryable && !said ? await countProviderFailure(view, step) : PROVIDER_FAILURES_MAX;
  if (failures < PROVIDER_FAILURES_MAX) {
    took(call, 'retry');
    if (isOneAttempt()) return { kind: 'again', waitMs: retryAfterMs ?? 1_000 * 2 ** (failures - 1) };
    throw retryAfterMs === null
      ? ApplicationFailure.create({ type: 'AI_PROVIDER_ERROR', message: 'AI_PROVIDER_ERROR' })
      : retryIn(retryAfterMs, 'AI_PROVIDER_ERROR');
  }
  const outcome = await end(
    view,
    failure(view, 'AI_PROVIDER_ERROR', message, statusCode === null ? {} : { provider_status_code: statusCode }),
  );
  took(call, 'failed');
  return outcome;
}

const countsOf = ({ inputTokens, outputTokens }: ModelAnswer['usage']): StepCounts => ({
  input: inputTokens.total ?? 0,
  output: outputTokens.total ?? 0,
  cached: inputTokens.cacheRead ?? 0,
  cacheWrite: inputTokens.cacheWrite ?? 0,
  reasoning: outputTokens.reasoning ?? 0,
});

async function store(call: ModelCall, result: ModelAnswer): Promise<StepOutcome> {
  const { view, step, startedAt } = call;
  const { turn } = view;
  const taken = view.calls.map(({ callId }) => callId);
  const calls = await checked(view, callsOf(offeredTools(turn, step), result.content, taken));
  const finishReason = result.finishReason.unified;
  const ending = await endingOf(view, calls, result);
  const stored = await storeStep(view, {
    step,
    parts: result.content,
    finishReason,
    model: turn.model,
    aiProviderId: turn.aiProviderId,
    tokens: countsOf(result.usage),
    vendor: call.access.provider,
    startedAt,
    calls: ending === null ? calls : [],
    ending,
  });
  if (stored.kind === 'gone') throw rowGone();
  took(call, stored.kind);
  if (stored.kind === 'late') return afterLate(view);
  await faultPoint('step-stored');
  firstAttempts.offer(stored.deliveries);
  return ending === null ? callsOutcome(view, step, calls, view.pause + 1) : settled(view);
}

/** Another writer was first: its rows say where the run stands. */
async function afterLate({ generationId }: RunView): Promise<StepOutcome> {
  const view = await openStep(generationId, 0, false);
  if (view === null) throw rowGone();
  const move = nextMove(view);
  if (move.kind === 'calls') return move.outcome;
  return move.kind === 'settled' ? settled(view) : callsOutcome(view, view.steps.at(-1)?.step ?? 0, [], view.pause);
}

/** Arguments of client calls are pinned and checked before the caller is asked; those of the others where they are made. */
const checked = (view: RunView, calls: ParsedCall[]): Promise<ParsedCall[]> =>
  Promise.all(
    calls.map(async (call) => {
      const tool = view.turn.tools.find(({ name }) => name === call.toolName);
      if (call.kind !== 'client' || tool === undefined) return call;
      // A paid answer is stored whatever happens to the check of it.
      const prepared = await prepareArguments(tool, call.args as Record<string, unknown>, view.toolContext).catch(
        () => null,
      );
      if (prepared?.kind === 'ready') return tool.presets == null ? call : { ...call, pinned: prepared.args };
      const message = prepared?.error.message ?? 'The arguments could not be checked.';
      return { ...call, error: { name: 'InvalidArguments', message } };
    }),
  );

/** How a run ends with this answer, or null when its calls have to be made. */
async function endingOf(
  view: RunView,
  calls: ParsedCall[],
  { content, finishReason }: ModelAnswer,
): Promise<Ending | null> {
  if (calls.length > CALLS_PER_STEP_MAX) {
    return failed(view, `The model made more than ${String(CALLS_PER_STEP_MAX)} tool calls in one step.`);
  }
  if (view.contentBytes + Buffer.byteLength(JSON.stringify(content)) > CONTENT_BYTES_MAX)
    return failed(view, 'The generation has too much content.');
  if (calls.length > 0) return null;
  const { turn, streamed } = view;
  const problem = await finalTextProblem({ ids: view, turn, streamed, text: textOf(content) });
  return problem ?? { status: 'completed', stopReason: stopReasonOf(finishReason.unified) };
}
