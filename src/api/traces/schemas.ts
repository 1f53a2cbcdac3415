import { z } from 'zod';
import { OffsetQuery, offsetPage } from '../core/pages';
import { GenerationOut, TranscriptStep } from '../generations/present';

const text = (description: string): z.ZodString => z.string().meta({ description });
const nullableText = (description: string) => z.string().nullable().meta({ description });
const moment = (description: string) => z.iso.datetime().meta({ description });

const TraceErrorOut = z
  .strictObject({
    code: z.string().optional().meta({ description: 'Code of the failure' }),
    message: text('For people'),
    meta: z.record(z.string(), z.unknown()).optional().meta({ description: 'Facts of the failure' }),
  })
  .meta({ id: 'TraceError' });

const fields = {
  id: text('The trace'),
  project_id: text('Project'),
  agent_id: text('Agent of the first generation'),
  step_count: z.int().meta({ description: 'Steps of all its generations; survives a purge' }),
  parent_trace_id: nullableText('Trace of the immediate caller; null = root'),
  root_trace_id: nullableText('Top of the tree; null = this is the root'),
  orchestration_run_id: nullableText('Orchestration run that made it'),
  error: TraceErrorOut.nullable().meta({ description: 'Last failure of a generation in it' }),
  content_redacted_at: z.iso.datetime().nullable().meta({ description: 'When its content was removed' }),
  content_redacted_by_principal_type: nullableText('Who removed it'),
  content_redacted_by_principal_id: nullableText('Its id'),
  created_at: moment('When its first generation was accepted'),
  updated_at: moment('When it last changed'),
};

export const TraceOut = z.strictObject(fields).meta({ id: 'Trace' });

export const TracePage = offsetPage(TraceOut).meta({ id: 'TracePage' });

export const TraceListQuery = OffsetQuery.extend({
  agent_id: z.string().optional().meta({ description: 'Traces of this agent' }),
  root_trace_id: z.string().optional().meta({ description: 'Traces below this root' }),
  has_error: z
    .enum(['true', 'false'])
    .optional()
    .transform((value) => (value === undefined ? undefined : value === 'true'))
    .meta({ description: 'Only traces with an error, or only those without' }),
});

const TraceStep = z
  .strictObject({ generation_id: text('Generation whose turn it belongs to'), ...TranscriptStep.shape })
  .meta({ id: 'TraceStep' });

export const TraceStepPage = z
  .strictObject({
    ...offsetPage(TraceStep).shape,
    data: z.array(TraceStep).meta({ description: 'The steps of this page, in the order in which they were made' }),
  })
  .meta({ id: 'TraceStepPage' });

export const TraceTreeQuery = z.strictObject({
  include: z.enum(['generations']).optional().meta({ description: 'Adds the records of the generations to each node' }),
});

export interface TraceNodeBody extends z.output<typeof TraceOut> {
  children: TraceNodeBody[];
  generations?: z.output<typeof GenerationOut>[] | undefined;
  truncated?: true | undefined;
}

export const TraceNode: z.ZodType<TraceNodeBody> = z
  .strictObject({
    ...fields,
    get children(): z.ZodArray<z.ZodType<TraceNodeBody>> {
      return z.array(TraceNode).meta({ description: 'Traces that its sub-agent calls started, oldest first' });
    },
    generations: z.array(GenerationOut).optional().meta({ description: 'Its turns, oldest first, when asked for' }),
    truncated: z.literal(true).optional().meta({ description: 'On the root: the tree has more than is shown' }),
  })
  .meta({ id: 'TraceNode' });
