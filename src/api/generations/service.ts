import { newId } from '../core/ids';
import { principalOf } from '../core/access';
import type { Caller } from '../core/access';
import { clock } from '../core/clock';
import { inTransaction, isDatabaseDown, isUniqueViolation, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, catalog, invalidInput, notFound, unavailable } from '../core/errors';
import type { ErrorCode } from '../core/errors';
import { faultPoint } from '../core/faults';
import { listByOffset } from '../core/pages';
import { servedAgent } from '../agents/service';
import { findProvider } from '../providers/service';
import { assertRunnable } from '../projects/service';
import type { ProjectAccess } from '../core/route';
import { toolContextOf } from '../tools/context';
import type { ToolContext } from '../tools/context';
import { bindingKey, toolSurface } from '../tools/resolve';
import { config } from '../core/config';
import { requestHashOf } from './idempotency';
import { dialogueOf, refuseSystemMessages } from './inputs';
import type { GivenMessage, InputCall } from './inputs';
import { Generation } from './models';
import type { GenerationError, GenerationStatus } from './models';
import { generationRows } from './rows';
import { awaitGenerationRest, startGenerationRun } from './runs';
import { takeRows } from './scratch';
import { callPlace, newSeal } from './sealing';
import type { ContentMode, NewSeal } from './sealing';
import { streams } from './streams';
import type { Steering } from './steering';
import { INPUT_STEP } from './turn';
import type { InputMessage, Turn } from './turn';
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
  | { kind: 'streaming'; row: Generation; release: () => void }
  | { kind: 'repeated'; rows: GenerationRows };

/**
 * Accepts a run: the row commits first, then its workflow starts; from the commit on it is never lost. Safe to repeat
 * with an idempotency key.
 * Spec: Agents, generation rules 1, 2 and 4.
 * @throws not_found, TOOL_NOT_FOUND, VALIDATION_FAILED, SYSTEM_MESSAGE_NOT_ALLOWED, IDEMPOTENCY_KEY_REUSED, PROJECT_PAUSED,
 *   PROJECT_ARCHIVED; with `wait` also the code with which the run failed, with `stream` service_unavailable
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
  const dialogue = await dialogueOf(input.project.id, input.messages);
  const inputTools = dialogue.calls.map(({ tool }) => tool);
  const turn = { ...(await resolveTurn(input.project.id, agent.config)), inputTools };
  const contentMode = contentModeOf(input.project, agent.config);
  const accepting = { input, ...dialogue, toolContext, hash, turn, agentVersion: agent.version, contentMode };
  if (input.mode === 'stream') return stream(accepting);
  const row = await accept(accepting);
  if (row === null) return claimed(input, hash);
  await faultPoint('generation-committed');
  if (input.mode === 'wait') return restOf(row, 0);
  await startGenerationRun(row);
  return { kind: 'accepted', id: row.id, traceId: row.traceId };
}

/** The key was claimed between the look and the commit, or the agent was deleted. */
async function claimed(input: GenerateInput, hash: Buffer | null): Promise<Generated> {
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
const hashOf = ({ agentId, messages, actionId, metadata, traceId, maxCallDepth, toolContext }: GenerateInput): Buffer =>
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
  hash: Buffer | null,
): Promise<GenerationRows | null> {
  if (idempotencyKey === null || hash === null) return null;
  const claim = await queryOne<{ id: string; request_hash: Buffer }>(
    'select id, request_hash from generations where project_id = $1 and idempotency_key = $2',
    [project.id, idempotencyKey],
  );
  if (claim === null) return null;
  if (!hash.equals(claim.request_hash)) {
    throw new ApiError('IDEMPOTENCY_KEY_REUSED', 'The idempotency key was used for another request.', {
      meta: { generation_id: claim.id },
    });
  }
  return generationRows({ projectId: project.id, generationId: claim.id });
}

