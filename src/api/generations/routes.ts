import { z } from 'zod';
import { projectRole } from '../core/access';
import { idOf } from '../core/ids';
import { presentOffsetPage } from '../core/pages';
import { invalidInput } from '../core/errors';
import { route } from '../core/route';
import type { Answer } from '../core/route';
import { contentRoutes } from './content-routes';
import { idempotencyKeyOf } from './idempotency';
import { cancelGeneration, submitOutputs } from './outputs';
import { presentAccepted, presentGeneration, presentResult, presentTranscript } from './present';
import { pendingCalls } from './rows';
import {
  GenerateBody,
  GenerateQuery,
  GenerationAccepted,
  GenerationListQuery,
  GenerationOut,
  GenerationPage,
  GenerationResult,
  ToolOutputsBody,
  TranscriptOut,
} from './schemas';
import { generate, getGeneration, getTranscript, listGenerations } from './service';
import type { Generated, GenerationFilters } from './service';
import { pickUp, streamOf } from './stream';

const AGENT = '/v1/projects/:project_id/agents/:agent_id';
const GENERATION = '/v1/projects/:project_id/generations/:generation_id';
const generationParams = z.object({ generation_id: idOf('generation') });
/** A message that a tool fills fails the run with the code of that tool's call. */
const toolFailures = [
  'SECRET_NOT_FOUND',
  'MISSING_TOOL_CONTEXT_KEY',
  'TOOL_EGRESS_BLOCKED',
  'PIPELINE_STEP_FAILED',
  'PIPELINE_DEPTH_EXCEEDED',
  'TOOL_HTTP_ERROR',
  'TOOL_AUTH_FAILED',
  'TOOL_TIMEOUT',
] as const;

/** What the frames of a stream are, for the reference. */
const STREAM =
  'With `stream: true`: one `data: {"choices":[{"delta":{"content":"…"}}]}` per delta; at a pause the result with ' +
  '`required_action`; after a failure `data: {"error":"…"}` as the last frame; else `data: [DONE]`, the only sign of a whole stream';

const runFailures = [
  'AI_PROVIDER_ERROR',
  'AI_PROVIDER_MISCONFIGURED',
  'OUTPUT_SCHEMA_VALIDATION_FAILED',
  'TEXT_ENCODED_TOOL_CALL',
  'TOOL_UNAVAILABLE',
  'GENERATION_FAILED',
  'service_unavailable',
] as const;

/** How a run is asked for. @throws VALIDATION_FAILED: a stream waits already */
function modeOf(stream: boolean, wait: boolean): 'background' | 'wait' | 'stream' {
  if (stream && wait) throw invalidInput('VALIDATION_FAILED', 'stream', 'excludes wait=true');
  if (stream) return 'stream';
  return wait ? 'wait' : 'background';
}

/** What a start or a submission came to: 200 with the result or a stream, or 202 where nothing was waited for. */
function answerOf(generated: Generated): Answer {
  if (generated.kind === 'streaming') {
    return { status: 200, headers: { 'X-Svc-Generation-Id': generated.row.id }, stream: streamOf(generated) };
  }
  if (generated.kind === 'accepted') return { status: 202, body: presentAccepted(generated) };
  return { status: generated.kind === 'rested' ? 200 : 202, body: presentResult(generated.rows) };
}

const filtersOf = (query: z.output<typeof GenerationListQuery>): GenerationFilters => ({
  agentId: query.agent_id,
  traceId: query.trace_id,
  initiatorGenerationId: query.initiator_generation_id,
  status: query.status,
  unmatched: [query.session_id, query.actor_id, query.chain_id, query.orchestration_run_id, query.node_id].some(
    (id) => id !== undefined,
  ),
});

