import type { Caller } from '../core/access';
import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import { ApiError, catalog, notFound } from '../core/errors';
import type { ErrorCode } from '../core/errors';
import { faultPoint } from '../core/faults';
import { listByOffset } from '../core/pages';
import { servedAgent } from '../agents/service';
import { assertRunRoom } from '../plans/runs';
import { assertRunnable } from '../projects/service';
import { isPriced } from '../providers/prices';
import type { ProjectAccess } from '../core/route';
import { toolContextOf } from '../tools/context';
import type { ToolContext } from '../tools/context';
import { bindingKey, toolSurface } from '../tools/resolve';
import { config } from '../core/config';
import { starts } from '../core/starts';
import { accept } from './acceptance';
import type { Accepting } from './acceptance';
import { requestHashOf } from './idempotency';
import type { RequestHash } from './idempotency';
import { dialogueOf, refuseSystemMessages } from './inputs';
import type { GivenMessage } from './inputs';
import { Generation } from './models';
import type { GenerationError, GenerationRow, GenerationStatus } from './models';
import { findGeneration, generationRows } from './rows';
import { awaitGenerationRest, startGenerationRun } from './runs';
import { takeRows } from './scratch';
import type { ContentMode } from './sealing';
import { streams } from './streams';
import type { Steering } from './steering';
import type { Turn } from './turn';
import type { GenerationRows } from './present';

export interface GenerateInput {
  project: ProjectAccess;
  caller: Caller;
  requestId: string;
  agentId: string;
  messages: GivenMessage[];
  idempotencyKey: string | null;
  actionId: string | null;
  metadata: Record<string, unknown> | null;
  traceId: string | null;
  maxCallDepth: number | null;
  toolContext: ToolContext | null;
  mode: 'background' | 'wait' | 'stream';
}

/**
 * `accepted`: runs in the background; `rested`: settled or paused; `streaming`: waits for its answer to open; `repeated`: an
 * idempotency key named an earlier run.
 */
export type Generated =
  | { kind: 'accepted'; id: string; traceId: string }
  | { kind: 'rested'; rows: GenerationRows }
  | { kind: 'streaming'; row: GenerationRow; release: () => void }
  | { kind: 'repeated'; rows: GenerationRows };

/**
 * Accepts a run: the row commits first, then its workflow starts; from the commit on it is never lost, so a run in the
 * background is answered then. Safe to repeat with an idempotency key.
 * Spec: Agents, generation rules 1, 2 and 4.
 * @throws not_found, TOOL_NOT_FOUND, VALIDATION_FAILED, SYSTEM_MESSAGE_NOT_ALLOWED, IDEMPOTENCY_KEY_REUSED, PROJECT_PAUSED,
 *   PROJECT_ARCHIVED, plan_limit_reached, MODEL_NOT_PRICED; with `wait` also the code with which the run failed, with `stream` service_unavailable
 */
export async function generate(input: GenerateInput): Promise<Generated> {
  refuseSystemMessages(input.messages);
  const toolContext = toolContextOf(input.toolContext);
  const agent = await servedAgent(input.project.id, input.agentId);
  if (agent === null) throw notFound();
  const hash = input.idempotencyKey === null ? null : hashOf(input);
  const earlier = await repeatOf(input, hash);
  if (earlier !== null) return { kind: 'repeated', rows: earlier };
  assertRunnable(input.project);
  await assertPriced(input.project, agent);
  const dialogue = await dialogueOf(input.project.id, input.messages);
  const inputTools = dialogue.calls.map(({ tool }) => tool);
  const turn = { ...(await resolveTurn(input.project.id, agent)), inputTools };
  const contentMode = contentModeOf(input.project, agent.config);
  const accepting = { input, ...dialogue, toolContext, hash, turn, agentVersion: agent.version, contentMode };
  if (input.mode === 'stream') return stream(accepting);
  const row = await accept(accepting);
  if (row === null) return claimed(input, hash);
  await faultPoint('generation-committed');
  if (input.mode === 'wait') return restOf(row, 0);
  await starts.begin(() => startGenerationRun(row));
  return { kind: 'accepted', id: row.id, traceId: row.traceId };
}

