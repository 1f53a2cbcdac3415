import { z } from 'zod';
import { headerProblems } from './headers';
import { bodyModes, methods, servedTypes } from './models';

const URL_CHARACTERS_MAX = 2048;
const DESCRIPTION_CHARACTERS_MAX = 10_000;
const TIMEOUT_SECONDS_MAX = 300;
const NAMES_MAX = 500;
const NAME_CHARACTERS_MAX = 256;
const CREDENTIAL_CHARACTERS_MAX = 32_768;
const SCOPES_MAX = 50;

type JsonObject = Record<string, unknown>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const name = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, `_` or `-`')
  .meta({ description: 'What the model sees; the prefix of its tools for `mcp`', example: 'lookup_order' });

const type = z
  .enum(servedTypes, {
    error: ({ input }) =>
      input === 'builtin' ? `builtin is not served by this build; it serves ${servedTypes.join(', ')}` : undefined,
  })
  .meta({
    description:
      '`http` and `mcp`: called by the service; `pipeline`: steps of such calls; `client`: answered by the caller of the generation',
  });

const description = z.string().max(DESCRIPTION_CHARACTERS_MAX).nullable().meta({ description: 'Shown to the model' });

/** Kept as it was sent: a schema of keys would rebuild the object. */
const parameters = z
  .custom<JsonObject>(isObject, 'must be a JSON Schema of an object')
  .refine((schema) => schema.type === 'object', 'must be a JSON Schema whose `type` is `object`')
  .meta({
    type: 'object',
    description: 'JSON Schema of the arguments; an object schema of at most 64 KiB without `$ref` outside itself',
    example: {
      type: 'object',
      properties: { order_id: { type: 'string', description: 'Order to look up' } },
      required: ['order_id'],
    },
  });

const parametersField = parameters.nullable().meta({
  description: 'JSON Schema of the arguments; required for http and client tools, null = any object',
});

const url = (what: string) =>
  z.string().min(1).max(URL_CHARACTERS_MAX).meta({ description: what, example: 'https://api.example.com/orders' });

/** What was read cannot be sent back where a credential stood. */
const shownValue = (characters: number) =>
  z
    .string({
      error: ({ input }) =>
        isObject(input) && input.no_echo === true
          ? 'stands for a value that is not shown; send the value itself'
          : undefined,
    })
    .max(characters);

const headers = z
  .record(z.string(), shownValue(CREDENTIAL_CHARACTERS_MAX))
  .superRefine((given, context) => {
    for (const { name: at, message } of headerProblems(given)) {
      context.addIssue({ code: 'custom', message, path: at === '' ? [] : [at] });
    }
  })
  .meta({
    description:
      'Headers; `{{secret:sec_…}}` takes the value of a secret, `{{context:key}}` one of the tool context; a credential written out reads back as `no_echo`',
    example: { Authorization: 'Bearer {{secret:sec_V1StGXR8Z5jdHi6B}}' },
  });

const credential = (what: string) =>
  shownValue(CREDENTIAL_CHARACTERS_MAX)
    .min(1)
    .meta({ description: `${what}; \`{{secret:sec_…}}\` takes the value of a secret` });

const scopes = z
  .array(z.string().min(1).max(NAME_CHARACTERS_MAX))
  .min(1)
  .max(SCOPES_MAX)
  .meta({ description: 'Scopes of the token', example: ['https://www.googleapis.com/auth/cloud-platform'] });
const region = z.string().min(1).max(64).meta({ description: 'Region of the service', example: 'eu-central-1' });
const service = z.string().min(1).max(64).meta({ description: 'Name of the service', example: 'execute-api' });
const awsType = z.literal('aws_sigv4').meta({ description: 'Signature Version 4 over the final request' });
const gcpType = z.literal('gcp_service_account').meta({ description: 'Access token of a Google service account' });

const AuthInput = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: awsType,
      region,
      service,
      access_key_id: credential('Access key id'),
      secret_access_key: credential('Secret access key'),
      session_token: credential('Token of temporary credentials').optional(),
    }),
    z.strictObject({ type: gcpType, credentials: credential('Text of the JSON key file'), scopes }),
  ])
  .meta({ id: 'ToolAuthInput' });

