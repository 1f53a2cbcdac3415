import { z } from 'zod';
import { catalog } from './errors';
import type { ErrorCode } from './errors';
import { UNLIMITED_PATHS } from './route';
import type { Route } from './route';

export const ErrorEnvelope = z
  .strictObject({
    error: z
      .strictObject({
        code: z.string().meta({ description: 'What clients branch on' }),
        message: z.string().meta({ description: 'For people; may change' }),
        meta: z.record(z.string(), z.unknown()).optional().meta({ description: 'Facts of an UPPER_SNAKE code' }),
        details: z
          .union([
            z.array(
              z.strictObject({
                path: z.string().meta({ description: 'Where' }),
                message: z.string().meta({ description: 'What' }),
              }),
            ),
            z.record(z.string(), z.unknown()),
          ])
          .optional()
          .meta({ description: 'Facts of a lower_snake code, and of every input check' }),
      })
      .meta({ description: 'The refusal' }),
  })
  .meta({ id: 'Error' });

type Json = Record<string, unknown>;

/** Turns a zod schema into its JSON Schema; named ones become references into `components`. */
function schemaOf(schema: z.ZodType, io: 'input' | 'output', components: Json): Json {
  const {
    $defs,
    $schema: _dialect,
    ...own
  } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    reused: 'inline',
    override: ({ jsonSchema }) => {
      // The pattern of a date-time is longer than the rest of the schema together and says no more than the format.
      if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === -Number.MAX_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  }) as Json & { $defs?: Record<string, Json> };
  for (const [name, definition] of Object.entries($defs ?? {})) components[name] = relocated(strip(definition));
  const id = schema.meta()?.id;
  if (id === undefined) return relocated(strip(own)) as Json;
  components[id] ??= relocated(strip(own));
  return { $ref: `#/components/schemas/${id}` };
}

const strip = ({ $id: _id, id: _name, ...rest }: Json): Json => rest;

function relocated(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(relocated);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, child]) => [
      key,
      key === '$ref' && typeof child === 'string'
        ? child.replace('#/$defs/', '#/components/schemas/')
        : relocated(child),
    ]),
  );
}

const openApiPath = (path: string): string =>
  path
    .replaceAll('\\:', '\u0000')
    .replace(/:([a-z_]+)/g, '{$1}')
    .replaceAll('\u0000', ':');

function parametersOf(route: Route, components: Json): Json[] {
  const inPath = [...openApiPath(route.path).matchAll(/\{([a-z_]+)\}/g)].map(([, name]) => name ?? '');
  const shapes = route.params instanceof z.ZodObject ? (route.params.shape as Record<string, z.ZodType>) : {};
  const path = inPath.map((name) => ({
    name,
    in: 'path',
    required: true,
    description: shapes[name]?.meta()?.description ?? 'Identifier with the prefix `proj_`',
    schema: shapes[name] === undefined ? { type: 'string' } : schemaOf(shapes[name], 'input', components),
  }));
  const filters = route.query instanceof z.ZodObject ? (route.query.shape as Record<string, z.ZodType>) : {};
  const query = Object.entries(filters).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    description: schema.meta()?.description ?? name,
    schema: schemaOf(schema, 'input', components),
  }));
  return [...path, ...query];
}

const securityOf = ({ needs, bearerOptional }: Route): object[] => {
  if (bearerOptional === true) return [{}, { bearer: [] }];
  return needs.kind === 'none' ? [] : [{ bearer: [] }];
};

const sharedFailures = (route: Route): ErrorCode[] => [
  ...(route.needs.kind === 'none' ? [] : (['unauthorized'] as const)),
  ...(route.needs.kind === 'none' || route.needs.kind === 'any' ? [] : (['access_denied'] as const)),
  ...(route.path.includes(':') ? (['not_found'] as const) : []),
  'bad_request',
  ...(UNLIMITED_PATHS.has(route.path) ? [] : (['too_many_requests'] as const)),
  ...(route.body === undefined ? [] : ([route.inputCode, 'payload_too_large', 'unsupported_media_type'] as const)),
  'internal_error',
  'service_unavailable',
];

function responsesOf(route: Route, components: Json): Json {
  const responses: Json = {};
  for (const [status, schema] of Object.entries(route.answers)) {
    responses[status] =
      schema === null
        ? { description: 'Done; no body' }
        : {
            description: 'Success',
            content: { 'application/json': { schema: schemaOf(schema, 'output', components) } },
          };
  }
  if (route.media !== undefined) {
    responses['200'] = { description: 'Success', content: { [route.media]: { schema: { type: 'string' } } } };
  }
  if (route.streams !== undefined) addStream(responses, route.streams);
  const codes = new Set([...sharedFailures(route), ...(route.fails ?? [])]);
  for (const code of codes) {
    const status = String(catalog[code]);
    const entry = (responses[status] ??= {
      description: '',
      content: { 'application/json': { schema: schemaOf(ErrorEnvelope, 'output', components) } },
    }) as { description: string };
    entry.description += entry.description === '' ? `\`${code}\`` : `, \`${code}\``;
  }
  return responses;
}

/** The success of a route that may be read as it comes. */
function addStream(responses: Json, description: string): void {
  const success = (responses['200'] ??= { description: 'Success' }) as { content?: Json };
  success.content = { ...success.content, 'text/event-stream': { schema: { type: 'string', description } } };
}

/** The OpenAPI 3.1 document of the given routes. */
export function openApiDocument(routes: Route[], serverUrl: string): Json {
  const components: Json = {};
  const paths: Record<string, Json> = {};
  for (const route of routes.filter(({ unlisted }) => unlisted !== true)) {
    const operation: Json = {
      operationId: route.id,
      summary: route.summary,
      tags: [route.action.split(':')[0]],
      'x-action': route.action,
      ...(route.needs.kind === 'project' ? { 'x-required-role': route.needs.role } : {}),
      security: securityOf(route),
      parameters: parametersOf(route, components),
      ...(route.body === undefined
        ? {}
        : {
            requestBody: {
              required: !route.body.safeParse({}).success,
              content: { 'application/json': { schema: schemaOf(route.body, 'input', components) } },
            },
          }),
      responses: responsesOf(route, components),
    };
    (paths[openApiPath(route.path)] ??= {})[route.method] = operation;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Agent platform API',
      version: '1.0.0',
      description: 'Building and running AI agents inside projects.',
    },
    servers: [{ url: serverUrl }],
    paths,
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'API key or session token' } },
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}
