import type { LanguageModelV3Content } from '@ai-sdk/provider';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError } from '../core/errors';
import { attributesOf, selectFrom } from '../core/select';
import { Generation, isSettled } from './models';
import type { GenerationError, GenerationRow } from './models';
import type { PendingCall, GenerationRows, StepRow } from './present';
import type { ToolSnapshot } from '../tools/resolve';
import { SEAL_COLUMNS, callPlace, isSealed, plain, sealOfRow, stepPlace } from './sealing';
import type { ContentSeal, SealRow } from './sealing';
import type { CallError, InputMessage, StoredCall, Turn } from './turn';

interface StepJson {
  step: number;
  /** Null once it was removed. */
  content: unknown;
  finish_reason: string | null;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
}

interface CallJson {
  step: number;
  call: number;
  call_id: string;
  tool_name: string;
  kind: StoredCall['kind'];
  args: unknown;
  pinned: unknown;
  result: unknown;
  error: unknown;
  answered: boolean;
}

/** One step `s`, and one call `k`, as json objects. */
export const STEP_JSON = `json_build_object('step', s.step, 'content', s.content, 'finish_reason', s.finish_reason,
  'input_tokens', s.input_tokens, 'output_tokens', s.output_tokens, 'cached_tokens', s.cached_tokens)`;
export const CALL_JSON = `json_build_object('step', k.step, 'call', k.call, 'call_id', k.call_id, 'tool_name', k.tool_name,
  'kind', k.kind, 'args', k.args, 'pinned', k.pinned, 'result', k.result, 'error', k.error, 'answered', k.answered_at is not null)`;

/** Finished steps and calls of a generation `g`, as one json column each: one round trip brings the whole turn. */
export const STEPS_AND_CALLS = `
  (select coalesce(json_agg(${STEP_JSON} order by s.step), '[]')
    from generation_steps s where s.generation_id = g.id and s.stored_at is not null) as steps,
  (select coalesce(json_agg(${CALL_JSON} order by k.step, k.call), '[]')
    from generation_calls k where k.generation_id = g.id) as calls`;

export interface TurnJson {
  steps: StepJson[];
  calls: CallJson[];
}

const partsOf = (content: unknown): LanguageModelV3Content[] =>
  (content as { parts: LanguageModelV3Content[] } | null)?.parts ?? [];

/** Stored steps and calls out of the columns of STEPS_AND_CALLS. */
export const readTurn = ({ steps, calls }: TurnJson, seal: ContentSeal): { steps: StepRow[]; calls: StoredCall[] } => ({
  steps: steps.map((step) => ({
    step: step.step,
    parts: partsOf(seal.open(stepPlace(step.step), step.content)),
    finishReason: step.finish_reason,
    inputTokens: step.input_tokens,
    outputTokens: step.output_tokens,
    cachedTokens: step.cached_tokens,
  })),
  calls: calls.map(({ call_id, tool_name, args, pinned, result, error, ...call }) => ({
    ...call,
    callId: call_id,
    toolName: tool_name,
    args: seal.open(callPlace(call, 'args'), args),
    pinned: seal.open(callPlace(call, 'pinned'), pinned),
    result: seal.open(callPlace(call, 'result'), result),
    error: seal.open(callPlace(call, 'error'), error) as CallError | null,
  })),
});

/** A step's content without what it held. */
const emptied = ({ steps }: TurnJson): TurnJson => ({
  steps: steps.map((step) => ({ ...step, content: null })),
  calls: [],
});

interface Asked {
  projectId: string;
  generationId: string;
  /** The run must be of this agent. */
  agentId?: string | undefined;
  /** Whether the content that a run under zero retention leaves to its waiting caller is opened; else it stays unseen. */
  taking?: boolean;
}

type FoundRow = TurnJson & SealRow & Record<string, unknown> & { held: boolean; input: unknown; turn: unknown };

