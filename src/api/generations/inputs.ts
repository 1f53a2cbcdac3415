import { ApiError, invalidInput } from '../core/errors';
import { ProgramFailedError, ProgramLimitError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { toolOf } from '../tools/direct';
import type { ToolSnapshot } from '../tools/resolve';
import type { InputMessage, ToolOutputContent } from './turn';

/** A message as a caller gives it. */
export interface GivenMessage {
  role: 'user' | 'assistant' | 'system';
  content: string | GivenToolOutput | { type: 'document'; document_id: string };
}

export interface GivenToolOutput {
  type: 'tool_output';
  tool_id: string;
  action?: string | undefined;
  input?: Record<string, unknown> | undefined;
  output_path?: string | undefined;
}

/** A call that is made before the first model step; its result becomes the content of a message. */
export interface InputCall {
  tool: ToolSnapshot;
  args: Record<string, unknown>;
}

/**
 * The dialogue of a run, with the calls that fill its messages; they stand as calls of step 0. System messages are refused
 * before.
 * @throws DOCUMENT_NOT_FOUND, TOOL_NOT_FOUND, TOOL_CALL_NOT_SUPPORTED, VALIDATION_FAILED
 */
export async function dialogueOf(
  projectId: string,
  given: GivenMessage[],
): Promise<{ messages: InputMessage[]; calls: InputCall[] }> {
  const calls: InputCall[] = [];
  const messages: InputMessage[] = [];
  for (const [index, { role, content }] of given.entries()) {
    if (role === 'system') continue;
    if (typeof content === 'string') {
      messages.push({ role, content });
      continue;
    }
    const path = `messages.${String(index)}.content`;
    if (content.type === 'document') {
      throw new ApiError('DOCUMENT_NOT_FOUND', `${path}.document_id names no document of this project.`, {
        details: [{ path: `${path}.document_id`, message: 'names no document of this project' }],
      });
    }
    const tool = await toolOf(projectId, { toolId: content.tool_id, action: content.action, path });
    await assertPath(content.output_path, `${path}.output_path`);
    messages.push({ role, content: { ...content, call: calls.length } });
    calls.push({ tool, args: content.input ?? {} });
  }
  return { messages, calls };
}

/** Spec: Agents, generation rule 1. @throws SYSTEM_MESSAGE_NOT_ALLOWED */
export function refuseSystemMessages(given: GivenMessage[]): void {
  const index = given.findIndex(({ role }) => role === 'system');
  if (index === -1) return;
  throw new ApiError('SYSTEM_MESSAGE_NOT_ALLOWED', "The agent's instructions are the only system prompt.", {
    details: [{ path: `messages.${String(index)}.role`, message: 'must be user or assistant' }],
  });
}

/** A plain path may be written without its leading dot. */
const programOf = (path: string): string => (/^[A-Za-z_][\w.[\]]*$/.test(path) ? `.${path}` : path);

async function assertPath(path: string | undefined, field: string): Promise<void> {
  if (path === undefined) return;
  const compiled = await programs()
    .compileJq(programOf(path))
    .catch((error: unknown) => {
      if (error instanceof ProgramLimitError) return { ok: false as const, message: error.message };
      throw error;
    });
  if (!compiled.ok) throw invalidInput('VALIDATION_FAILED', field, `is no jq expression: ${compiled.message}`);
}

/**
 * What an output path takes of a result: the first value that it gives.
 * @returns the value, or why there is none
 */
export async function outputAt(
  { output_path: path }: Pick<ToolOutputContent, 'output_path'>,
  result: unknown,
): Promise<{ value: unknown } | { problem: string }> {
  if (path === undefined) return { value: result };
  try {
    const [value] = await programs().jq(programOf(path), result ?? null);
    return value === undefined || value === null ? { problem: `${path} has no value in the tool's output` } : { value };
  } catch (error) {
    if (error instanceof ProgramFailedError || error instanceof ProgramLimitError) return { problem: error.message };
    throw error;
  }
}