const ExecuteInput = z
  .strictObject({
    url: url('http or https; `{name}` in path and query takes an argument, `{{secret:sec_…}}` a secret').meta({
      example: 'https://api.example.com/orders/{order_id}',
    }),
    method: z.enum(methods).default('POST').meta({
      description: 'Arguments that the URL does not take go into the body (POST, PUT, PATCH) or the query',
    }),
    headers: headers.default({}),
    body_mode: z.enum(bodyModes).default('json').meta({
      description: 'How the body is written; `multipart` makes `{content_type, filename, data_base64}` a file',
    }),
    timeout_seconds: z.number().min(1).max(TIMEOUT_SECONDS_MAX).default(TIMEOUT_SECONDS_MAX).meta({
      description: 'From the look-up of the host to the end of the answer, 1 to 300',
    }),
    auth: AuthInput.nullable()
      .default(null)
      .meta({ description: 'Signing of the request, computed last; `aws_sigv4` not with multipart' }),
  })
  .superRefine(({ body_mode: mode, auth }, context) => {
    if (mode !== 'multipart' || auth?.type !== 'aws_sigv4') return;
    context.addIssue({ code: 'custom', message: 'aws_sigv4 signs no multipart body', path: ['auth'] });
  })
  .meta({ id: 'ToolExecuteInput' });

const McpInput = z
  .strictObject({
    url: url('Address of the server; `{{secret:sec_…}}` takes the value of a secret').meta({
      example: 'https://mcp.example.com/mcp',
    }),
    headers: headers.default({}),
  })
  .meta({ id: 'ToolMcpInput' });

const names = (what: string) =>
  z.array(z.string().min(1).max(NAME_CHARACTERS_MAX)).max(NAMES_MAX).nullable().meta({ description: what });
const actions = names('Remote tools that may be used; null = all');
const deniedActions = names('Remote tools that may not be used, whatever `actions` says');
const contextKeys = names('Keys of the tool context that are forwarded; null = all');
const presets = z
  .custom<JsonObject>(isObject, 'must be an object')
  .nullable()
  .meta({
    type: ['object', 'null'],
    description: 'Pinned arguments: hidden from the model, they always win; `{{context:key}}` takes a context value',
    example: { account: 'A' },
  });
const outputMapping = z
  .unknown()
  .meta({ description: 'JSON Logic over `{output, input}`; null = the output as it is' });

/** What a tool of a step has in common with one that stands by itself. */
const callable = {
  name,
  description,
  parameters: parametersField,
  execute: ExecuteInput.nullable().meta({ description: 'How an http tool is called; null for other types' }),
  mcp: McpInput.nullable().meta({ description: 'Server of an mcp tool; null for other types' }),
  actions,
  denied_actions: deniedActions,
  preset_parameters: presets,
  context_keys: contextKeys,
  output_mapping: outputMapping,
};

const StepTool = z
  .strictObject({
    ...z.strictObject(callable).partial().shape,
    name: name.optional().meta({ description: 'For messages; the id of the step where absent' }),
    type: type.default('http'),
  })
  .meta({ id: 'PipelineInlineToolInput', description: 'A tool of this step alone: http or mcp' });

const stepId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, `_` or `-`')
  .meta({ description: 'Unique in the pipeline; later steps name its output by it', example: 'find' });
const stepToolId = z.string().optional().meta({ description: 'A tool of the project; excludes `tool`' });
const stepAction = z.string().min(1).optional().meta({ description: 'Remote tool, for a step on an mcp tool' });
const stepInput = z.record(z.string(), z.unknown()).meta({
  description: 'Arguments, each JSON Logic over `{input, steps}`; `{"preserve": …}` is a literal',
  example: { order_id: { var: 'input.order_id' } },
});
const pipelineOutput = z.unknown().optional().meta({ description: 'JSON Logic; absent: the output of the last step' });

const PipelineInput = z
  .strictObject({
    steps: z
      .array(
        z.strictObject({
          id: stepId,
          tool_id: stepToolId,
          tool: StepTool.optional().meta({ description: 'A tool of this step alone; excludes `tool_id`' }),
          action: stepAction,
          input: stepInput.default({}),
        }),
      )
      .meta({ description: '1 to 20 steps, run in order; the first that fails ends the call' }),
    output: pipelineOutput,
  })
  .meta({ id: 'ToolPipelineInput' });

/** No guardrail exists in this build: ids are refused as unknown, an empty list as a field that is not served. */
const guardrailIds = z
  .array(z.string())
  .nullable()
  .optional()
  .meta({ description: 'Guardrails of this tool; this build has none' });

/** The fields of a tool that can be changed, without defaults. */
export const toolFields = {
  ...callable,
  pipeline: PipelineInput.nullable().meta({ description: 'Steps of a pipeline; null for other types' }),
  guardrail_ids: guardrailIds,
};

