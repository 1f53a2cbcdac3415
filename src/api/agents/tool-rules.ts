import type { Tx } from '../core/db';
import { ApiError, invalidInput } from '../core/errors';
import { assertInlineNamed } from '../tools/inline';
import type { BoundTool } from '../tools/service';
import { boundTools } from '../tools/service';
import { bindingPath } from './bindings';
import type { AgentConfig } from './schemas';
import { toolIdsOf } from './writes';

/** A name or an id that a configuration gives, and where it stands. */
interface Named {
  path: string;
  value: string;
}

/**
 * Checks the tools that a write names, by id and by the name that the model sees, and holds them until the transaction
 * ends. What is not given is looked at only where the bindings change: a tool that was deleted by force, or renamed,
 * since does not keep an agent from being changed elsewhere.
 * Spec: Agents, `active_tool_ids`, `stop_conditions`; Tools, names the model sees.
 * @throws TOOL_NOT_FOUND, VALIDATION_FAILED, SECRET_NOT_FOUND, PIPELINE_INVALID_STEP
 */
export async function assertTools(
  projectId: string,
  { given, result }: { given: Partial<AgentConfig>; result: AgentConfig },
  tx: Tx,
): Promise<void> {
  const rebound = given.tool_bindings !== undefined;
  const looked = rebound ? result : given;
  const active = activeIdsOf(looked);
  const names = namesOf(looked);
  if (!rebound && active.length === 0 && names.length === 0) return;
  const ids = [...toolIdsOf(result), ...active.map(({ value }) => value)];
  const found = await boundTools(projectId, [...new Set(ids)], tx);
  const bound = bindingsOf(result, found);
  if (rebound) {
    assertBindings(bound);
    await assertInlineTools(projectId, result, tx);
  }
  assertActive(active, found, new Set(toolIdsOf(result)));
  assertNames(names, bound);
}

/** A tool that a configuration binds, and where. */
interface Bound {
  path: string;
  /** Null for an inline one. */
  id: string | null;
  /** Undefined when there is none. */
  tool: BoundTool | undefined;
}

const at = (list: string, index: number): string => `${list}.${String(index)}`;

const bindingsOf = ({ tool_bindings: bindings }: AgentConfig, found: ReadonlyMap<string, BoundTool>): Bound[] =>
  (bindings ?? []).map((binding, index) =>
    'tool' in binding
      ? { path: `${bindingPath(index)}.tool`, id: null, tool: binding.tool }
      : { path: `${bindingPath(index)}.tool_id`, id: binding.tool_id, tool: found.get(binding.tool_id) },
  );

/** What inline tools name has to be there, like what stored ones name. */
async function assertInlineTools(projectId: string, { tool_bindings: bindings }: AgentConfig, tx: Tx): Promise<void> {
  for (const [index, binding] of (bindings ?? []).entries()) {
    if (!('tool' in binding)) continue;
    await assertInlineNamed(projectId, { tool: binding.tool, path: `${bindingPath(index)}.tool` }, tx);
  }
}

function activeIdsOf({ active_tool_ids: ids, step_rules: rules }: Partial<AgentConfig>): Named[] {
  const listed = (list: string, values: string[] = []): Named[] =>
    values.map((value, index) => ({ path: at(list, index), value }));
  return [
    ...listed('active_tool_ids', ids ?? []),
    ...(rules ?? []).flatMap((rule, index) =>
      listed(`${at('step_rules', index)}.active_tool_ids`, rule.active_tool_ids),
    ),
  ];
}

/** Names of tools in choices and stop conditions. */
function namesOf({
  tool_choice: choice,
  stop_conditions: conditions,
  step_rules: rules,
}: Partial<AgentConfig>): Named[] {
  const chosen = (path: string, given: AgentConfig['tool_choice'] | undefined): Named[] =>
    typeof given === 'object' && given !== null ? [{ path: `${path}.tool_name`, value: given.tool_name }] : [];
  return [
    ...chosen('tool_choice', choice),
    ...(conditions ?? []).flatMap((condition, index) =>
      condition.type === 'has_tool_call'
        ? [{ path: `${at('stop_conditions', index)}.tool_name`, value: condition.tool_name }]
        : [],
    ),
    ...(rules ?? []).flatMap((rule, index) => chosen(`${at('step_rules', index)}.tool_choice`, rule.tool_choice)),
  ];
}

const unknownTool = (path: string): ApiError =>
  new ApiError('TOOL_NOT_FOUND', `${path} names no tool of this project.`, {
    details: [{ path, message: 'names no tool of this project' }],
  });

/** Each bound tool exists and is bound once, and no two of those whose names are known here have one name. */
function assertBindings(bound: Bound[]): void {
  const ids = new Set<string>();
  const names = new Set<string>();
  for (const { path, id, tool } of bound) {
    if (tool === undefined) throw unknownTool(path);
    if ((id !== null && ids.has(id)) || (!namesFollow(tool) && names.has(tool.name))) {
      throw invalidInput('VALIDATION_FAILED', path, `is a second tool with the name ${tool.name}`);
    }
    if (id !== null) ids.add(id);
    if (!namesFollow(tool)) names.add(tool.name);
  }
}

function assertActive(active: Named[], found: ReadonlyMap<string, BoundTool>, bound: ReadonlySet<string>): void {
  for (const { path, value } of active) {
    if (!found.has(value)) throw unknownTool(path);
    if (!bound.has(value)) throw invalidInput('VALIDATION_FAILED', path, 'is not a tool that the agent binds');
  }
}

/** The names of an mcp server's tools are known once it has been asked: its own name is their prefix. */
const namesFollow = ({ type }: BoundTool): boolean => type === 'mcp';

/** Names that a bound tool is known to have; where one of them is gone, any name may have been its own. */
function assertNames(names: Named[], bound: Bound[]): void {
  const tools = bound.map(({ tool }) => tool);
  if (tools.includes(undefined)) return;
  const fits = (name: string) => (tool: BoundTool | undefined) =>
    tool !== undefined && (namesFollow(tool) ? name.startsWith(`${tool.name}_`) : name === tool.name);
  for (const { path, value } of names) {
    if (tools.some(fits(value))) continue;
    throw invalidInput('VALIDATION_FAILED', path, 'is not the name of a tool that the agent binds');
  }
}