export const generationRoutes = [
  route({
    method: 'post',
    path: `${AGENT}/generate`,
    id: 'createAgentGeneration',
    summary: 'Run an agent',
    needs: projectRole('member'),
    action: 'agents:CreateAgentGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: z.object({ agent_id: idOf('agent') }),
    query: GenerateQuery,
    body: GenerateBody,
    answers: { 200: GenerationResult, 202: z.union([GenerationAccepted, GenerationResult]) },
    streams: STREAM,
    fails: [
      'SYSTEM_MESSAGE_NOT_ALLOWED',
      'INVALID_TOOL_CONTEXT_KEY',
      'TOOL_NOT_FOUND',
      'DOCUMENT_NOT_FOUND',
      'TOOL_CALL_NOT_SUPPORTED',
      ...toolFailures,
      'IDEMPOTENCY_KEY_REUSED',
      'PROJECT_PAUSED',
      'plan_limit_reached',
      'PROJECT_ARCHIVED',
      'MODEL_NOT_PRICED',
      ...runFailures,
    ],
    handle: async ({ project, caller, requestId, params, query, body, header }) => {
      const generated = await generate({
        project,
        caller,
        requestId,
        agentId: params.agent_id,
        messages: body.messages,
        idempotencyKey: idempotencyKeyOf(body.idempotency_key, header('Idempotency-Key')),
        actionId: body.action_id ?? null,
        metadata: body.metadata ?? null,
        traceId: body.trace_id ?? null,
        maxCallDepth: body.max_call_depth ?? null,
        toolContext: body.tool_context ?? null,
        mode: modeOf(body.stream ?? false, query.wait),
      });
      return answerOf(generated);
    },
  }),
  route({
    method: 'post',
    path: `${AGENT}/generate/:generation_id/tool-outputs`,
    id: 'submitToolOutputs',
    summary: 'Give a paused run the outputs of its client tools',
    needs: projectRole('member'),
    action: 'agents:SubmitToolOutputs',
    inputCode: 'VALIDATION_FAILED',
    params: z.object({ agent_id: idOf('agent'), generation_id: idOf('generation') }),
    body: ToolOutputsBody,
    answers: { 200: GenerationResult, 202: GenerationAccepted },
    fails: [
      'GENERATION_NOT_AWAITING_TOOL_OUTPUTS',
      'IDEMPOTENCY_KEY_REUSED',
      'PROJECT_PAUSED',
      'plan_limit_reached',
      'PROJECT_ARCHIVED',
      ...runFailures,
    ],
    handle: async ({ project, params, body, header }) => {
      const generated = await submitOutputs({
        project,
        agentId: params.agent_id,
        generationId: params.generation_id,
        outputs: body.tool_outputs,
        idempotencyKey: idempotencyKeyOf(body.idempotency_key, header('Idempotency-Key')),
      });
      return answerOf(generated);
    },
  }),
  route({
    method: 'get',
    path: '/v1/projects/:project_id/generations',
    id: 'listGenerations',
    summary: 'List runs',
    needs: projectRole('member'),
    action: 'generations:ListGenerations',
    inputCode: 'VALIDATION_FAILED',
    query: GenerationListQuery,
    answers: { 200: GenerationPage },
    handle: async ({ project, query }) => {
      const { limit, offset } = query;
      const page = await listGenerations(project.id, filtersOf(query), { limit, offset });
      const paused = page.rows.filter((row) => row.status === 'requires_action').map(({ id }) => id);
      const pending = await pendingCalls(paused);
      return { status: 200, body: presentOffsetPage(page, (row) => presentGeneration(row, pending.get(row.id) ?? [])) };
    },
  }),
  route({
    method: 'get',
    path: GENERATION,
    id: 'getGeneration',
    summary: 'Read a run',
    needs: projectRole('member'),
    action: 'generations:GetGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    answers: { 200: GenerationOut },
    handle: async ({ project, params }) => {
      const row = await getGeneration(project.id, params.generation_id);
      const pending = row.status === 'requires_action' ? await pendingCalls([row.id]) : new Map<string, never>();
      return { status: 200, body: presentGeneration(row, pending.get(row.id) ?? []) };
    },
  }),
  route({
    method: 'get',
    path: `${GENERATION}/transcript`,
    id: 'getTranscript',
    summary: 'Read the turn of a run step by step',
    needs: projectRole('member'),
    action: 'generations:GetTranscript',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    answers: { 200: TranscriptOut },
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentTranscript(await getTranscript(project.id, params.generation_id)),
    }),
  }),
  route({
    method: 'get',
    path: `${GENERATION}/stream`,
    id: 'streamGeneration',
    summary: 'Pick the stream of a run up, while it runs and after',
    needs: projectRole('member'),
    action: 'generations:StreamGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    answers: {},
    streams: `${STREAM}. Each frame is preceded by an \`id:\` line; the header \`Last-Event-ID\` goes on after it`,
    fails: ['VALIDATION_FAILED', 'GENERATION_CONTENT_UNAVAILABLE', 'service_unavailable'],
    handle: async ({ project, params, header }) => ({
      status: 200,
      headers: { 'X-Svc-Generation-Id': params.generation_id },
      stream: await pickUp(project.id, params.generation_id, header('Last-Event-ID')),
    }),
  }),
  route({
    method: 'post',
    path: `${GENERATION}/cancel`,
    id: 'cancelGeneration',
    summary: 'Cancel a run',
    needs: projectRole('member'),
    action: 'generations:CancelGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    answers: { 200: GenerationOut },
    fails: ['GENERATION_ALREADY_SETTLED', 'service_unavailable'],
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentGeneration(await cancelGeneration(project.id, params.generation_id), []),
    }),
  }),
  ...contentRoutes,
];
