import { z } from 'zod';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { generationStatuses } from './models';

const text = (description: string): z.ZodString => z.string().meta({ description });
const nullableText = (description: string) => z.string().nullable().meta({ description });
const moment = (description: string) => z.iso.datetime().nullable().meta({ description });

export const IdempotencyKey = z
  .string()
  .min(1)
  .max(255)
  .meta({ description: 'A repeat with the same key and request starts nothing' });

const ToolOutput = z
  .strictObject({
    type: z.literal('tool_output').meta({ description: 'The tool is called before the first model call' }),
    tool_id: z.string().meta({ description: 'Tool of this project; no client tool' }),
    action: z.string().min(1).max(255).optional().meta({ description: 'Remote tool of an mcp tool' }),
    input: z.record(z.string(), z.unknown()).optional().meta({ description: 'Arguments' }),
    output_path: z.string().min(1).max(4096).optional().meta({
      description: 'jq expression over the result; a plain path needs no leading dot',
      example: 'order.status',
    }),
  })
  .meta({ id: 'ToolOutputContent' });

const DocumentContent = z
  .strictObject({
    type: z.literal('document').meta({ description: 'The text of a document' }),
    document_id: z.string().meta({ description: 'Document; this build has none' }),
  })
  .meta({ id: 'DocumentContent' });

const Message = z
  .strictObject({
    role: z.enum(['user', 'assistant', 'system']).meta({
      description:
        '`user` or `assistant`; `system` is refused: the instructions of the agent are the only system prompt',
      example: 'user',
    }),
    content: z
      .union([z.string().min(1), ToolOutput, DocumentContent], {
        error: 'must be a text, {"type": "tool_output", …} or {"type": "document", …}',
      })
      .meta({ description: 'Text, or what is put in its place', example: 'Where is order ord_1042?' }),
  })
  .meta({ id: 'GenerateMessage' });

export const GenerateBody = z
  .strictObject({
    messages: z.array(Message).min(1).max(1000).meta({ description: 'The dialogue so far, oldest first' }),
    stream: z.boolean().optional().meta({ description: 'Answer as the model speaks; implies waiting' }),
    idempotency_key: IdempotencyKey.optional(),
    action_id: z.string().min(1).max(255).optional().meta({ description: "The caller's usage label" }),
    metadata: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: 'Owned by the caller, returned verbatim' }),
    trace_id: z.string().optional().meta({ description: 'An existing trace of this project to group the run under' }),
    tool_context: z
      .record(z.string(), z.string())
      .optional()
      .meta({ description: 'Goes with every http and mcp call as headers `X-Svc-Context-<key>`' }),
    max_call_depth: z
      .int()
      .min(0)
      .max(10)
      .optional()
      .meta({ description: 'How many runs deep this one may call others; 0 answers the depth guard, 10 when absent' }),
  })
  .meta({ id: 'Generate' });

export const GenerateQuery = z.strictObject({
  wait: booleanText(false).meta({ description: 'Answer when the run completes or pauses' }),
});

const RequiredAction = z
  .strictObject({
    type: z.literal('submit_tool_outputs').meta({ description: 'What the caller has to do' }),
    tool_calls: z
      .array(
        z.strictObject({
          id: text('Names the call in the submission'),
          tool_name: text('Tool that the model called'),
          args: z.unknown().meta({ description: 'Arguments that the model gave' }),
        }),
      )
      .meta({ description: 'Calls that wait for the outputs of the caller' }),
  })
  .meta({ id: 'RequiredAction' });

const GenerationErrorOut = z
  .strictObject({
    code: z.string().optional().meta({ description: 'Code of the failure' }),
    message: text('For people'),
    meta: z.record(z.string(), z.unknown()).optional().meta({ description: 'Facts of the failure' }),
  })
  .meta({ id: 'GenerationError' });

const Part = z.looseObject({ type: text('`text`, `tool-call` or `tool-result`') });

