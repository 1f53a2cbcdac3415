import { z } from 'zod';
import { idOf } from '../core/ids';
import { OffsetQuery, booleanText, offsetPage } from '../core/pages';
import { headerProblems } from './headers';
import { methods, servedTypes } from './models';

const URL_CHARACTERS_MAX = 2048;
const DESCRIPTION_CHARACTERS_MAX = 10_000;
const TIMEOUT_SECONDS_MAX = 300;
const UNSERVED_TYPES = ['mcp', 'builtin', 'pipeline'];

type JsonObject = Record<string, unknown>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Documented for other kinds of tools; anything but null is refused rather than ignored. */
const unserved = (description: string) =>
  z
    .null({ error: 'is not served by this build' })
    .optional()
    .meta({ description: `${description}; not served by this build` });

const name = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, `_` or `-`')
  .meta({ description: 'What the model sees', example: 'lookup_order' });

const type = z
  .enum(servedTypes, {
    error: ({ input }) =>
      typeof input === 'string' && UNSERVED_TYPES.includes(input)
        ? `${input} is not served by this build; it serves ${servedTypes.join(' and ')}`
        : undefined,
  })
  .meta({ description: '`http`: called by the service; `client`: answered by the caller of the generation' });

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

const headerValue = z.string({
  error: ({ input }) =>
    isObject(input) && input.no_echo === true
      ? 'stands for a value that is not shown; send the value itself'
      : undefined,
});

const headers = z
  .record(z.string(), headerValue)
  .superRefine((given, context) => {
    for (const { name: at, message } of headerProblems(given)) {
      context.addIssue({ code: 'custom', message, path: at === '' ? [] : [at] });
    }
  })
  .meta({
    description:
      'Headers; `{{secret:sec_…}}` takes the value of a secret, a credential written out reads back as `no_echo`',
    example: { Authorization: 'Bearer {{secret:sec_V1StGXR8Z5jdHi6B}}' },
  });

const ExecuteInput = z
  .strictObject({
    url: z.string().min(1).max(URL_CHARACTERS_MAX).meta({
      description: 'http or https; `{name}` in path and query takes an argument, `{{secret:sec_…}}` a secret',
      example: 'https://api.example.com/orders/{order_id}',
    }),
    method: z.enum(methods).default('POST').meta({
      description: 'Arguments that the URL does not take go into the body (POST, PUT, PATCH) or the query',
    }),
    headers: headers.default({}),
    body_mode: z
      .literal('json', {
        error: ({ input }) => (input === 'multipart' ? 'multipart is not served by this build' : undefined),
      })
      .default('json')
      .meta({ description: 'How the body is written' }),
    timeout_seconds: z.number().min(1).max(TIMEOUT_SECONDS_MAX).default(TIMEOUT_SECONDS_MAX).meta({
      description: 'From the look-up of the host to the end of the answer, 1 to 300',
    }),
    auth: unserved('Signing of the request'),
  })
  .meta({ id: 'ToolExecuteInput' });

const unservedFields = {
  mcp: unserved('MCP server'),
  actions: unserved('Allowed remote tools or platform actions'),
  denied_actions: unserved('Denied remote tools'),
  preset_parameters: unserved('Pinned arguments'),
  context_keys: unserved('Forwarded context keys'),
  pipeline: unserved('Steps of a pipeline'),
  output_mapping: unserved('Mapping of the result'),
};

/** Ids are refused as unknown, an empty list as a field that is not served: this build has no guardrails. */
const guardrailIds = z
  .array(z.string())
  .nullable()
  .optional()
  .meta({ description: 'Guardrails of this tool; this build has none' });

const executeField = ExecuteInput.nullable().meta({ description: 'How an http tool is called; null for other types' });

export const ToolCreate = z
  .strictObject({
    name,
    type: type.default('http'),
    description: description.default(null),
    parameters,
    execute: executeField.default(null),
    guardrail_ids: guardrailIds,
    ...unservedFields,
  })
  .meta({ id: 'ToolCreate' });

export const ToolUpdate = z
  .strictObject({
    name: name.optional(),
    description: description.optional(),
    parameters: parameters.optional(),
    execute: executeField.optional(),
    guardrail_ids: guardrailIds,
    ...unservedFields,
  })
  .meta({ id: 'ToolUpdate' });

const noEcho = z
  .strictObject({ no_echo: z.literal(true).meta({ description: 'A value is stored and not shown' }) })
  .meta({ id: 'NoEcho', description: 'Stands for a credential' });

const ExecuteOut = z
  .strictObject({
    url: z.string().meta({ description: 'Template of the URL' }),
    method: z.enum(methods).meta({ description: 'HTTP method' }),
    headers: z
      .record(z.string(), z.union([z.string(), noEcho]))
      .meta({ description: 'Headers; credentials are not shown' }),
    body_mode: z.literal('json').meta({ description: 'How the body is written' }),
    timeout_seconds: z.number().meta({ description: 'Longest wait for the whole answer' }),
    auth: z.null().meta({ description: 'Not served by this build' }),
  })
  .meta({ id: 'ToolExecute' });

const absent = (what: string) => z.null().meta({ description: `${what}; not served by this build` });

export const ToolOut = z
  .strictObject({
    id: idOf('tool'),
    project_id: z.string().meta({ description: 'Project of the tool' }),
    name: z.string().meta({ description: 'What the model sees' }),
    type: z.enum(servedTypes).meta({ description: 'Who runs it' }),
    description: z.string().nullable().meta({ description: 'Shown to the model' }),
    parameters: z
      .custom<JsonObject>(isObject)
      .meta({ type: 'object', description: 'JSON Schema of the arguments, as sent' }),
    execute: ExecuteOut.nullable().meta({ description: 'How it is called; null for client tools' }),
    mcp: absent('MCP server'),
    actions: absent('Allowed actions'),
    denied_actions: absent('Denied actions'),
    preset_parameters: absent('Pinned arguments'),
    context_keys: absent('Forwarded context keys'),
    pipeline: absent('Steps of a pipeline'),
    output_mapping: absent('Mapping of the result'),
    guardrail_ids: absent('Guardrails'),
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

export type ExecuteFields = z.output<typeof ExecuteInput>;
