import { z } from 'zod';
import { ApiError } from '../core/errors';

export const STEPS_MAX = 100;
export const BINDINGS_MAX = 128;
const STOP_CONDITIONS_MAX = 128;
/** A tool's name has at most 64 characters; behind it may stand the name that a remote server gives. */
const TOOL_NAME_CHARACTERS_MAX = 255;
/** Counts are 32-bit integers in the database. */
const INTEGER_MAX = 2_147_483_647;

const toolName = z
  .string()
  .min(1)
  .max(TOOL_NAME_CHARACTERS_MAX)
  .meta({ description: 'Name of a tool as the model sees it', example: 'approve_refund' });

/** What a step lets the model do: as it likes, call some tool, or call this one. */
export const ToolChoice = z
  .union(
    [
      z.enum(['auto', 'required']),
      z.strictObject({
        type: z.literal('tool').meta({ description: 'One tool is forced' }),
        tool_name: toolName,
      }),
    ],
    { error: 'must be auto, required or {"type": "tool", "tool_name": …}' },
  )
  .meta({ id: 'ToolChoice' });

export const StopCondition = z
  .discriminatedUnion(
    'type',
    [
      z.strictObject({
        type: z.literal('has_tool_call').meta({ description: 'Ends the turn after the step that calls the tool' }),
        tool_name: toolName,
      }),
      z.strictObject({
        type: z.literal('max_chain_generations').meta({ description: 'Refuses to continue a chain beyond its length' }),
        max_generations: z.int().min(1).max(INTEGER_MAX).meta({ description: 'Generations a chain may hold' }),
      }),
    ],
    { error: 'must be has_tool_call or max_chain_generations' },
  )
  .meta({ id: 'StopCondition' });

const activeToolIds = z.array(z.string()).max(BINDINGS_MAX);

export const StepRule = z
  .strictObject({
    step: z.int().min(1).max(STEPS_MAX).meta({ description: 'Number of the step, from 1' }),
    tool_choice: ToolChoice.optional().meta({ description: 'In place of that of the agent' }),
    active_tool_ids: activeToolIds.optional().meta({
      description: 'In place of those of the agent; an empty list = all bound tools',
    }),
  })
  .meta({ id: 'StepRule' });

/** Fields of a configuration that steer the steps of a turn. */
export const steeringFields = {
  active_tool_ids: activeToolIds.nullable().meta({
    description: 'The bound tools the model sees at every step; null or an empty list = all',
  }),
  tool_choice: ToolChoice.nullable().meta({ description: 'What the model may do; null = auto' }),
  stop_conditions: z
    .array(StopCondition)
    .max(STOP_CONDITIONS_MAX)
    .nullable()
    .meta({
      description: 'What stops a turn, or the continuation of a chain',
      example: [{ type: 'has_tool_call', tool_name: 'approve_refund' }],
    }),
  step_rules: z
    .array(StepRule)
    .max(STEPS_MAX)
    .superRefine((rules, context) => {
      const seen = new Set<number>();
      for (const [index, { step }] of rules.entries()) {
        if (seen.has(step)) {
          context.addIssue({ code: 'custom', message: 'is the second rule of its step', path: [index, 'step'] });
        }
        seen.add(step);
      }
    })
    .nullable()
    .meta({ description: 'Rules of single steps, one a step', example: [{ step: 1, tool_choice: 'required' }] }),
};

/** The part of a configuration that steers. */
export interface Steering {
  active_tool_ids: string[] | null;
  tool_choice: z.output<typeof ToolChoice> | null;
  stop_conditions: z.output<typeof StopCondition>[] | null;
  step_rules: z.output<typeof StepRule>[] | null;
}

/**
 * Refuses a configuration whose model must call a tool at every step and that no tool call stops: it would run to its
 * last step each time. Rules of single steps are no part of it, since the next step is free again.
 * Spec: Agents, `tool_choice`. @throws FORCED_TOOL_CHOICE_CANNOT_STOP
 */
export function assertCanStop({ tool_choice: choice, stop_conditions: conditions }: Steering): void {
  if (choice === null || choice === 'auto') return;
  if ((conditions ?? []).some(({ type }) => type === 'has_tool_call')) return;
  throw new ApiError(
    'FORCED_TOOL_CHOICE_CANNOT_STOP',
    'tool_choice forces a tool call at every step, and stop_conditions has no has_tool_call that ends the turn.',
    { details: [{ path: 'tool_choice', message: 'needs a has_tool_call among stop_conditions' }] },
  );
}
