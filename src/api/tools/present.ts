import type { z } from 'zod';
import type { Tool } from './models';
import type { ToolOut } from './schemas';

/** A tool as the API shows it: credentials written out in headers stand as `{"no_echo": true}` in the row already. */
export const presentTool = (row: Tool): z.output<typeof ToolOut> => ({
  id: row.id,
  project_id: row.projectId,
  name: row.name,
  type: row.type,
  description: row.description,
  parameters: row.parameters,
  execute:
    row.execute === null
      ? null
      : {
          url: row.execute.url,
          method: row.execute.method,
          headers: row.execute.headers,
          body_mode: row.execute.body_mode,
          timeout_seconds: row.execute.timeout_seconds,
          auth: null,
        },
  mcp: null,
  actions: null,
  denied_actions: null,
  preset_parameters: null,
  context_keys: null,
  pipeline: null,
  output_mapping: null,
  guardrail_ids: null,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
});