/** The key was claimed between the look and the commit, or the agent was deleted. */
async function claimed(input: GenerateInput, hash: RequestHash | null): Promise<Generated> {
  const rows = await repeatOf(input, hash);
  if (rows === null) throw notFound();
  return { kind: 'repeated', rows };
}

/** Accepts a run whose model steps are made in this process; its place among the streams is taken before any row is written. */
async function stream(accepting: Accepting): Promise<Generated> {
  const release = streams.reserve();
  try {
    const queue = await streams.queue();
    const row = await accept(accepting);
    if (row === null) {
      release();
      return await claimed(accepting.input, accepting.hash);
    }
    await faultPoint('generation-committed');
    streams.begin(row.id); // Before the start: its first step may be here before the answer is open, and waits for it.
    if (await startGenerationRun(row, queue)) return { kind: 'streaming', row, release };
    streams.close(row.id);
    release();
    return { kind: 'accepted', id: row.id, traceId: row.traceId };
  } catch (error) {
    release();
    throw error;
  }
}

/** Fields that came later count where they are given, so that what was hashed before them stays the same. */
const hashOf = ({
  agentId,
  messages,
  actionId,
  metadata,
  traceId,
  maxCallDepth,
  toolContext,
}: GenerateInput): RequestHash =>
  requestHashOf({
    agentId,
    messages,
    actionId,
    metadata,
    traceId,
    ...(maxCallDepth === null ? {} : { maxCallDepth }),
    ...(toolContext === null ? {} : { toolContext }),
  });

/**
 * The run that holds the request's idempotency key, or null.
 * @throws IDEMPOTENCY_KEY_REUSED when another request holds it
 */
async function repeatOf(
  { project, idempotencyKey }: GenerateInput,
  hash: RequestHash | null,
): Promise<GenerationRows | null> {
  if (idempotencyKey === null || hash === null) return null;
  const claim = await queryOne<{ id: string; request_hash: Buffer }>(
    'select id, request_hash from generations where project_id = $1 and idempotency_key = $2',
    [project.id, idempotencyKey],
  );
  if (claim === null) return null;
  if (!hash.matches(claim.request_hash)) {
    throw new ApiError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another request.', {
      meta: { generation_id: claim.id },
    });
  }
  return generationRows({ projectId: project.id, generationId: claim.id });
}

type ServedAgent = NonNullable<Awaited<ReturnType<typeof servedAgent>>>;
type ServedConfig = ServedAgent['config'];

/** What is kept of a run: an agent may keep less than its project does, never more. Spec: Agents, `trace_content_mode`. */
const contentModeOf = (project: ProjectAccess, { trace_content_mode: own }: ServedConfig): ContentMode =>
  project.traceContentMode === 'none' ? 'none' : (own ?? 'full');

const modelOf = ({ config: served, defaultModel }: ServedAgent): string => served.model ?? defaultModel ?? '';

/** @throws MODEL_NOT_PRICED where the project asks for a price; plan_limit_reached before that */
async function assertPriced(
  { id: projectId, ownerUserId }: Pick<ProjectAccess, 'id' | 'ownerUserId'>,
  agent: ServedAgent,
): Promise<void> {
  if (!agent.needsPrice) return;
  const { ai_provider_id: aiProviderId } = agent.config;
  const model = modelOf(agent);
  if (await isPriced(projectId, aiProviderId, model)) return;
  await assertRunRoom(ownerUserId); // The plan is asked first; that of a priced run is asked where it is accepted.
  throw new ApiError('MODEL_NOT_PRICED', 'The model has no price, and the project asks for one.', {
    meta: { ai_provider_id: aiProviderId, model },
  });
}

