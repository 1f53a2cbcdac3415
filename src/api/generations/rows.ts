import type { LanguageModelV3Content } from '@ai-sdk/provider';
import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { Generation } from './models';
import type { PendingCall, GenerationRows, StepRow } from './present';
import type { ToolSnapshot } from '../tools/resolve';
import type { CallError, InputMessage, StoredCall, Turn } from './turn';

interface StepJson {
  step: number;
  /** Null once it was purged. */
  content: { parts: LanguageModelV3Content[] } | null;
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
  error: CallError | null;
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

/** Stored steps and calls out of the columns of STEPS_AND_CALLS. */
export const readTurn = ({ steps, calls }: TurnJson): { steps: StepRow[]; calls: StoredCall[] } => ({
  steps: steps.map((step) => ({
    step: step.step,
    parts: step.content?.parts ?? [],
    finishReason: step.finish_reason,
    inputTokens: step.input_tokens,
    outputTokens: step.output_tokens,
    cachedTokens: step.cached_tokens,
  })),
  calls: calls.map(({ call_id, tool_name, ...call }) => ({ ...call, callId: call_id, toolName: tool_name })),
});

/** A generation with its whole turn; null when there is no such row in the project (and of the agent, when one is named). */
export async function generationRows(
  projectId: string,
  generationId: string,
  agentId?: string,
): Promise<GenerationRows | null> {
  const found = await queryOne<
    TurnJson & Record<string, unknown> & { input: InputMessage[] | null; structured: boolean }
  >(
    `select g.*, c.input, coalesce((c.turn -> 'outputSchema')::text, 'null') <> 'null' as structured, ${STEPS_AND_CALLS}
     from generations g left join generation_contents c on c.generation_id = g.id
     where g.project_id = $1 and g.id = $2 and ($3::text is null or g.agent_id = $3)`,
    [projectId, generationId, agentId ?? null],
  );
  if (found === null) return null;
  const { steps, calls, input, structured, ...columns } = found;
  return { row: fromColumns(columns), input, structured, ...readTurn({ steps, calls }) };
}

/** The tools of a run's turn. */
export async function toolsOf(generationId: string): Promise<ToolSnapshot[]> {
  const row = await queryOne<{ turn: Turn | null }>('select turn from generation_contents where generation_id = $1', [
    generationId,
  ]);
  return row?.turn?.tools ?? [];
}

/** A model instance out of the columns of a raw statement. */
export function fromColumns(columns: Record<string, unknown>): Generation {
  const attributes = Object.fromEntries(
    Object.entries(columns).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
  return Generation.build(attributes as never, { isNewRecord: false, raw: true });
}

/** Calls that wait for their caller, by generation; asked only for paused ones. */
export async function pendingCalls(generationIds: string[], tx?: Tx): Promise<Map<string, PendingCall[]>> {
  const byGeneration = new Map<string, PendingCall[]>();
  if (generationIds.length === 0) return byGeneration;
  const rows = await query<{ generation_id: string; call_id: string; tool_name: string; args: unknown }>(
    `select generation_id, call_id, tool_name, coalesce(pinned, args) as args from generation_calls
     where generation_id = any($1) and kind = 'client' and answered_at is null order by generation_id, step, call`,
    [generationIds],
    tx,
  );
  for (const { generation_id: id, call_id: callId, tool_name: toolName, args } of rows) {
    byGeneration.set(id, [...(byGeneration.get(id) ?? []), { callId, toolName, args }]);
  }
  return byGeneration;
}
