import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { InlineTool, InlineToolOut } from '../tools/fields';
import type { GivenBinding, StoredBinding } from './bindings';
import { KnowledgeConfig } from './knowledge';
import { isJsonObject } from './output-schema';
import type { JsonObject } from './output-schema';
import { BINDINGS_MAX, STEPS_MAX, steeringFields } from './steering';

const INSTRUCTIONS_CHARACTERS_MAX = 100_000;
const STEPS_DEFAULT = 20;
/** Versions and counts are 32-bit integers in the database. */
const INTEGER_MAX = 2_147_483_647;

const NOT_SERVED = 'not served by this build';
const UNSERVED = `is ${NOT_SERVED}`;

const onlyNull = (description: string) =>
  z.null({ error: UNSERVED }).meta({ description: `${description}; ${NOT_SERVED}` });

const text = (charactersMax: number) => z.string().max(charactersMax);

const ToolBinding = z
  .strictObject({
    tool_id: z.string().nullable().optional().meta({ description: 'A tool of this project; excludes `tool`' }),
    tool: InlineTool.nullable().optional().meta({
      description: 'A tool that this agent has for itself, always active; excludes `tool_id`',
    }),
  })
  .transform(({ tool_id: id, tool }, context): GivenBinding => {
    if (id != null && tool == null) return { tool_id: id };
    if (id == null && tool != null) return { tool };
    context.addIssue({ code: 'custom', message: 'must have either tool_id or tool' });
    return z.NEVER;
  });

/** The fields of a configuration, without defaults; what a create or an update makes of an absent one is said there. */
const fields = {
  ai_provider_id: z.string().nullable().meta({ description: 'Provider of this project that runs the model' }),
  model_route_id: z.string().nullable().meta({ description: 'Model route; this build has none' }),
  name: text(255).min(1).nullable().meta({ description: 'Label, 1 to 255 characters; not unique', example: 'support' }),
  instructions: text(INSTRUCTIONS_CHARACTERS_MAX).nullable().meta({ description: 'The only system prompt' }),
  model: text(255)
    .min(1)
    .nullable()
    .meta({ description: 'The vendor’s model id; null = the provider’s default model' }),
  tool_bindings: z
    .array(ToolBinding)
    .max(BINDINGS_MAX)
    .nullable()
    .meta({
      description: 'Tools the agent has; two of them may not have one name',
      example: [{ tool_id: 'tool_V1StGXR8Z5jdHi6B' }],
    }),
  max_steps: z.int().min(1).max(STEPS_MAX).meta({ description: 'Model calls of one generation, 1 to 100' }),
  ...steeringFields,
  temperature: z
    .number()
    .min(0)
    .max(2)
    .nullable()
    .meta({ description: 'Sampling temperature; null = the model’s own' }),
  max_context_messages: z.int().min(1).max(INTEGER_MAX).nullable().meta({
    description: 'Newest messages that are sent to the model; null = all',
  }),
  output_schema: z.unknown().meta({
    type: ['object', 'null'],
    description: 'JSON Schema of the output of a turn, at most 64 KiB and without references outside itself',
    example: { type: 'object', required: ['answer'], properties: { answer: { type: 'string' } } },
  }),
  knowledge_config: KnowledgeConfig.nullable().meta({ description: 'Search before every generation' }),
  guardrail_ids: z
    .array(z.string())
    .nullable()
    .meta({ description: 'Guardrails over tool calls; this build has none' }),
  boundary_policy: onlyNull('Limits of platform actions'),
  single_session_per_actor: z.boolean().meta({ description: 'One open session for each actor' }),
  trace_content_mode: z
    .enum(['full', 'none'])
    .nullable()
    .meta({ description: 'Whether runs and traces keep content; null = as the project does' }),
  on_approval_expiry: z.enum(['terminate', 'react']).nullable().meta({
    description: 'What happens to a chain when a held call expires; null = terminate',
  }),
  prompt_caching: z
    .strictObject({ enabled: z.boolean().meta({ description: 'Marks the prefix that does not change' }) })
    .nullable()
    .meta({ description: 'Caching of the prompt by providers that do it on request' }),
};

const versionLabel = text(255).min(1).nullable().optional().meta({
  description: 'Label of the version that this write archives',
});

const expectedVersion = z.int().min(1).max(INTEGER_MAX).optional().meta({
  description: 'Refuse the write unless this is the live version; the same as the header If-Match',
});

