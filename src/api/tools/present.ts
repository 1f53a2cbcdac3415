import type { z } from 'zod';
import type { Execute, InlineTool, Mcp, Pipeline, Tool } from './models';
import type { ToolOut } from './schemas';

type Shown = z.output<typeof ToolOut>;

/** A tool as the API shows it: credentials written out stand as `{"no_echo": true}` in the row already. */
export const presentTool = (row: Tool): Shown => ({
  id: row.id,
  project_id: row.projectId,
  name: row.name,
  type: row.type,
  description: row.description,
  parameters: row.parameters,
  execute: row.execute === null ? null : presentExecute(row.execute),
  mcp: row.mcp === null ? null : presentMcp(row.mcp),
  actions: row.actions,
  denied_actions: row.deniedActions,
  preset_parameters: row.presetParameters,
  context_keys: row.contextKeys,
  pipeline: row.pipeline === null ? null : presentPipeline(row.pipeline),
  output_mapping: row.outputMapping ?? null,
  guardrail_ids: null,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
});

const presentExecute = (execute: Execute): NonNullable<Shown['execute']> => ({
  url: execute.url,
  method: execute.method,
  headers: execute.headers,
  body_mode: execute.body_mode,
  timeout_seconds: execute.timeout_seconds,
  auth: execute.auth ?? null,
});

const presentMcp = (mcp: Mcp): NonNullable<Shown['mcp']> => ({ url: mcp.url, headers: mcp.headers });

const presentPipeline = ({ steps, output }: Pipeline): NonNullable<Shown['pipeline']> => ({
  steps: steps.map(({ id, tool_id, tool, action, input }) => ({
    id,
    ...(tool_id === undefined ? {} : { tool_id }),
    ...(tool === undefined ? {} : { tool: presentInline(tool) }),
    ...(action === undefined ? {} : { action }),
    input,
  })),
  ...(output === undefined ? {} : { output }),
});

/** Shows what was given; the rest has its defaults. */
const presentInline = (tool: InlineTool): NonNullable<NonNullable<Shown['pipeline']>['steps'][number]['tool']> => ({
  ...(tool.name === undefined ? {} : { name: tool.name }),
  type: tool.type,
  ...(tool.description === undefined ? {} : { description: tool.description }),
  ...(tool.parameters === undefined ? {} : { parameters: tool.parameters }),
  ...(tool.execute == null ? {} : { execute: presentExecute(tool.execute) }),
  ...(tool.mcp == null ? {} : { mcp: presentMcp(tool.mcp) }),
  ...(tool.actions === undefined ? {} : { actions: tool.actions }),
  ...(tool.denied_actions === undefined ? {} : { denied_actions: tool.denied_actions }),
  ...(tool.preset_parameters === undefined ? {} : { preset_parameters: tool.preset_parameters }),
  ...(tool.context_keys === undefined ? {} : { context_keys: tool.context_keys }),
  ...(tool.output_mapping === undefined ? {} : { output_mapping: tool.output_mapping }),
});