/** Model source and tool surface, resolved once a turn and stored with it. */
async function resolveTurn(projectId: string, agent: ServedAgent): Promise<Turn> {
  const { config: served } = agent;
  const bindings = served.tool_bindings ?? [];
  const surface =
    bindings.length === 0 ? { tools: [], unresolved: [], unavailable: [] } : await toolSurface(projectId, bindings);
  return {
    instructions: served.instructions,
    aiProviderId: served.ai_provider_id,
    model: modelOf(agent),
    temperature: served.temperature,
    maxSteps: served.max_steps,
    maxContextMessages: served.max_context_messages,
    tools: surface.tools,
    unavailable: surface.unavailable.map(({ tool_id, name }) => name ?? tool_id),
    bindings: bindings.map(bindingKey),
    unresolved: surface.unresolved,
    steering: steeringOf(served),
    outputSchema: served.output_schema,
    promptCaching: served.prompt_caching?.enabled ?? false,
  };
}

const steeringOf = (served: ServedConfig): Steering => ({
  toolChoice: served.tool_choice,
  stopTools: (served.stop_conditions ?? []).flatMap((condition) =>
    condition.type === 'has_tool_call' ? [condition.tool_name] : [],
  ),
  stepRules: served.step_rules ?? [],
  activeToolIds: served.active_tool_ids ?? [],
});

/**
 * Waits until a run settles or pauses after `afterPause`, and answers it from its rows; a run that does not rest in time,
 * or whose start is unknown, is `accepted` and goes on.
 * @throws the code with which the run failed
 */
export async function restOf(row: GenerationRow, afterPause: number): Promise<Generated> {
  const until = clock.ms() + config().GENERATION_WAIT_MAX_SECONDS * 1000;
  for (;;) {
    const timeoutMs = Math.max(1, until - clock.ms());
    const outcome = await awaitGenerationRest(row, afterPause, { timeoutMs, outlastsOutages: true });
    const rows = await takeRows(row.projectId, row.id);
    if (rows === null) throw notFound();
    if (rows.row.status === 'failed') throw failureOf(rows.row);
    const paused = rows.row.status === 'requires_action' && rows.row.pause > afterPause;
    if (paused || rows.row.status === 'completed') return { kind: 'rested', rows };
    // A run that moved on to a fresh history lets its waiters go while it is still open: they ask again.
    if (outcome !== 'answered' || clock.ms() >= until) return { kind: 'accepted', id: row.id, traceId: row.traceId };
  }
}

/** The recorded failure of a run as the answer of whoever waited for it. */
export function failureOf(row: GenerationRow): ApiError {
  const unrecorded =
    row.stopReason === 'cancelled'
      ? { code: 'GENERATION_CANCELLED', message: 'The generation was cancelled.' }
      : { code: 'GENERATION_FAILED', message: 'The generation failed.' };
  const error: GenerationError = row.error ?? unrecorded;
  const code = error.code in catalog ? (error.code as ErrorCode) : 'GENERATION_FAILED';
  return new ApiError(code, error.message, { meta: error.meta ?? { generation_id: row.id, trace_id: row.traceId } });
}

/** A generation of the project, or of one of its agents. @throws not_found */
export async function getGeneration(projectId: string, id: string): Promise<GenerationRow> {
  const row = await findGeneration(projectId, id);
  if (row === null) throw notFound();
  return row;
}

export interface GenerationFilters {
  agentId?: string | undefined;
  traceId?: string | undefined;
  initiatorGenerationId?: string | undefined;
  status?: GenerationStatus | undefined;
  /** Asked for by something that no run of this build belongs to: a session, an actor, a chain, an orchestration run. */
  unmatched?: boolean | undefined;
}

/** One page of a project's generations, newest first. */
export function listGenerations(
  projectId: string,
  filters: GenerationFilters,
  page: { limit: number; offset: number },
) {
  const { agentId, traceId, initiatorGenerationId, status } = filters;
  const where = {
    projectId,
    ...(filters.unmatched === true ? { id: null } : {}),
    ...(initiatorGenerationId === undefined ? {} : { initiatorGenerationId }),
    ...(agentId === undefined ? {} : { agentId }),
    ...(traceId === undefined ? {} : { traceId }),
    ...(status === undefined ? {} : { status }),
  };
  return listByOffset(Generation, { where, ...page });
}

/** A generation with its whole turn. @throws not_found */
export async function getTranscript(projectId: string, id: string) {
  const rows = await generationRows({ projectId, generationId: id });
  if (rows === null) throw notFound();
  return rows;
}