export const AgentCreate = z
  .strictObject({
    ...fields,
    ai_provider_id: fields.ai_provider_id.default(null),
    model_route_id: fields.model_route_id.default(null),
    name: fields.name.default(null),
    instructions: fields.instructions.default(null),
    model: fields.model.default(null),
    tool_bindings: fields.tool_bindings.default(null),
    active_tool_ids: fields.active_tool_ids.default(null),
    max_steps: fields.max_steps.default(STEPS_DEFAULT),
    tool_choice: fields.tool_choice.default('auto'),
    stop_conditions: fields.stop_conditions.default(null),
    step_rules: fields.step_rules.default(null),
    temperature: fields.temperature.default(null),
    max_context_messages: fields.max_context_messages.default(null),
    output_schema: fields.output_schema.default(null),
    knowledge_config: fields.knowledge_config.default(null),
    guardrail_ids: fields.guardrail_ids.default(null),
    boundary_policy: fields.boundary_policy.default(null),
    single_session_per_actor: fields.single_session_per_actor.default(false),
    trace_content_mode: fields.trace_content_mode.default(null),
    on_approval_expiry: fields.on_approval_expiry.default(null),
    prompt_caching: fields.prompt_caching.default(null),
    version_label: versionLabel,
  })
  .meta({ id: 'AgentCreate' });

export const AgentUpdate = z
  .strictObject({
    ...z.strictObject(fields).partial().shape,
    version_label: versionLabel,
    expected_version: expectedVersion,
  })
  .meta({ id: 'AgentUpdate' });

/** A configuration as agents and versions show it: every field, as it stands. */
export const AgentConfigOut = z
  .strictObject({
    ...fields,
    tool_bindings: z
      .array(
        z.union([
          z.strictObject({ tool_id: z.string().meta({ description: 'Tool of the project' }) }),
          z.strictObject({ tool: InlineToolOut.meta({ description: 'Tool of this agent alone' }) }),
        ]),
      )
      .nullable()
      .meta({ description: 'Tools the agent has' }),
    output_schema: z
      .custom<JsonObject>(isJsonObject)
      .nullable()
      .meta({ type: ['object', 'null'], description: 'JSON Schema of the output of a turn, as it was sent' }),
  })
  .meta({ id: 'AgentConfig' });

export const VersionRestore = z
  .strictObject({
    label: versionLabel.meta({ description: 'Label of the version that is made; `restored from v<n>` when absent' }),
    expected_version: expectedVersion,
  })
  .meta({ id: 'AgentVersionRestore' });

export const AgentOut = z
  .strictObject({
    id: idOf('agent'),
    project_id: z.string().meta({ description: 'Project of the agent' }),
    ...AgentConfigOut.shape,
    version: z.int().meta({ description: 'The live version; starts at 1' }),
    active_release: z.null().meta({ description: 'Staged rollout; not served by this build' }),
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When its configuration last changed' }),
  })
  .meta({ id: 'Agent' });

export const AgentPage = offsetPage(AgentOut).meta({ id: 'AgentPage' });

export const AgentVersionOut = z
  .strictObject({
    id: idOf('agentVersion'),
    agent_id: z.string().meta({ description: 'Agent' }),
    version: z.int().meta({ description: 'Number of the version' }),
    config: AgentConfigOut,
    label: z.string().nullable().meta({ description: 'Label given by the write' }),
    eval_run_id: z.string().nullable().meta({ description: 'Run that cleared the gate of its promotion' }),
    created_by: z.string().nullable().meta({ description: 'User who made it' }),
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
  })
  .meta({ id: 'AgentVersion' });

export const AgentVersionPage = offsetPage(AgentVersionOut).meta({ id: 'AgentVersionPage' });

export const AgentParams = z.strictObject({ agent_id: idOf('agent') });

export const AgentVersionParams = z.strictObject({
  agent_id: idOf('agent'),
  version: z
    .string()
    .refine((given) => /^0*[1-9]\d*$/.test(given), 'must be a positive integer')
    .transform(Number)
    .meta({ description: 'Number of the version', example: '1' }),
});

export const AgentListQuery = OffsetQuery;

export const AgentDeleteQuery = z.strictObject({
  force: booleanText(false).meta({
    description: 'Delete although it ran: its runs are cancelled, and its generations and traces go with it',
  }),
});

/** A configuration as the API shows it. */
export type ShownConfig = z.output<typeof AgentConfigOut>;

/** A configuration, as it is archived: the fields of the API under their names there. */
export type AgentConfig = Omit<ShownConfig, 'tool_bindings'> & { tool_bindings: StoredBinding[] | null };

/** Every field as it is when nobody gives it: what an archive of an older build did not set. */
export const CONFIG_DEFAULTS: AgentConfig = { ...AgentConfigOut.parse(AgentCreate.parse({})), tool_bindings: null };

/** A configuration as a body gives it: whether its schema is one is not known yet, and inline tools hold credentials. */
export type Unchecked<Config> = Omit<Config, 'output_schema' | 'tool_bindings'> & {
  output_schema?: unknown;
  tool_bindings?: GivenBinding[] | null | undefined;
};