type ServedConfig = NonNullable<Awaited<ReturnType<typeof servedAgent>>>['config'];

/** What is kept of a run: an agent may keep less than its project does, never more. Spec: Agents, `trace_content_mode`. */
const contentModeOf = (project: ProjectAccess, { trace_content_mode: own }: ServedConfig): ContentMode =>
  project.traceContentMode === 'none' ? 'none' : (own ?? 'full');

/** Model source and tool surface, resolved once a turn and stored with it. */
async function resolveTurn(projectId: string, served: ServedConfig): Promise<Turn> {
  const bindings = served.tool_bindings ?? [];
  const [provider, surface] = await Promise.all([
    findProvider(projectId, served.ai_provider_id),
    bindings.length === 0 ? { tools: [], unresolved: [], unavailable: [] } : toolSurface(projectId, bindings),
  ]);
  return {
    instructions: served.instructions,
    aiProviderId: served.ai_provider_id,
    model: served.model ?? provider?.defaultModel ?? '',
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

interface Accepting {
  input: GenerateInput;
  messages: InputMessage[];
  calls: InputCall[];
  toolContext: ToolContext;
  hash: Buffer | null;
  turn: Turn;
  agentVersion: number;
  contentMode: ContentMode;
}

/** Commits the run; null when its idempotency key was claimed meanwhile, or its agent deleted. */
async function accept(accepting: Accepting): Promise<Generation | null> {
  const { input, messages, hash, agentVersion, contentMode } = accepting;
  const now = clock.now();
  const id = newId('generation');
  const sealing = newSeal(contentMode, id);
  const redaction = contentMode === 'none' ? redactedAtBirth(now) : null;
  const principal = principalOf(input.caller);
  try {
    return await inTransaction(async (tx) => {
      const traceId = await traceFor(input, contentMode, now, tx);
      if (traceId === null) return null;
      const row = await Generation.create(
        {
          id,
          projectId: input.project.id,
          agentId: input.agentId,
          agentVersion,
          traceId,
          status: 'in_progress',
          contentBytes: Buffer.byteLength(JSON.stringify(messages)),
          actionId: input.actionId,
          metadata: contentMode === 'none' ? null : input.metadata,
          idempotencyKey: input.idempotencyKey,
          requestHash: hash,
          streamed: input.mode === 'stream',
          maxCallDepth: input.maxCallDepth ?? 10,
          awaited: input.mode !== 'background',
          startedByPrincipalType: principal.type,
          startedByPrincipalId: principal.id,
          requestId: input.requestId,
          contentMode,
          ...redaction,
          createdAt: now,
          updatedAt: now,
        },
        { transaction: tx },
      );
      await insertContents(tx, row, sealing, accepting);
      return row;
    });
  } catch (error) {
    if (isUniqueViolation(error, 'generations_idempotency_idx')) return null;
    if (isDatabaseDown(error)) throw unavailable(COMMIT_UNKNOWN);
    throw error;
  }
}

/** Content and the calls that fill messages, which are due before the first model step; under zero retention all of it is sealed. */
async function insertContents(tx: Tx, row: Generation, { seal, key }: NewSeal, accepting: Accepting): Promise<void> {
  const { messages, turn, toolContext, calls } = accepting;
  await query(
    `insert into generation_contents (generation_id, project_id, input, turn, tool_context, key_id, key_data)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [
      row.id,
      row.projectId,
      seal.seal('input', messages),
      seal.seal('turn', turn),
      seal.seal('tool_context', toolContext),
      key?.keyId ?? null,
      key?.data ?? null,
    ],
    tx,
  );
  if (calls.length === 0) return;
  await query(
    `insert into generation_calls (generation_id, step, call, project_id, call_id, tool_name, tool_id, kind, args)
     select $1, $2, c.call - 1, $3, 'input-' || c.call, c.tool_name, c.tool_id, c.kind, c.args::json
     from unnest($4::text[], $5::text[], $6::text[], $7::text[]) with ordinality as c (tool_name, tool_id, kind, args, call)`,
    [
      row.id,
      INPUT_STEP,
      row.projectId,
      calls.map(({ tool }) => tool.name),
      calls.map(({ tool }) => tool.id),
      calls.map(({ tool }) => tool.type),
      calls.map(({ args }, call) => seal.seal(callPlace({ step: INPUT_STEP, call }, 'args'), args)),
    ],
    tx,
  );
}

/** Nothing is ever written in the clear, so nothing is there to be removed later. Spec: Generations, what is kept. */
const redactedAtBirth = (now: Date) => ({
  contentRedactedAt: now,
  contentRedactedByPrincipalType: 'system',
  contentRedactedByPrincipalId: 'zero_retention',
});

/** The database went away around the commit: only the caller's own key can tell a repeat from a second run. */
const COMMIT_UNKNOWN =
  'Whether the run was accepted is unknown. Ask again with the same idempotency_key; without one a repeat may run twice.';

const AGENT_HELD = 'held as (select id from agents where project_id = $1 and id = $2 for key share)';

/**
 * The trace of a new run, made redacted under zero retention; agent and trace are held until the transaction ends. Null when
 * the agent is gone.
 * @throws VALIDATION_FAILED when the named trace is not there, or is being removed
 */
async function traceFor(input: GenerateInput, mode: ContentMode, now: Date, tx: Tx): Promise<string | null> {
  const agent = [input.project.id, input.agentId];
  if (input.traceId === null) {
    const made = await queryOne<{ id: string }>(
      `with ${AGENT_HELD} insert into traces (id, project_id, agent_id, created_at, updated_at,
         content_redacted_at, content_redacted_by_principal_type, content_redacted_by_principal_id)
       select $3, $1, id, $4, $4, case when $5 then $4::timestamptz end, case when $5 then 'system' end,
         case when $5 then 'zero_retention' end
       from held returning id`,
      [...agent, newId('trace'), now, mode === 'none'],
      tx,
    );
    return made?.id ?? null;
  }
  const found = await queryOne<{ agent: string | null; trace: string | null }>(
    `with ${AGENT_HELD}, kept as (select id from traces where project_id = $1 and id = $3 for key share)
     select (select id from held) as agent, (select id from kept) as trace`,
    [...agent, input.traceId],
    tx,
  );
  if (found?.trace == null) throw invalidInput('VALIDATION_FAILED', 'trace_id', 'is not a trace of this project');
  return found.agent === null ? null : found.trace;
}

/**
 * Waits until a run settles or pauses after `afterPause`, and answers it from its rows; a run that does not rest in time,
 * or whose start is unknown, is `accepted` and goes on.
 * @throws the code with which the run failed
 */
export async function restOf(row: Generation, afterPause: number): Promise<Generated> {
  const until = clock.ms() + config().GENERATION_WAIT_MAX_SECONDS * 1000;
  for (;;) {
    const outcome = await awaitGenerationRest(row, afterPause, Math.max(1, until - clock.ms()));
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
export function failureOf(row: Generation): ApiError {
  const unrecorded =
    row.stopReason === 'cancelled'
      ? { code: 'GENERATION_CANCELLED', message: 'The generation was cancelled.' }
      : { code: 'GENERATION_FAILED', message: 'The generation failed.' };
  const error: GenerationError = row.error ?? unrecorded;
  const code = error.code in catalog ? (error.code as ErrorCode) : 'GENERATION_FAILED';
  return new ApiError(code, error.message, { meta: error.meta ?? { generation_id: row.id, trace_id: row.traceId } });
}

/** A generation of the project, or of one of its agents. @throws not_found */
export async function getGeneration(projectId: string, id: string): Promise<Generation> {
  const row = await Generation.findOne({ where: { projectId, id } });
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
    ...(filters.unmatched === true ? { id: [] } : {}),
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
