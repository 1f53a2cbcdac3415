import type { LanguageModelV3Content } from '@ai-sdk/provider';
import { clock } from '../core/clock';
import { inTransaction, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { log } from '../core/log';
import { countOf, stepCostSql } from '../providers/prices';
import type { ToolContext } from '../tools/context';
import type { DueDelivery } from '../webhooks/due';
import { STEPS_AND_CALLS, readTurn } from './rows';
import type { TurnJson } from './rows';
import { SEAL_COLUMNS, callPlace, sealOfRow, stepPlace } from './sealing';
import type { ContentMode, ContentSeal, SealRow } from './sealing';
import { settle } from './settlement';
import type { Ending } from './endings';
import type { InputMessage, ParsedCall, StoredCall, StoredStep, Turn } from './turn';

/** Where a run stands, as one statement reads it. */
export interface RunView {
  generationId: string;
  projectId: string;
  traceId: string;
  status: string;
  streamed: boolean;
  /** How many runs deep this one may call others; 0 = it may not even run. */
  maxCallDepth: number;
  pause: number;
  contentBytes: number;
  contentMode: ContentMode;
  /** How the content of the run is written and read. */
  seal: ContentSeal;
  turn: Turn;
  toolContext: ToolContext;
  input: InputMessage[];
  steps: StoredStep[];
  calls: StoredCall[];
  /** Tries of the step that is asked for, and how many of them a provider failed. */
  retries: number;
  providerFailures: number;
}

interface ViewRow extends TurnJson, SealRow {
  project_id: string;
  trace_id: string;
  status: string;
  streamed: boolean;
  max_call_depth: number;
  pause: number;
  content_bytes: string;
  turn: unknown;
  tool_context: unknown;
  input: unknown;
  retries: number;
  provider_failures: number;
}

const SEEN = `seen as (update generations set run_seen_at = $2, started_at = coalesce(started_at, $2), last_activity_at = $2
  where id = $1 and run_seen_at is null)`;

const TRIED = `tried as (
  insert into generation_steps (generation_id, step, project_id, retries)
    select id, $3, project_id, 1 from generations where id = $1 and status in ('in_progress', 'requires_action')
  on conflict (generation_id, step) do update set retries = generation_steps.retries + 1 where generation_steps.stored_at is null
  returning retries, provider_failures)`;

const KNOWN = `tried as (select retries, provider_failures from generation_steps where generation_id = $1 and step = $3 and stored_at is null)`;

/**
 * Reads a run and its turn in one statement, which also marks the row as seen and, on a repeated try, counts it: a try
 * that never reached the database counts nothing. Null when the row is gone, or its content.
 * @throws GENERATION_FAILED when the content of a run under zero retention cannot be opened
 */
export async function openStep(generationId: string, step: number, repeated: boolean): Promise<RunView | null> {
  const row = await queryOne<ViewRow>(
    `with ${SEEN}, ${repeated ? TRIED : KNOWN}
     select g.project_id, g.trace_id, g.status, g.streamed, g.max_call_depth, g.pause, g.content_bytes, c.turn, c.input,
       c.tool_context, ${SEAL_COLUMNS}, ${STEPS_AND_CALLS},
       coalesce((select retries from tried), 0) as retries, coalesce((select provider_failures from tried), 0) as provider_failures
     from generations g join generation_contents c on c.generation_id = g.id where g.id = $1`,
    [generationId, clock.now(), step],
  );
  const seal = row === null ? null : sealOfRow(generationId, row);
  if (row === null || seal === null) return null;
  return {
    generationId,
    projectId: row.project_id,
    traceId: row.trace_id,
    status: row.status,
    streamed: row.streamed,
    maxCallDepth: row.max_call_depth,
    pause: row.pause,
    contentBytes: Number(row.content_bytes),
    contentMode: row.content_mode,
    seal,
    turn: seal.open('turn', row.turn) as Turn,
    toolContext: (seal.open('tool_context', row.tool_context) as ToolContext | null) ?? {},
    input: seal.open('input', row.input) as InputMessage[],
    ...readTurn(row, seal),
    retries: row.retries,
    providerFailures: row.provider_failures,
  };
}

/** Whether a run goes on. */
export async function isUnsettled(generationId: string): Promise<boolean> {
  const row = await queryOne<{ status: string }>('select status from generations where id = $1', [generationId]);
  return row?.status === 'in_progress' || row?.status === 'requires_action';
}

/** Counts a failure of the provider against the step; answers how many there are by now. */
export async function countProviderFailure({ generationId, projectId }: RunView, step: number): Promise<number> {
  const row = await queryOne<{ provider_failures: number }>(
    `insert into generation_steps (generation_id, step, project_id, provider_failures) values ($1, $2, $3, 1)
     on conflict (generation_id, step) do update set provider_failures = generation_steps.provider_failures + 1
       where generation_steps.stored_at is null
     returning provider_failures`,
    [generationId, step, projectId],
  );
  return row?.provider_failures ?? 0;
}

/** Tokens of one model call, as the provider counted them. */
export interface StepCounts {
  /** Everything that was given, read from a cache or not. */
  input: number;
  output: number;
  /** Part of the input that was read from the provider's cache. */
  cached: number;
  /** Part of the input that was written to it. */
  cacheWrite: number;
  /** Part of the output that was not said. */
  reasoning: number;
}

/** An answer of a model, as it is kept. */
export interface StepAnswer {
  step: number;
  parts: LanguageModelV3Content[];
  finishReason: string;
  model: string;
  aiProviderId: string;
  tokens: StepCounts;
  /** Slug of the vendor that served: with provider, model and time it says what the tokens cost. */
  vendor: string;
  startedAt: Date;
  calls: ParsedCall[];
  /** Set when the step ends the run. */
  ending: Ending | null;
}

/** `stored`; `late` = another writer was first, or the run is settled, and nothing was changed; `gone` = no such row. */
export type StepStored = { kind: 'stored'; deliveries: DueDelivery[] } | { kind: 'late' } | { kind: 'gone' };

/**
 * One statement, so that a step in the midst of a run costs one round trip. Everything hangs from `stored`, which holds the
 * run's row and is empty where another writer was first.
 */
const STORE = `
  with open as (select status from generations where id = $1 for update),
  stored as (
    insert into generation_steps (generation_id, step, project_id, stored_at, content, finish_reason, ai_provider_id, model,
      input_tokens, output_tokens, cached_tokens, started_at, cache_write_tokens, reasoning_tokens, cost_usd)
    select $1, $2::integer, $3, $4::timestamptz, $5::json, $6, $7, $8, $9::bigint, $10::bigint, $11::bigint, $12::timestamptz,
      $13::bigint, $14::bigint, ${stepCostSql({
        projectId: '$3',
        aiProviderId: '$7',
        vendor: '$15',
        model: '$8',
        at: '$12',
        tokens: { input: '$16', cached: '$17', cacheWrite: '$18', output: '$19' },
      })}
    from open where open.status in ('in_progress', 'requires_action')
    on conflict (generation_id, step) do update set stored_at = excluded.stored_at, content = excluded.content,
      finish_reason = excluded.finish_reason, ai_provider_id = excluded.ai_provider_id, model = excluded.model,
      input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cached_tokens = excluded.cached_tokens,
      started_at = excluded.started_at, cache_write_tokens = excluded.cache_write_tokens,
      reasoning_tokens = excluded.reasoning_tokens, cost_usd = excluded.cost_usd
    where generation_steps.stored_at is null returning step, cost_usd),
  called as (
    insert into generation_calls (generation_id, step, call, project_id, call_id, tool_name, tool_id, kind, pause, args, error,
      answered_at, pinned)
    select $1, stored.step, c.call, $3, c.call_id, c.tool_name, c.tool_id, c.kind, case when c.kind = 'client' then $20::integer end,
      c.args::json, c.error::json, case when c.error is not null then $4::timestamptz end, c.pinned::json
    from stored, unnest($21::integer[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::text[])
      as c (call, call_id, tool_name, tool_id, kind, args, error, pinned)),
  counted as (
    update traces t set step_count = step_count + 1, updated_at = $4 from stored where t.project_id = $3 and t.id = $29),
  added as (
    update generations g set step_count = step_count + 1, input_tokens = input_tokens + $9, output_tokens = output_tokens + $10,
      cached_tokens = cached_tokens + $11, cost_usd = coalesce(g.cost_usd + stored.cost_usd, g.cost_usd, stored.cost_usd),
      ai_provider_id = $7, model = $8, content_bytes = content_bytes + $30, last_activity_at = $4, updated_at = $4
    from stored where g.id = $1)
  select (select status from open) as status, exists (select 1 from stored) as stored`;

function storeBinds({ generationId, projectId, traceId, pause, seal }: RunView, answer: StepAnswer): unknown[] {
  const { step, tokens, calls } = answer;
  return [
    generationId,
    step,
    projectId,
    clock.now(),
    seal.seal(stepPlace(step), { parts: answer.parts }),
    answer.finishReason,
    answer.aiProviderId,
    answer.model,
    tokens.input,
    tokens.output,
    tokens.cached,
    answer.startedAt,
    tokens.cacheWrite,
    tokens.reasoning,
    answer.vendor,
    ...[tokens.input - tokens.cached - tokens.cacheWrite, tokens.cached, tokens.cacheWrite, tokens.output].map(countOf),
    pause + 1,
    calls.map(({ call }) => call),
    calls.map(({ callId }) => callId),
    calls.map(({ toolName }) => toolName),
    calls.map(({ toolId }) => toolId),
    calls.map(({ kind }) => kind),
    calls.map(({ call, args }) => seal.seal(callPlace({ step, call }, 'args'), args ?? null)),
    calls.map(({ call, error }) => (error === null ? null : seal.seal(callPlace({ step, call }, 'error'), error))),
    calls.map(({ call, pinned }) => (pinned == null ? null : seal.seal(callPlace({ step, call }, 'pinned'), pinned))),
    traceId,
    Buffer.byteLength(JSON.stringify(answer.parts)),
  ];
}

/**
 * Stores a finished step, with its counts, cost and calls, and settles the run in the same transaction when it is the last.
 * The first writer wins; a late one changes nothing and is logged. Safe to repeat.
 */
export async function storeStep(view: RunView, answer: StepAnswer): Promise<StepStored> {
  const { ending } = answer;
  if (ending === null) return insertStep(view, answer);
  return inTransaction(async (tx) => {
    const stored = await insertStep(view, answer, tx);
    if (stored.kind !== 'stored') return stored;
    return { kind: 'stored', deliveries: (await settle(tx, view.generationId, ending)) ?? [] };
  });
}

async function insertStep(view: RunView, answer: StepAnswer, tx?: Tx): Promise<StepStored> {
  const found = await queryOne<{ status: string | null; stored: boolean }>(STORE, storeBinds(view, answer), tx);
  if (found?.status == null) return { kind: 'gone' };
  if (found.stored) return { kind: 'stored', deliveries: [] };
  log.warn({
    msg: 'late_result',
    generation_id: view.generationId,
    step: answer.step,
    input_tokens: answer.tokens.input,
    output_tokens: answer.tokens.output,
  });
  return { kind: 'late' };
}