/** A whole tool as it is given, with what an absent field stands for. */
export const newToolFields = {
  name,
  type: type.default('http'),
  description: callable.description.default(null),
  parameters: callable.parameters.default(null),
  execute: callable.execute.default(null),
  mcp: callable.mcp.default(null),
  actions: actions.default(null),
  denied_actions: deniedActions.default(null),
  preset_parameters: presets.default(null),
  context_keys: contextKeys.default(null),
  pipeline: toolFields.pipeline.default(null),
  output_mapping: outputMapping.default(null),
  guardrail_ids: guardrailIds,
};

/** A tool that an agent has for itself: it has no record, and everything else of a tool. */
export const InlineTool = z.strictObject(newToolFields).meta({ id: 'InlineToolInput' });

const noEcho = z
  .strictObject({ no_echo: z.literal(true).meta({ description: 'A value is stored and not shown' }) })
  .meta({ id: 'NoEcho', description: 'Stands for a credential' });
const guarded = z.union([z.string(), noEcho]).meta({ description: 'Template, or the mark of a stored credential' });
const headersOut = z.record(z.string(), guarded).meta({ description: 'Headers; credentials are not shown' });

const AuthOut = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: awsType,
      region,
      service,
      access_key_id: guarded,
      secret_access_key: guarded,
      session_token: guarded.optional(),
    }),
    z.strictObject({ type: gcpType, credentials: guarded, scopes }),
  ])
  .meta({ id: 'ToolAuth' });

const ExecuteOut = z
  .strictObject({
    url: z.string().meta({ description: 'Template of the URL' }),
    method: z.enum(methods).meta({ description: 'HTTP method' }),
    headers: headersOut,
    body_mode: z.enum(bodyModes).meta({ description: 'How the body is written' }),
    timeout_seconds: z.number().meta({ description: 'Longest wait for the whole answer' }),
    auth: AuthOut.nullable().meta({ description: 'Signing of the request' }),
  })
  .meta({ id: 'ToolExecute' });

const McpOut = z
  .strictObject({ url: z.string().meta({ description: 'Template of the URL' }), headers: headersOut })
  .meta({ id: 'ToolMcp' });

const parametersOut = z
  .custom<JsonObject>(isObject)
  .nullable()
  .meta({ type: ['object', 'null'], description: 'JSON Schema of the arguments, as sent' });

const shownCallable = {
  name: z.string().meta({ description: 'What the model sees' }),
  type: z.enum(servedTypes).meta({ description: 'Who runs it' }),
  description: z.string().nullable().meta({ description: 'Shown to the model' }),
  parameters: parametersOut,
  execute: ExecuteOut.nullable().meta({ description: 'How an http tool is called' }),
  mcp: McpOut.nullable().meta({ description: 'Server of an mcp tool' }),
  actions,
  denied_actions: deniedActions,
  preset_parameters: presets,
  context_keys: contextKeys,
  output_mapping: outputMapping,
};

const StepToolOut = z
  .strictObject({ ...z.strictObject(shownCallable).partial().shape, type: shownCallable.type })
  .meta({ id: 'PipelineInlineTool' });

const PipelineOut = z
  .strictObject({
    steps: z
      .array(
        z.strictObject({
          id: stepId,
          tool_id: stepToolId,
          tool: StepToolOut.optional().meta({ description: 'A tool of this step alone' }),
          action: stepAction,
          input: stepInput,
        }),
      )
      .meta({ description: 'Steps in order' }),
    output: pipelineOutput,
  })
  .meta({ id: 'ToolPipeline' });

/** A tool as it is read back, without what makes it a record. */
export const shownToolFields = {
  ...shownCallable,
  pipeline: PipelineOut.nullable().meta({ description: 'Steps of a pipeline' }),
  guardrail_ids: z.null().meta({ description: 'Guardrails; not served by this build' }),
};

export const InlineToolOut = z.strictObject(shownToolFields).meta({ id: 'InlineTool' });

export type ExecuteFields = z.output<typeof ExecuteInput>;
export type AuthFields = z.output<typeof AuthInput>;
export type McpFields = z.output<typeof McpInput>;
export type StepToolFields = z.output<typeof StepTool>;
export type InlineToolFields = z.output<typeof InlineTool>;
/** As an agent's configuration keeps it and as it is read back: no credential stands in it. */
export type OpenInlineTool = z.output<typeof InlineToolOut>;
export type PipelineFields = z.output<typeof PipelineInput>;