const Output = z
  .strictObject({
    model: nullableText('Model that gave the last answer'),
    content: text('Text of the last step'),
    finish_reason: nullableText('Why the model ended'),
    response_messages: z
      .array(
        z.strictObject({
          role: z.enum(['assistant', 'tool']).meta({ description: 'Who said it' }),
          content: z.array(Part).meta({ description: 'Parts of the message' }),
        }),
      )
      .meta({ description: 'What the turn added to the dialogue' }),
    object: z.unknown().optional().meta({ description: 'The content as JSON; only with output_schema' }),
  })
  .meta({ id: 'GenerationOutput' });

const ids = { id: text('The generation'), generation_id: text('The same id'), trace_id: text('Trace of the run') };

/** Answer of a waited run, of a submission and of an idempotent repeat. */
export const GenerationResult = z
  .strictObject({
    ...ids,
    status: z.enum(generationStatuses).meta({ description: 'Where the run stands' }),
    ai_provider_id: nullableText('Provider of the last model call'),
    output: Output.optional().meta({ description: 'Present when the run completed' }),
    required_action: RequiredAction.optional().meta({ description: 'Present while the run is paused' }),
    error: GenerationErrorOut.nullable().optional().meta({ description: 'Present when the run failed' }),
  })
  .meta({ id: 'GenerationResult' });

export const GenerationAccepted = z
  .strictObject({ status: z.literal('accepted').meta({ description: 'The run is committed' }), ...ids })
  .meta({ id: 'GenerationAccepted' });

const Usage = z
  .strictObject({
    input_tokens: z.int().meta({ description: 'Tokens given to the model' }),
    output_tokens: z.int().meta({ description: 'Tokens the model wrote' }),
    cached_tokens: z.int().meta({ description: 'Input tokens read from a cache' }),
    cost_usd: z.number().nullable().meta({ description: 'US dollars; null when no price is known' }),
  })
  .meta({ id: 'GenerationUsage' });

export const GenerationOut = z
  .strictObject({
    id: ids.id,
    generation_id: ids.generation_id,
    project_id: text('Project'),
    agent_id: text('Agent'),
    trace_id: ids.trace_id,
    status: z.enum(generationStatuses).meta({ description: 'Where the run stands' }),
    stop_reason: nullableText('Why it ended; null while it runs or waits'),
    required_action: RequiredAction.nullable().meta({
      description: 'What the caller has to do; set only while paused',
    }),
    error: GenerationErrorOut.nullable().meta({ description: 'Why the run itself failed' }),
    agent_version: z.int().meta({ description: 'Version that served it' }),
    ai_provider_id: nullableText('Provider of the last model call'),
    model: nullableText('Model of the last model call'),
    usage: Usage.meta({ description: 'Sums over all steps' }),
    step_count: z.int().meta({ description: 'Model steps so far' }),
    initiator_generation_id: nullableText('Generation that called this one'),
    chain_id: nullableText('Continuation chain'),
    session_id: nullableText('Session'),
    actor_id: nullableText('Actor of the session'),
    conversation_id: nullableText('Conversation'),
    trigger_id: nullableText('Trigger that started it'),
    orchestration_run_id: nullableText('Orchestration run that started it'),
    node_id: nullableText('Node of that run'),
    node_attempt: z.int().nullable().meta({ description: 'Attempt of that node' }),
    source: nullableText('`eval` for runs of an eval'),
    action_id: nullableText("The caller's usage label"),
    metadata: z.record(z.string(), z.unknown()).nullable().meta({ description: 'Owned by the caller' }),
    routing: z.null().meta({ description: 'Model route record' }),
    extraction: z.null().meta({ description: 'Memory extraction' }),
    memory_assertions: z.array(z.never()).meta({ description: 'Memory writes of this turn' }),
    started_by_principal_type: nullableText('`api_key` or `user`'),
    started_by_principal_id: nullableText('Its id'),
    started_at: moment('When the run began'),
    completed_at: moment('When it settled'),
    last_activity_at: moment('When it last moved'),
    created_at: moment('When it was accepted'),
    updated_at: moment('When the record last changed'),
    content_redacted_at: moment('When its content was removed'),
    content_redacted_by_principal_type: nullableText('Who removed it'),
    content_redacted_by_principal_id: nullableText('Its id'),
  })
  .meta({ id: 'Generation' });

export const GenerationPage = offsetPage(GenerationOut).meta({ id: 'GenerationPage' });

