import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import type { ToolContext } from '../tools/context';
import type { ToolSnapshot } from '../tools/resolve';
import { SEAL_COLUMNS, callPlace, sealOfRow } from './sealing';
import type { ContentSeal, SealRow } from './sealing';
import { INPUT_STEP, toolOfCall } from './turn';
import type { CallError, InputMessage, ToolOutputContent, Turn } from './turn';

/** A call that the service makes itself, with what it needs. */
export interface DueCall {
  projectId: string;
  callId: string;
  /** As the model gave them. */
  args: Record<string, unknown>;
  toolContext: ToolContext;
  tool: ToolSnapshot;
  /** The content of a message that its result fills; null for a call of the model. */
  fills: ToolOutputContent | null;
  /** How its answer is stored. */
  seal: ContentSeal;
}

/** `answered` covers a run that is settled: there is nothing left to do either way. */
export type DueCallState = { kind: 'due'; call: DueCall } | { kind: 'answered' } | { kind: 'gone' };

interface CallRow extends SealRow {
  project_id: string;
  status: string;
  call_id: string | null;
  tool_name: string | null;
  tool_context: unknown;
  args: unknown;
  answered: boolean;
  turn: unknown;
  /** Read for the calls of step 0 alone. */
  input: unknown;
}

/**
 * Reads one call of a step with the tool as the turn resolved it.
 * @throws GENERATION_FAILED when the content of a run under zero retention cannot be opened
 */
export async function dueCall(generationId: string, step: number, call: number): Promise<DueCallState> {
  const row = await queryOne<CallRow>(
    `select g.project_id, g.status, k.call_id, k.tool_name, k.args, k.answered_at is not null as answered,
       case when g.content_mode = 'none' then c.turn
         else json_build_object('tools', c.turn -> 'tools', 'inputTools', c.turn -> 'inputTools') end as turn,
       case when $2 = ${String(INPUT_STEP)} then c.input end as input, c.tool_context, ${SEAL_COLUMNS}
     from generations g join generation_contents c on c.generation_id = g.id
     left join generation_calls k on k.generation_id = g.id and k.step = $2 and k.call = $3
     where g.id = $1`,
    [generationId, step, call],
  );
  const seal = row === null ? null : sealOfRow(generationId, row);
  if (row === null || seal === null) return { kind: 'gone' };
  const turn = seal.open('turn', row.turn) as Pick<Turn, 'tools' | 'inputTools'>;
  const tool = toolOfCall(turn, { step, call, toolName: row.tool_name ?? '' });
  const { project_id: projectId, call_id: callId } = row;
  if (row.answered || row.status !== 'in_progress' || callId === null || tool === null || tool.type === 'client')
    return { kind: 'answered' };
  const args = seal.open(callPlace({ step, call }, 'args'), row.args) as Record<string, unknown>;
  const toolContext = (seal.open('tool_context', row.tool_context) as ToolContext | null) ?? {};
  const fills = contentOfCall(seal.open('input', row.input) as InputMessage[] | null, call);
  return { kind: 'due', call: { projectId, callId, args, toolContext, tool, fills, seal } };
}

const contentOfCall = (input: InputMessage[] | null, call: number): ToolOutputContent | null =>
  input?.flatMap(({ content }) => (typeof content !== 'string' && content.call === call ? [content] : []))[0] ?? null;

/** What a call gave: a result, or why it failed. */
export type CallAnswer = { result: unknown; error: null } | { result: null; error: CallError };

/**
 * Records the answer of a call: a no-op unless the run is unsettled and the call unanswered, so the first writer wins.
 * False when nothing was changed. Safe to repeat.
 */
export async function storeCall(
  at: { generationId: string; step: number; call: number },
  answer: CallAnswer,
  seal: ContentSeal,
): Promise<boolean> {
  const result = answer.error === null ? seal.seal(callPlace(at, 'result'), answer.result ?? null) : null;
  const error = answer.error === null ? null : seal.seal(callPlace(at, 'error'), answer.error);
  const bytes = Buffer.byteLength(JSON.stringify(answer.error ?? answer.result ?? null));
  const row = await queryOne(
    `with open as (select id from generations where id = $1 and status in ('in_progress', 'requires_action') for update),
     done as (update generation_calls k set result = $4, error = $5, answered_at = $6 from open
       where k.generation_id = open.id and k.step = $2 and k.call = $3 and k.answered_at is null returning k.call)
     update generations g set content_bytes = g.content_bytes + $7, last_activity_at = $6, updated_at = $6
       from done where g.id = $1 returning g.id`,
    [at.generationId, at.step, at.call, result, error, clock.now(), bytes],
  );
  return row !== null;
}