/** A generation with its whole turn; null when there is no such row in the project (and of the agent, when one is named). */
export async function generationRows(
  { projectId, generationId, agentId, taking = false }: Asked,
  tx?: Tx,
): Promise<GenerationRows | null> {
  const found = await queryOne<FoundRow>(
    `select ${generationColumns('g.')}, c.key_id, c.key_data, c.input, c.generation_id is not null as held,
       case when g.content_mode = 'none' then c.turn else json_build_object('outputSchema', c.turn -> 'outputSchema') end as turn,
       ${STEPS_AND_CALLS}
     from generations g left join generation_contents c on c.generation_id = g.id
     where g.project_id = $1 and g.id = $2 and ($3::text is null or g.agent_id = $3)`,
    [projectId, generationId, agentId ?? null],
    tx,
  );
  if (found === null) return null;
  const { steps, calls, input, turn, held, key_id, key_data, ...columns } = found;
  const row = fromColumns(columns);
  const seal = sealOfRow(generationId, { content_mode: row.contentMode, key_id, key_data });
  if (seal === null || (row.contentMode === 'none' && isSettled(row) && !taking)) return bare(row, { steps, calls });
  if (isSealed(row.error)) row.error = seal.open('error', row.error) as GenerationError;
  return {
    row,
    held,
    seal,
    input: seal.open('input', input) as InputMessage[] | null,
    structured: ((seal.open('turn', turn) as Turn | null)?.outputSchema ?? null) !== null,
    ...readTurn({ steps, calls }, seal),
  };
}

/** A run whose content is gone, or not for whoever asks. */
function bare(row: GenerationRow, turn: TurnJson): GenerationRows {
  if (isSealed(row.error)) row.error = null;
  return { row, held: false, seal: plain, input: null, structured: false, ...readTurn(emptied(turn), plain) };
}

/** The tools of a run's turn. @throws GENERATION_FAILED when the content of a run under zero retention cannot be opened */
export async function toolsOf(generationId: string): Promise<ToolSnapshot[]> {
  const row = await queryOne<SealRow & { turn: unknown }>(
    `select c.turn, ${SEAL_COLUMNS} from generations g join generation_contents c on c.generation_id = g.id where g.id = $1`,
    [generationId],
  );
  const seal = row === null ? null : sealOfRow(generationId, row);
  return (seal?.open('turn', row?.turn) as Turn | null | undefined)?.tools ?? [];
}

const ATTRIBUTES = attributesOf(Generation);

/** The columns of a generation, for statements whose plan must outlive a new column; `of` is the alias with its dot. */
export const generationColumns = (of = ''): string => ATTRIBUTES.map(({ column }) => of + column).join(', ');

/** A row out of the columns of a raw statement; those that no attribute has are left out. */
export function fromColumns(columns: Record<string, unknown>): GenerationRow {
  const attributes: Record<string, unknown> = {};
  for (const { name, column, isCount } of ATTRIBUTES)
    attributes[name] = isCount ? Number(columns[column]) : columns[column];
  return attributes as GenerationRow;
}

/** A generation of the project without its turn, or null. */
export async function findGeneration(projectId: string, id: string): Promise<GenerationRow | null> {
  const [row] = await selectFrom(Generation, { projectId, id }).rows(() => '');
  return row ?? null;
}

/** The same, held until the transaction ends. */
export async function heldGeneration(projectId: string, id: string, tx: Tx): Promise<GenerationRow | null> {
  const [row] = await selectFrom(Generation, { projectId, id }).rows(() => 'for no key update', tx);
  return row ?? null;
}

type PendingRow = SealRow & {
  generation_id: string;
  step: number;
  call: number;
  call_id: string;
  tool_name: string;
  args: unknown;
  pinned: unknown;
};

/** Calls that wait for their caller, by generation; asked only for paused ones. */
export async function pendingCalls(generationIds: string[], tx?: Tx): Promise<Map<string, PendingCall[]>> {
  const byGeneration = new Map<string, PendingCall[]>();
  if (generationIds.length === 0) return byGeneration;
  const rows = await query<PendingRow>(
    `select k.generation_id, k.step, k.call, k.call_id, k.tool_name, k.args, k.pinned, ${SEAL_COLUMNS}
     from generation_calls k join generations g on g.id = k.generation_id
     left join generation_contents c on c.generation_id = k.generation_id
     where k.generation_id = any($1) and k.kind = 'client' and k.answered_at is null order by k.generation_id, k.step, k.call`,
    [generationIds],
    tx,
  );
  for (const row of rows) {
    const pending = { callId: row.call_id, toolName: row.tool_name, args: argsOf(row) };
    byGeneration.set(row.generation_id, [...(byGeneration.get(row.generation_id) ?? []), pending]);
  }
  return byGeneration;
}

/** With what its tool pins put in. Arguments that no key at hand opens do not keep a list from being read. */
function argsOf(row: PendingRow): unknown {
  try {
    const seal = sealOfRow(row.generation_id, row);
    return seal?.open(callPlace(row, 'pinned'), row.pinned) ?? seal?.open(callPlace(row, 'args'), row.args) ?? null;
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
}