export const GenerationListQuery = OffsetQuery.extend({
  agent_id: z.string().optional().meta({ description: 'Runs of this agent' }),
  trace_id: z.string().optional().meta({ description: 'Runs of this trace' }),
  initiator_generation_id: z.string().optional().meta({ description: 'Runs that this one called or continued into' }),
  session_id: z.string().optional().meta({ description: 'Runs of this session' }),
  actor_id: z.string().optional().meta({ description: 'Runs on behalf of this actor' }),
  chain_id: z.string().optional().meta({ description: 'Runs of this continuation chain' }),
  orchestration_run_id: z.string().optional().meta({ description: 'Runs of this orchestration run' }),
  node_id: z.string().optional().meta({ description: 'Runs of this node' }),
  status: z.enum(generationStatuses).optional().meta({ description: 'Runs in this state' }),
});

export const GenerationUpdate = z
  .strictObject({
    metadata: z
      .record(z.string(), z.unknown())
      .meta({ description: 'Entries that replace those of the same name; the others stay' }),
  })
  .meta({ id: 'GenerationUpdate' });

export const ToolOutputsBody = z
  .strictObject({
    tool_outputs: z
      .array(
        z.strictObject({
          tool_call_id: z.string().min(1).meta({ description: 'One of `required_action.tool_calls[].id`' }),
          output: z.unknown().meta({ description: 'Any JSON' }),
        }),
      )
      .min(1)
      .max(64)
      .meta({ description: 'Exactly one entry for each pending call' }),
    idempotency_key: IdempotencyKey.optional(),
  })
  .refine(({ tool_outputs }) => tool_outputs.every((entry) => 'output' in entry && entry.output !== undefined), {
    path: ['tool_outputs'],
    message: 'every entry needs an output',
  })
  .meta({ id: 'SubmitToolOutputs' });

const StepUsage = Usage.omit({ cost_usd: true }).meta({ id: 'StepUsage' });

export const TranscriptStep = z
  .strictObject({
    index: z.int().meta({ description: 'Counted from 0 over the turn' }),
    text: nullableText('Text of the step'),
    finish_reason: nullableText('Why the model ended the step'),
    tool_calls: z
      .array(
        z.strictObject({
          id: text('Call'),
          tool_name: text('Tool'),
          args: z.unknown().meta({ description: 'Arguments' }),
        }),
      )
      .meta({ description: 'Calls of the step' }),
    tool_results: z
      .array(
        z.strictObject({
          tool_call_id: text('Call'),
          tool_name: text('Tool'),
          result: z.unknown().meta({ description: 'Result; null for a failed call' }),
          error: z.record(z.string(), z.unknown()).nullable().meta({ description: 'Why the call failed' }),
        }),
      )
      .meta({ description: 'Results that are in' }),
    usage: StepUsage.meta({ description: 'Tokens of the step' }),
  })
  .meta({ id: 'TranscriptStep' });

export const TranscriptOut = z
  .strictObject({
    generation_id: ids.generation_id,
    trace_id: ids.trace_id,
    project_id: text('Project'),
    agent_id: text('Agent'),
    agent_version: z.int().meta({ description: 'Version that served it' }),
    status: z.enum(generationStatuses).meta({ description: 'Where the run stands' }),
    stop_reason: nullableText('Why it ended'),
    started_at: moment('When the run began'),
    completed_at: moment('When it settled'),
    step_count: z.int().meta({ description: 'Model steps so far' }),
    input: z.array(z.unknown()).nullable().meta({ description: 'Messages as resolved' }),
    retrieval: z.array(z.never()).meta({ description: 'Passages given to the model' }),
    steps: z.array(TranscriptStep).meta({ description: 'Finished steps' }),
    output: z
      .strictObject({
        content: nullableText('Text of the last step that has one'),
        finish_reason: nullableText('Why the model ended'),
      })
      .nullable()
      .meta({ description: 'Null while the run goes on' }),
    error: GenerationErrorOut.nullable().meta({ description: 'Why the run failed' }),
    content_redacted_at: moment('When its content was removed'),
    content_redacted_by_principal_type: nullableText('Who removed it'),
    content_redacted_by_principal_id: nullableText('Its id'),
  })
  .meta({ id: 'Transcript' });
