import { ProgramLimitError, ProgramSchemaError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { missingSecrets } from '../secrets/service';
import type { Tool } from './models';
import { findTools } from './service';
import { snapshotOf } from './snapshot';
import type { ToolSnapshot, UnresolvedMcpTool } from './snapshot';

export type { ToolSnapshot, UnresolvedMcpTool } from './snapshot';

/** A bound tool that a turn goes without. */
export interface UnavailableTool {
  tool_id: string;
  /** Absent when the tool is deleted. */
  name?: string;
  reason: 'deleted' | 'secret_gone' | 'name_taken';
}

/** The tools of a turn, as far as the rows tell. */
export interface ToolSurface {
  /** In the order of their bindings. */
  tools: ToolSnapshot[];
  /** Tools whose server has to be asked first, in the order of their bindings. */
  unresolved: UnresolvedMcpTool[];
  unavailable: UnavailableTool[];
}

/**
 * The tools of a turn in the order of their bindings, the mcp tools whose servers the run has to ask, and those that cannot
 * be had: deleted ones, ones whose secret is gone, and ones renamed to a name that an earlier one has. Resolved once a
 * turn. Spec: Tools, resolution.
 */
export async function toolSurface(projectId: string, toolIds: string[]): Promise<ToolSurface> {
  const rows = new Map((await findTools(projectId, toolIds)).map((row) => [row.id, row]));
  const named = [...rows.values()].flatMap((row) => row.secretIds);
  const missing = new Set(await missingSecrets(projectId, [...new Set(named)]));
  const taken = new Set<string>();
  const surface: ToolSurface = { tools: [], unresolved: [], unavailable: [] };
  for (const toolId of toolIds) {
    const row = rows.get(toolId);
    const refused = refusalOf(toolId, row, { missing, taken });
    if (refused !== null) surface.unavailable.push(refused);
    if (refused !== null || row === undefined) continue;
    if (row.type === 'mcp') surface.unresolved.push({ tool_id: row.id, name: row.name });
    else {
      taken.add(row.name);
      surface.tools.push(snapshotOf(row));
    }
  }
  return surface;
}

/** A tool of the project as a call uses it, or null when there is none; of an mcp tool without its remote tools. */
export async function findSnapshot(projectId: string, toolId: string): Promise<ToolSnapshot | null> {
  const [row] = await findTools(projectId, [toolId]);
  return row === undefined ? null : snapshotOf(row);
}

/** The name of an mcp tool is a prefix and takes none: its remote tools are named when they are known. */
function refusalOf(
  toolId: string,
  row: Tool | undefined,
  { missing, taken }: { missing: Set<string>; taken: Set<string> },
): UnavailableTool | null {
  if (row === undefined) return { tool_id: toolId, reason: 'deleted' };
  if (row.secretIds.some((id) => missing.has(id))) return { tool_id: toolId, name: row.name, reason: 'secret_gone' };
  const isTaken = row.type !== 'mcp' && taken.has(row.name);
  return isTaken ? { tool_id: toolId, name: row.name, reason: 'name_taken' } : null;
}

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
