import type { z } from 'zod';
import { isoTimeOrNull } from '../core/timestamps';
import type { GenerationRow } from './models';
import type { GenerationAccepted, GenerationOut, GenerationResult, TranscriptOut, TranscriptStep } from './schemas';
import { isSealed } from './sealing';
import type { ContentSeal } from './sealing';
import { resolvedInput, responseMessages, textOf } from './turn';
import type { InputMessage, StoredCall, StoredStep } from './turn';

/** The answer of a run that would be nested too deep. */
export const DEPTH_GUARD_TEXT = 'Maximum call depth reached';
/** The shapes that other areas' answers hold in theirs. */
export { GenerationOut, TranscriptStep } from './schemas';

/** A pending call of the caller's. */
export interface PendingCall {
  callId: string;
  toolName: string;
  args: unknown;
}

/** What the caller has to do, in the shape of the record and of results; null when nothing is asked of it. */
export const presentRequiredAction = (status: string, pending: PendingCall[]) =>
  status !== 'requires_action'
    ? null
    : {
        type: 'submit_tool_outputs' as const,
        tool_calls: pending.map(({ callId, toolName, args }) => ({ id: callId, tool_name: toolName, args })),
      };

/** Why the run failed; what is sealed is for the caller alone that waits for the run. */
const errorOf = ({ error }: Pick<GenerationRow, 'error'>) => (isSealed(error) ? null : error);

/** The generation record, as GET, lists and events show it. */
export const presentGeneration = (row: GenerationRow, pending: PendingCall[]): z.output<typeof GenerationOut> => ({
  id: row.id,
  generation_id: row.id,
  project_id: row.projectId,
  agent_id: row.agentId,
  trace_id: row.traceId,
  status: row.status,
  stop_reason: row.stopReason,
  required_action: presentRequiredAction(row.status, pending),
  error: errorOf(row),
  agent_version: row.agentVersion,
  ai_provider_id: row.aiProviderId,
  model: row.model,
  usage: {
    input_tokens: row.inputTokens,
    output_tokens: row.outputTokens,
    cached_tokens: row.cachedTokens,
    cost_usd: row.costUsd === null ? null : Number(row.costUsd),
  },
  step_count: row.stepCount,
  initiator_generation_id: row.initiatorGenerationId,
  chain_id: null,
  session_id: null,
  actor_id: null,
  conversation_id: null,
  trigger_id: null,
  orchestration_run_id: null,
  node_id: null,
  node_attempt: null,
  source: null,
  action_id: row.actionId,
  metadata: row.metadata,
  routing: null,
  extraction: null,
  memory_assertions: [],
  started_by_principal_type: row.startedByPrincipalType,
  started_by_principal_id: row.startedByPrincipalId,
  started_at: isoTimeOrNull(row.startedAt),
  completed_at: isoTimeOrNull(row.completedAt),
  last_activity_at: isoTimeOrNull(row.lastActivityAt),
  created_at: isoTimeOrNull(row.createdAt),
  updated_at: isoTimeOrNull(row.updatedAt),
  content_redacted_at: isoTimeOrNull(row.contentRedactedAt),
  content_redacted_by_principal_type: row.contentRedactedByPrincipalType,
  content_redacted_by_principal_id: row.contentRedactedByPrincipalId,
});

/** The answer of a run that was accepted and is not waited for. */
export const presentAccepted = (row: { id: string; traceId: string }): z.output<typeof GenerationAccepted> => ({
  status: 'accepted',
  id: row.id,
  generation_id: row.id,
  trace_id: row.traceId,
});

/** A finished step with its tokens. */
export interface StepRow extends StoredStep {
  inputTokens: number;
  outputTokens: number;
  cachedTokens: number;
}

/** The rows a result is built from. */
export interface GenerationRows {
  row: GenerationRow;
  /** Whether the content is here: it was not removed, and is for whoever asks. */
  held: boolean;
  /** How content that is added is stored. */
  seal: ContentSeal;
  input: InputMessage[] | null;
  /** Whether the agent's output has a schema. */
  structured: boolean;
  steps: StepRow[];
  calls: StoredCall[];
}

