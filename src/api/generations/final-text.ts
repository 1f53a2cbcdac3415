import { ProgramLimitError, ProgramSchemaError } from '../core/programs';
import { errorFacts, log } from '../core/log';
import { programs } from '../core/tenant-programs';
import { failure } from './endings';
import type { Ending } from './endings';
import type { Turn } from './turn';

/** What the checks of a final text need to know of its run. */
export interface FinalText {
  ids: { generationId: string; traceId: string };
  turn: Turn;
  /** A streamed text is out already, so no schema constrains it. */
  streamed: boolean;
  text: string;
}

/**
 * Checks the text with which a model ends a turn; null when it may stand. Never throws: the answer is paid, and is stored
 * whatever comes of the check. Safe to repeat.
 * Spec: Errors, `OUTPUT_SCHEMA_VALIDATION_FAILED`.
 */
export async function finalTextProblem({ ids, turn, streamed, text }: FinalText): Promise<Ending | null> {
  if (turn.outputSchema != null) {
    const problem = streamed ? null : await schemaProblem(turn.outputSchema, text);
    return problem === null ? null : failure(ids, 'OUTPUT_SCHEMA_VALIDATION_FAILED', problem);
  }
  const tool = writtenOutCall(
    text,
    turn.tools.map(({ name }) => name),
  );
  if (tool === null) return null;
  return failure(ids, 'TEXT_ENCODED_TOOL_CALL', `The model wrote a call of ${tool} as text instead of making it.`, {
    tool_name: tool,
  });
}

async function schemaProblem(schema: object, text: string): Promise<string | null> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'The output is not JSON.';
  }
  try {
    const checked = await programs().validate(schema, value);
    if (checked.ok) return null;
    const [first] = checked.errors;
    return `The output does not satisfy output_schema: ${first?.path || 'the whole'} ${first?.message ?? 'is not valid'}.`;
  } catch (error) {
    if (error instanceof ProgramLimitError) return `The output could not be checked. ${error.message}`;
    if (error instanceof ProgramSchemaError) return 'The output_schema cannot be used.';
    log.warn({ msg: 'output not checked', ...errorFacts(error) });
    return 'The output could not be checked.';
  }
}

const CALL_KEYS = new Set([
  'name',
  'tool',
  'tool_name',
  'function',
  'arguments',
  'args',
  'parameters',
  'input',
  'id',
  'type',
]);
const FENCE = /^```[a-zA-Z]*\n([\s\S]*?)\n?```$/;

/** The tool whose call a text writes out and is nothing else; null when it is anything else. Pure. */
export function writtenOutCall(text: string, toolNames: string[]): string | null {
  const bare = text.trim();
  const inner = (FENCE.exec(bare)?.[1] ?? bare).trim();
  if (!/^[{[]/.test(inner)) return null;
  let value: unknown;
  try {
    value = JSON.parse(inner);
  } catch {
    return null;
  }
  const calls = Array.isArray(value) ? (value as unknown[]) : [value];
  const names = calls.map((call) => calledTool(call, toolNames));
  return names.includes(null) ? null : (names[0] ?? null);
}

function calledTool(call: unknown, toolNames: string[]): string | null {
  if (typeof call !== 'object' || call === null || Array.isArray(call)) return null;
  const fields = call as Record<string, unknown>;
  if (Object.keys(fields).some((key) => !CALL_KEYS.has(key))) return null;
  const inner = fields.function;
  if (typeof inner === 'object' && inner !== null) return calledTool(inner, toolNames);
  const said = [fields.name, fields.tool_name, fields.tool, inner].find((name) => typeof name === 'string');
  return typeof said === 'string' && toolNames.includes(said) ? said : null;
}
