import { principalOf } from '../core/access';
import { clock } from '../core/clock';
import { isDatabaseDown, isUniqueViolation, queryOne } from '../core/db';
import { invalidInput, unavailable } from '../core/errors';
import { newId } from '../core/ids';
import { count } from '../core/metrics';
import { countRun, roomExpressions, whereRunFits } from '../plans/runs';
import type { RunRoom } from '../plans/runs';
import type { ToolContext } from '../tools/context';
import type { RequestHash } from './idempotency';
import type { InputCall } from './inputs';
import type { GenerationRow } from './models';
import { callPlace, newSeal } from './sealing';
import type { ContentMode } from './sealing';
import type { GenerateInput } from './service';
import { INPUT_STEP } from './turn';
import type { InputMessage, Turn } from './turn';

/** A run that may be accepted: what was asked, and what was resolved for it. */
export interface Accepting {
  input: GenerateInput;
  messages: InputMessage[];
  calls: InputCall[];
  toolContext: ToolContext;
  hash: RequestHash | null;
  turn: Turn;
  agentVersion: number;
  contentMode: ContentMode;
}

/** The database went away around the commit: only the caller's own key can tell a repeat from a second run. */
const COMMIT_UNKNOWN =
  'Whether the run was accepted is unknown. Ask again with the same idempotency_key; without one a repeat may run twice.';

/** What the statement held, and the room that the plan left. */
interface Made extends RunRoom {
  agent: string | null;
  trace: string | null;
}

const NEW_TRACE = `
  insert into traces (id, project_id, agent_id, created_at, updated_at, content_redacted_at,
    content_redacted_by_principal_type, content_redacted_by_principal_id)
  select $3, $1, id, $4::timestamptz, $4, $5::timestamptz, $6::text, $7::text from held returning id`;
const NAMED_TRACE = 'select id from traces where project_id = $1 and id = $3 for key share';

/**
 * Trace, run, content and the calls that fill messages, which are due before the first model step, in one statement: it
 * commits by itself, and costs one round trip. Agent and trace are held until then.
 */
const statementWith = (trace: string): string => `
  with ${roomExpressions(31)},
  held as (select a.id from agents a, fits where a.project_id = $1 and a.id = $2 for key share of a),
  trace as (${trace}),
  run as (
    insert into generations (id, project_id, agent_id, trace_id, created_at, updated_at, content_redacted_at,
      content_redacted_by_principal_type, content_redacted_by_principal_id, agent_version, status, content_bytes, action_id,
      metadata, idempotency_key, request_hash, streamed, max_call_depth, awaited, started_by_principal_type,
      started_by_principal_id, request_id, content_mode)
    select $8, $1, held.id, trace.id, $4::timestamptz, $4, $5::timestamptz, $6::text, $7::text, $9::integer, 'in_progress',
      $10::bigint, $11, $12::json, $13, $14::bytea, $15::boolean, $16::integer, $17::boolean, $18, $19, $20, $21
    from held, trace returning id),
  contents as (
    insert into generation_contents (generation_id, project_id, input, turn, tool_context, key_id, key_data)
    select id, $1, $22::json, $23::json, $24::json, $25, $26::bytea from run),
  calls as (
    insert into generation_calls (generation_id, step, call, project_id, call_id, tool_name, tool_id, kind, args)
    select run.id, ${String(INPUT_STEP)}, c.call - 1, $1, 'input-' || c.call, c.tool_name, c.tool_id, c.kind, c.args::json
    from run, unnest($27::text[], $28::text[], $29::text[], $30::text[]) with ordinality
      as c (tool_name, tool_id, kind, args, call)),
  counted as (${countRun(31, 'run')})
  select room.plan, room.runs_max, room.runs, (select id from held) as agent, (select id from trace) as trace
  from room`;

const WITH_NEW_TRACE = statementWith(NEW_TRACE);
const WITH_NAMED_TRACE = statementWith(NAMED_TRACE);

/**
 * Commits a run; null when its idempotency key was claimed meanwhile, or its agent deleted. Not repeatable without a key.
 * Spec: Agents, generation rules 1 and 2.
 * @throws plan_limit_reached; VALIDATION_FAILED when the named trace is not there, or is being removed; service_unavailable when the database went
 *   away and nobody knows whether the run was accepted
 */
