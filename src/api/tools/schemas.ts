import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { newToolFields, shownToolFields, toolFields } from './fields';

export const ToolCreate = z.strictObject(newToolFields).meta({ id: 'ToolCreate' });

export const ToolUpdate = z.strictObject(toolFields).partial().meta({ id: 'ToolUpdate' });

export const ToolOut = z
  .strictObject({
    id: idOf('tool'),
    project_id: z.string().meta({ description: 'Project of the tool' }),
    ...shownToolFields,
    created_at: z.iso.datetime().meta({ description: 'When it was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When it last changed' }),
  })
  .meta({ id: 'Tool' });

export const ToolPage = offsetPage(ToolOut).meta({ id: 'ToolPage' });

export const ToolParams = z.strictObject({ tool_id: idOf('tool') });

export const ToolListQuery = OffsetQuery;

export const ToolDeleteQuery = z.strictObject({
  force: booleanText(false).meta({
    description: 'Delete although agents bind it: their bindings stay and resolve to nothing',
  }),
});

export const ToolCall = z
  .strictObject({
    input: z.record(z.string(), z.unknown()).default({}).meta({ description: 'Arguments of the tool' }),
    action: z.string().min(1).optional().meta({ description: 'Remote tool to call, for mcp tools' }),
    tool_context: z
      .record(z.string(), z.string())
      .optional()
      .meta({
        description: 'Keys that go with the call as `X-Svc-Context-<key>`; those the service sets itself are dropped',
        example: { tenant: 'acme' },
      }),
  })
  .meta({ id: 'ToolCall' });

export const ToolCallResult = z
  .unknown()
  .meta({ id: 'ToolCallResult', description: 'What the tool gave: any JSON, null when nothing' });
