import { ProgramLimitError, ProgramSchemaError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { missingSecrets } from '../secrets/service';
import { secretsNamedBy } from './filling';
import type { OpenInlineTool } from './fields';
import { findTools } from './service';
import { agentInlineSnapshotOf, snapshotOf } from './snapshot';
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

/** What an agent binds: a tool of the project, or one that stands in its configuration. */
export type ToolBinding = { tool_id: string } | { tool: OpenInlineTool; credentials_id?: string | undefined };

/** What tells a bound tool from the others of its agent: the id of a stored one, the place of an inline one. */
export const bindingKey = (binding: ToolBinding, index: number): string =>
  'tool' in binding ? `inline:${String(index)}` : binding.tool_id;

/**
 * The tools of a turn in the order of their bindings, the mcp tools whose servers the run has to ask, and those that cannot
 * be had: deleted ones, ones whose secret is gone, and ones renamed to a name that an earlier one has. Resolved once a
 * turn. Spec: Tools, resolution.
 */
export async function toolSurface(projectId: string, bindings: ToolBinding[]): Promise<ToolSurface> {
  const bound = await boundSnapshots(projectId, bindings);
  const named = bound.flatMap(({ tool }) => (tool === null ? [] : secretsNamedBy(tool)));
  const missing = new Set(await missingSecrets(projectId, [...new Set(named)]));
  const taken = new Set<string>();
  const surface: ToolSurface = { tools: [], unresolved: [], unavailable: [] };
  for (const { key, tool } of bound) {
    const refused = refusalOf(key, tool, { missing, taken });
    if (refused !== null) surface.unavailable.push(refused);
    if (refused !== null || tool === null) continue;
    if (tool.type === 'mcp') {
      const { name, inline } = tool;
      surface.unresolved.push({ tool_id: key, name, ...(inline === true ? { tool } : {}) });
    } else {
      taken.add(tool.name);
      surface.tools.push(tool);
    }
  }
  return surface;
}

interface BoundSnapshot {
  key: string;
  /** Null when the tool is deleted. */
  tool: ToolSnapshot | null;
}

async function boundSnapshots(projectId: string, bindings: ToolBinding[]): Promise<BoundSnapshot[]> {
  const ids = bindings.flatMap((binding) => ('tool' in binding ? [] : [binding.tool_id]));
  const rows = new Map((await findTools(projectId, ids)).map((row) => [row.id, row]));
  return bindings.map((binding, index) => {
    const key = bindingKey(binding, index);
    if ('tool' in binding) return { key, tool: agentInlineSnapshotOf(key, binding) };
    const row = rows.get(key);
    return { key, tool: row === undefined ? null : snapshotOf(row) };
  });
}

/** A tool of the project as a call uses it, or null when there is none; of an mcp tool without its remote tools. */
export async function findSnapshot(projectId: string, toolId: string): Promise<ToolSnapshot | null> {
  const [row] = await findTools(projectId, [toolId]);
  return row === undefined ? null : snapshotOf(row);
}

/** The name of an mcp tool is a prefix and takes none: its remote tools are named when they are known. */
function refusalOf(
  key: string,
  tool: ToolSnapshot | null,
  { missing, taken }: { missing: Set<string>; taken: Set<string> },
): UnavailableTool | null {
  if (tool === null) return { tool_id: key, reason: 'deleted' };
  const { name, type } = tool;
  if (secretsNamedBy(tool).some((id) => missing.has(id))) return { tool_id: key, name, reason: 'secret_gone' };
  return type !== 'mcp' && taken.has(name) ? { tool_id: key, name, reason: 'name_taken' } : null;
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
