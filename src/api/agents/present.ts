import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { Agent, AgentVersion } from './models';
import type { StoredBinding } from './bindings';
import type { AgentConfig, AgentOut, AgentVersionOut, ShownConfig } from './schemas';

/** Where the credentials of an inline tool are kept is not shown. */
const presentBinding = (binding: StoredBinding): NonNullable<ShownConfig['tool_bindings']>[number] =>
  'tool' in binding ? { tool: binding.tool } : { tool_id: binding.tool_id };

/** A configuration field by field, so that what else a stored document may hold is not shown. */
export const presentConfig = (config: AgentConfig): ShownConfig => ({
  ai_provider_id: config.ai_provider_id,
  model_route_id: config.model_route_id,
  name: config.name,
  instructions: config.instructions,
  model: config.model,
  tool_bindings: config.tool_bindings?.map(presentBinding) ?? null,
  active_tool_ids: config.active_tool_ids,
  max_steps: config.max_steps,
  tool_choice: config.tool_choice,
  stop_conditions: config.stop_conditions,
  step_rules: config.step_rules,
  temperature: config.temperature,
  max_context_messages: config.max_context_messages,
  output_schema: config.output_schema,
  knowledge_config: config.knowledge_config,
  guardrail_ids: config.guardrail_ids,
  boundary_policy: config.boundary_policy,
  single_session_per_actor: config.single_session_per_actor,
  trace_content_mode: config.trace_content_mode,
  on_approval_expiry: config.on_approval_expiry,
  prompt_caching: config.prompt_caching,
});

/** An agent as the API shows it. */
export const presentAgent = (row: Attributes<Agent>): z.output<typeof AgentOut> => ({
  id: row.id,
  project_id: row.projectId,
  ...presentConfig(row.config),
  version: row.version,
  active_release: null,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** An archived version as the API shows it. */
export const presentAgentVersion = (row: AgentVersion): z.output<typeof AgentVersionOut> => ({
  id: row.id,
  agent_id: row.agentId,
  version: row.version,
  config: presentConfig(row.config),
  label: row.label,
  eval_run_id: row.evalRunId,
  created_by: row.createdBy,
  created_at: isoTime(row.createdAt),
});