/** A client is asked with what its tool pins put in. */
const pendingOf = (calls: StoredCall[]): PendingCall[] =>
  calls
    .filter((call) => call.kind === 'client' && !call.answered)
    .map(({ callId, toolName, args, pinned }) => ({ callId, toolName, args: pinned ?? args }));

/** The result of a waited run, a submission or an idempotent repeat. */
export function presentResult(rows: GenerationRows): z.output<typeof GenerationResult> {
  const { row, calls } = rows;
  const action = presentRequiredAction(row.status, pendingOf(calls));
  return {
    id: row.id,
    generation_id: row.id,
    trace_id: row.traceId,
    status: row.status,
    ai_provider_id: row.aiProviderId,
    ...(row.status === 'completed' && rows.held ? { output: presentOutput(rows) } : {}),
    ...(action === null ? {} : { required_action: action }),
    ...(row.status === 'failed' ? { error: errorOf(row) } : {}),
  };
}

/** What a run gave; its text is empty when it ended on a tool call. */
function presentOutput({ row, steps, calls, structured }: GenerationRows) {
  const last = steps.at(-1);
  const ended = calls.some(({ step }) => step === last?.step) ? '' : textOf(last?.parts ?? []);
  const content = row.stopReason === 'depth_guard' ? DEPTH_GUARD_TEXT : ended;
  return {
    model: row.model,
    content,
    finish_reason: last?.finishReason ?? null,
    response_messages: responseMessages(steps, calls),
    ...(structured && !row.streamed && ended !== '' ? { object: JSON.parse(ended) as unknown } : {}),
  };
}

/** The last text of a turn, and how it ended. */
function saidAtLast({ row, steps }: GenerationRows) {
  const text = steps.map(({ parts }) => textOf(parts)).findLast((said) => said !== '');
  return {
    content: row.stopReason === 'depth_guard' ? DEPTH_GUARD_TEXT : (text ?? null),
    finish_reason: steps.at(-1)?.finishReason ?? null,
  };
}

/** The readable form of one turn. */
export function presentTranscript(rows: GenerationRows): z.output<typeof TranscriptOut> {
  const { row, input, steps, calls } = rows;
  const settled = row.status === 'completed' || row.status === 'failed';
  const redacted = row.contentRedactedAt != null;
  const shown = !redacted && (settled || row.status === 'requires_action') ? steps : [];
  return {
    generation_id: row.id,
    trace_id: row.traceId,
    project_id: row.projectId,
    agent_id: row.agentId,
    agent_version: row.agentVersion,
    status: row.status,
    stop_reason: row.stopReason,
    started_at: isoTimeOrNull(row.startedAt),
    completed_at: isoTimeOrNull(row.completedAt),
    step_count: row.stepCount,
    input: redacted || input === null ? null : resolvedInput(input, calls),
    retrieval: [],
    steps: shown.map((step, index) => presentStep(step, index, calls)),
    output: settled && !redacted ? saidAtLast(rows) : null,
    error: errorOf(row),
    content_redacted_at: isoTimeOrNull(row.contentRedactedAt),
    content_redacted_by_principal_type: row.contentRedactedByPrincipalType,
    content_redacted_by_principal_id: row.contentRedactedByPrincipalId,
  };
}

/** One step as the transcript shows it; of `calls` those of the step are taken. */
export function presentStep(step: StepRow, index: number, calls: StoredCall[]): z.output<typeof TranscriptStep> {
  const own = calls.filter((call) => call.step === step.step);
  return {
    index,
    text: textOf(step.parts),
    finish_reason: step.finishReason,
    tool_calls: own.map(({ callId, toolName, args }) => ({ id: callId, tool_name: toolName, args })),
    tool_results: own
      .filter((call) => call.answered)
      .map(({ callId, toolName, result, error }) => ({
        tool_call_id: callId,
        tool_name: toolName,
        result: error === null ? (result ?? null) : null,
        error: error === null ? null : { ...error },
      })),
    usage: { input_tokens: step.inputTokens, output_tokens: step.outputTokens, cached_tokens: step.cachedTokens },
  };
}