export async function accept(accepting: Accepting): Promise<GenerationRow | null> {
  const row = rowOf(accepting);
  const named = accepting.input.traceId !== null;
  try {
    const binds = bindsOf(row, accepting);
    const made = await whereRunFits(accepting.input.project.ownerUserId, async (room, tx) => {
      const answer = await queryOne<Made>(named ? WITH_NAMED_TRACE : WITH_NEW_TRACE, [...binds, ...room], tx);
      return { room: answer, answer };
    });
    if (named && made?.trace == null)
      throw invalidInput('VALIDATION_FAILED', 'trace_id', 'is not a trace of this project');
    if (made?.agent == null) return null;
    count('runsAccepted', { resource: 'generation' });
    return row;
  } catch (error) {
    if (isUniqueViolation(error, 'generations_idempotency_idx')) return null;
    if (isDatabaseDown(error)) throw unavailable(COMMIT_UNKNOWN);
    throw error;
  }
}

/** What a run has not done yet. */
const NOT_BEGUN = {
  stopReason: null,
  error: null,
  pause: 0,
  stepCount: 0,
  aiProviderId: null,
  model: null,
  inputTokens: 0,
  outputTokens: 0,
  cachedTokens: 0,
  costUsd: null,
  initiatorGenerationId: null,
  runSeenAt: null,
  startedAt: null,
  completedAt: null,
  lastActivityAt: null,
} as const;

function rowOf({ input, messages, hash, agentVersion, contentMode }: Accepting): GenerationRow {
  const now = clock.now();
  const principal = principalOf(input.caller);
  const kept = contentMode === 'full';
  return {
    id: newId('generation'),
    projectId: input.project.id,
    agentId: input.agentId,
    agentVersion,
    traceId: input.traceId ?? newId('trace'),
    status: 'in_progress',
    contentBytes: Buffer.byteLength(JSON.stringify(messages)),
    actionId: input.actionId,
    metadata: kept ? input.metadata : null,
    idempotencyKey: input.idempotencyKey,
    requestHash: hash?.present ?? null,
    streamed: input.mode === 'stream',
    maxCallDepth: input.maxCallDepth ?? 10,
    awaited: input.mode !== 'background',
    startedByPrincipalType: principal.type,
    startedByPrincipalId: principal.id,
    requestId: input.requestId,
    contentMode,
    // Nothing is ever written in the clear then, so nothing is there to be removed later. Spec: Generations, what is kept.
    contentRedactedAt: kept ? null : now,
    contentRedactedByPrincipalType: kept ? null : 'system',
    contentRedactedByPrincipalId: kept ? null : 'zero_retention',
    createdAt: now,
    updatedAt: now,
    ...NOT_BEGUN,
  };
}

/** Under zero retention all content is sealed. */
function bindsOf(row: GenerationRow, { messages, turn, toolContext, calls, contentMode }: Accepting): unknown[] {
  const { seal, key } = newSeal(contentMode, row.id);
  return [
    row.projectId,
    row.agentId,
    row.traceId,
    row.createdAt,
    row.contentRedactedAt,
    row.contentRedactedByPrincipalType,
    row.contentRedactedByPrincipalId,
    row.id,
    row.agentVersion,
    row.contentBytes,
    row.actionId,
    row.metadata === null ? null : JSON.stringify(row.metadata),
    row.idempotencyKey,
    row.requestHash,
    row.streamed,
    row.maxCallDepth,
    row.awaited,
    row.startedByPrincipalType,
    row.startedByPrincipalId,
    row.requestId,
    row.contentMode,
    seal.seal('input', messages),
    seal.seal('turn', turn),
    seal.seal('tool_context', toolContext),
    key?.keyId ?? null,
    key?.data ?? null,
    calls.map(({ tool }) => tool.name),
    calls.map(({ tool }) => tool.id),
    calls.map(({ tool }) => tool.type),
    calls.map(({ args }, call) => seal.seal(callPlace({ step: INPUT_STEP, call }, 'args'), args)),
  ];
}
