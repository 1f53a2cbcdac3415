import type { Tx } from '../core/db';
import { ApiError, invalidInput } from '../core/errors';
import type { BoundTool } from '../tools/service';
import { boundTools } from '../tools/service';
import type { AgentConfig } from './schemas';

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
 * @throws TOOL_NOT_FOUND, VALIDATION_FAILED
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
  const bound = bindingsOf(result);
  const found = await boundTools(projectId, [...new Set([...bound, ...active].map(({ value }) => value))], tx);
  if (rebound) assertBindings(bound, found);
  assertActive(active, found, new Set(bound.map(({ value }) => value)));
  assertNames(names, bound, found);
}

const at = (list: string, index: number): string => `${list}.${String(index)}`;

const bindingsOf = ({ tool_bindings: bindings }: AgentConfig): Named[] =>
  (bindings ?? []).map(({ tool_id: value }, index) => ({ path: `${at('tool_bindings', index)}.tool_id`, value }));

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
function assertBindings(bound: Named[], found: ReadonlyMap<string, BoundTool>): void {
  const ids = new Set<string>();
  const names = new Set<string>();
  for (const { path, value } of bound) {
    const tool = found.get(value);
    if (tool === undefined) throw unknownTool(path);
    if (ids.has(value) || (!namesFollow(tool) && names.has(tool.name))) {
      throw invalidInput('VALIDATION_FAILED', path, `is a second tool with the name ${tool.name}`);
    }
    ids.add(value);
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
function assertNames(names: Named[], bound: Named[], found: ReadonlyMap<string, BoundTool>): void {
  const tools = bound.map(({ value }) => found.get(value));
  if (tools.includes(undefined)) return;
  const fits = (name: string) => (tool: BoundTool | undefined) =>
    tool !== undefined && (namesFollow(tool) ? name.startsWith(`${tool.name}_`) : name === tool.name);
  for (const { path, value } of names) {
    if (tools.some(fits(value))) continue;
    throw invalidInput('VALIDATION_FAILED', path, 'is not the name of a tool that the agent binds');
  }
}
