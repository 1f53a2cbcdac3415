import type { LanguageModelV3CallOptions } from '@ai-sdk/provider';
import type { ToolSnapshot } from '../tools/resolve';
import type { StoredCall, Turn } from './turn';

/** Pure: how the configuration of an agent steers the steps of a turn. */

/** What a step lets the model do. */
export type ToolChoice = 'auto' | 'required' | { type: 'tool'; tool_name: string };

/** In place of what holds for the other steps; steps are counted from 1. */
export interface StepRule {
  step: number;
  tool_choice?: ToolChoice | undefined;
  active_tool_ids?: string[] | undefined;
}

/** The steering part of a turn, as it was resolved with it. */
export interface Steering {
  toolChoice: ToolChoice | null;
  /** Names of tools whose call ends the turn. */
  stopTools: string[];
  stepRules: StepRule[];
  /** The bound tools the model sees; empty = all. */
  activeToolIds: string[];
}

const FREE: Steering = { toolChoice: null, stopTools: [], stepRules: [], activeToolIds: [] };

const ruleOf = ({ stepRules }: Steering, step: number): StepRule | undefined =>
  stepRules.find((rule) => rule.step === step);

/** The tools that the model sees at a step; inline ones are always among them. */
export function offeredTools({ tools, steering = FREE }: Turn, step: number): ToolSnapshot[] {
  const active = ruleOf(steering, step)?.active_tool_ids ?? steering.activeToolIds;
  return active.length === 0 ? tools : tools.filter(({ id, inline }) => inline === true || active.includes(id));
}

/** The choice that holds at a step; a tool that is forced and cannot be offered is named as missing. */
export function choiceAt(
  turn: Turn,
  step: number,
): { toolChoice: LanguageModelV3CallOptions['toolChoice'] } | { missing: string } {
  const { steering = FREE } = turn;
  const choice = ruleOf(steering, step)?.tool_choice ?? steering.toolChoice ?? 'auto';
  if (typeof choice === 'string') return { toolChoice: { type: choice } };
  const offered = offeredTools(turn, step).some(({ name }) => name === choice.tool_name);
  return offered ? { toolChoice: { type: 'tool', toolName: choice.tool_name } } : { missing: choice.tool_name };
}

/** Whether a call of this step ends the turn. */
export const stopsAfter = ({ steering = FREE }: Turn, calls: Pick<StoredCall, 'toolName'>[]): boolean =>
  calls.some(({ toolName }) => steering.stopTools.includes(toolName));
