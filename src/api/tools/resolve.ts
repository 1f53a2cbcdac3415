import { ProgramLimitError, ProgramSchemaError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { missingSecrets } from '../secrets/service';
import type { Execute, Method, Tool, ToolType } from './models';
import { findTools } from './service';

/** A tool as one turn uses it; holds no credential and can be stored as JSON with the turn. */
export interface ToolSnapshot {
  id: string;
  /** What the model sees. */
  name: string;
  type: ToolType;
  description: string | null;
  parameters: Record<string, unknown>;
  /** Null for client tools. */
  method: Method | null;
  timeoutMs: number | null;
  execute: Execute | null;
}

/** A bound tool that a turn goes without. */
export interface UnavailableTool {
  tool_id: string;
  /** Absent when the tool is deleted. */
  name?: string;
  reason: 'deleted' | 'secret_gone' | 'name_taken';
}

/**
 * The tools of a turn in the order of their bindings, and those that cannot be had: deleted ones, ones whose secret is
 * gone, and ones renamed to a name that an earlier one has. Resolved once a turn. Spec: Tools, resolution.
 */
export async function toolSurface(
  projectId: string,
  toolIds: string[],
): Promise<{ tools: ToolSnapshot[]; unavailable: UnavailableTool[] }> {
  const rows = new Map((await findTools(projectId, toolIds)).map((row) => [row.id, row]));
  const named = [...rows.values()].flatMap((row) => row.secretIds);
  const missing = new Set(await missingSecrets(projectId, [...new Set(named)]));
  const taken = new Set<string>();
  const tools: ToolSnapshot[] = [];
  const unavailable: UnavailableTool[] = [];
  for (const toolId of toolIds) {
    const row = rows.get(toolId);
    const refused = refusalOf(toolId, row, { missing, taken });
    if (refused !== null) unavailable.push(refused);
    if (refused !== null || row === undefined) continue;
    taken.add(row.name);
    tools.push(snapshotOf(row));
  }
  return { tools, unavailable };
}

function refusalOf(
  toolId: string,
  row: Tool | undefined,
  { missing, taken }: { missing: Set<string>; taken: Set<string> },
): UnavailableTool | null {
  if (row === undefined) return { tool_id: toolId, reason: 'deleted' };
  if (row.secretIds.some((id) => missing.has(id))) return { tool_id: toolId, name: row.name, reason: 'secret_gone' };
  return taken.has(row.name) ? { tool_id: toolId, name: row.name, reason: 'name_taken' } : null;
}

const snapshotOf = (row: Tool): ToolSnapshot => ({
  id: row.id,
  name: row.name,
  type: row.type,
  description: row.description,
  parameters: row.parameters,
  method: row.execute?.method ?? null,
  timeoutMs: row.execute === null ? null : row.execute.timeout_seconds * 1000,
  execute: row.execute,
});

/**
 * What is wrong with the arguments of a call, as one text for the model; null when they fit the schema.
 * @throws ProgramsBusyError when too many checks wait; asking again is safe
 */
export async function validateArguments(parameters: Record<string, unknown>, args: unknown): Promise<string | null> {
  try {
    const checked = await programs().validate(parameters, args);
    if (checked.ok) return null;
    const faults = checked.errors.map(({ path, message }) => `${path === '' ? 'the arguments' : path} ${message}`);
    return `The arguments do not fit the tool's parameters: ${faults.join('; ')}`;
  } catch (error) {
    if (error instanceof ProgramLimitError) return `The arguments could not be checked: ${error.message}`;
    if (error instanceof ProgramSchemaError)
      return "The arguments could not be checked: the tool's parameters are no usable schema";
    throw error;
  }
}
