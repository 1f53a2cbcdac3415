import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { OpenInlineTool } from './fields';
import type { DescribedTool, Execute, InlineTool, Mcp, Pipeline, Tool } from './models';
import type { ToolOut } from './schemas';

type Shown = z.output<typeof ToolOut>;

/** A tool as the API shows it: credentials written out stand as `{"no_echo": true}` in the row already. */
export const presentTool = (row: Attributes<Tool>): Shown => ({
  id: row.id,
  project_id: row.projectId,
  ...presentDescribed(row),
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** What makes a tool, with or without a record of its own. */
export const presentDescribed = (tool: Omit<DescribedTool, 'id'>): OpenInlineTool => ({
  name: tool.name,
  type: tool.type,
  description: tool.description,
  parameters: tool.parameters,
  execute: tool.execute === null ? null : presentExecute(tool.execute),
  mcp: tool.mcp === null ? null : presentMcp(tool.mcp),
  actions: tool.actions,
  denied_actions: tool.deniedActions,
  preset_parameters: tool.presetParameters,
  context_keys: tool.contextKeys,
  pipeline: tool.pipeline === null ? null : presentPipeline(tool.pipeline),
  output_mapping: tool.outputMapping ?? null,
  guardrail_ids: null,
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
