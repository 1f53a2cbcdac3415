import '../support/contract-settings';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import { areas } from '../../src/api/areas';
import { catalog } from '../../src/api/core/errors';
import { contractText } from '../../src/api/write-openapi';

interface Schema {
  [keyword: string]: unknown;
  $ref?: string;
  description?: string;
  properties?: Record<string, Schema>;
}

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  description?: string;
  schema: Schema;
}

type Content = Record<string, { schema: Schema }>;

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  parameters: Parameter[];
  security: Record<string, unknown>[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

interface Document {
  openapi: string;
  info: Record<string, string>;
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { securitySchemes: Record<string, unknown>; schemas: Record<string, Schema> };
}

const text = contractText();
const document = JSON.parse(text) as Document;

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, method, path, operation })),
);

const contents = ({ operation }: (typeof operations)[number]): Schema[] => [
  ...operation.parameters.map(({ schema }) => schema),
  ...Object.values(operation.requestBody?.content ?? {}).map(({ schema }) => schema),
  ...Object.values(operation.responses).flatMap(({ content }) =>
    Object.values(content ?? {}).map(({ schema }) => schema),
  ),
];

const NESTED = ['items', 'anyOf', 'oneOf', 'allOf', 'additionalProperties', 'prefixItems'];

/** Every property below a schema, with the way to it; references are not followed, their targets are listed themselves. */
function propertiesOf(schema: unknown, at: string): (readonly [string, Schema])[] {
  if (Array.isArray(schema)) return schema.flatMap((entry, index) => propertiesOf(entry, `${at}[${String(index)}]`));
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {}, ...rest } = schema as Schema;
  return [
    ...Object.entries(properties).flatMap(([name, child]) => [
      [`${at}.${name}`, child] as const,
      ...propertiesOf(child, `${at}.${name}`),
    ]),
    ...NESTED.filter((keyword) => keyword in rest).flatMap((keyword) => propertiesOf(rest[keyword], at)),
  ];
}

const allSchemas: [string, Schema][] = [
  ...Object.entries(document.components.schemas),
  ...operations.flatMap((entry) => contents(entry).map((schema): [string, Schema] => [entry.name, schema])),
];

const described = allSchemas.flatMap(([name, schema]) => propertiesOf(schema, name));

/** A property that is a whole named schema; its own properties say what it is. */
const SAID_BY_THEIR_SCHEMA = ['AgentVersion.config'];

describe('descriptions', () => {
  test.each(described.filter(([at]) => !SAID_BY_THEIR_SCHEMA.includes(at)))('%s has one', (_at, property) => {
    expect(property.description).toEqual(expect.stringMatching(/\S/));
  });

  test.each(SAID_BY_THEIR_SCHEMA)('%s is still an exception', (name) => {
    expect(described.find(([at]) => at === name)?.[1]).toEqual({ $ref: expect.stringMatching(/./) as string });
  });

  test('parameters and operations have one too', () => {
    const silent = operations.flatMap(({ name, operation }) => [
      ...operation.parameters.filter(({ description }) => !description).map((entry) => `${name} ${entry.name}`),
      ...(operation.summary === '' ? [name] : []),
    ]);
    expect(silent).toEqual([]);
  });
});

describe('routes', () => {
  test('operation ids are unique', () => {
    const ids = areas.map(({ id }) => id);
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
  });

  test.each(areas.map((route) => [`${route.method} ${route.path}`, route] as const))(
    '%s has an action of the form area:Verb, a camelCase id and codes of the catalog',
    (_name, { action, id, fails = [] }) => {
      expect(action).toMatch(/^[a-z][a-z-]*:[A-Z][A-Za-z]*$/);
      expect(id).toMatch(/^[a-z][A-Za-z]*$/);
      expect(fails.filter((code) => !(code in catalog))).toEqual([]);
      expect(new Set(fails).size).toBe(fails.length);
    },
  );

  test('a method and a path are routed once', () => {
    const names = areas.map(({ method, path }) => `${method} ${path.replace(/:[a-z_]+/g, ':')}`);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('the document is OpenAPI 3.1', () => {
  test('it has the fixed parts', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.info).toMatchObject({
      title: expect.stringMatching(/./) as string,
      version: expect.stringMatching(/./) as string,
    });
    expect(document.servers).toEqual([{ url: 'http://localhost:3000' }]);
    expect(Object.keys(document).sort()).toEqual(['components', 'info', 'openapi', 'paths', 'servers']);
  });

  test.each(operations.map((entry) => [entry.name, entry] as const))('%s', (_name, { path, method, operation }) => {
    expect(['get', 'put', 'post', 'delete', 'patch']).toContain(method);
    expect(path).toMatch(/^\/[^?#\s]*$/);
    const named = operation.parameters.map((entry) => `${entry.in} ${entry.name}`);
    expect(new Set(named).size).toBe(named.length);
    const inTemplate = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const inPath = operation.parameters.filter((entry) => entry.in === 'path');
    expect(inPath.map(({ name }) => name).sort()).toEqual(inTemplate.sort());
    expect(inPath.every(({ required }) => required)).toBe(true);
    expect(operation.tags).toHaveLength(1);
    const schemes = operation.security.flatMap((scheme) => Object.keys(scheme));
    expect(schemes.filter((name) => !(name in document.components.securitySchemes))).toEqual([]);
    const statuses = Object.keys(operation.responses);
    expect(statuses.some((status) => status.startsWith('2'))).toBe(true);
    expect(statuses.filter((status) => !/^[1-5]\d\d$/.test(status))).toEqual([]);
    expect(Object.values(operation.responses).filter(({ description }) => description === '')).toEqual([]);
    if (method === 'get') expect(operation.requestBody).toBeUndefined();
  });

  test('every reference leads to a schema, and every schema is used', () => {
    const used = new Set([...text.matchAll(/"\$ref": "([^"]+)"/g)].map(([, target]) => target));
    const there = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
    expect([...used].filter((target) => !there.includes(target ?? ''))).toEqual([]);
    expect(there.filter((target) => !used.has(target))).toEqual([]);
  });

  test('every schema is JSON Schema of draft 2020-12', () => {
    const ajv = new Ajv2020();
    const distinct = new Map(allSchemas.map(([name, schema]) => [JSON.stringify(schema), [name, schema] as const]));
    const wrong = [...distinct.values()].flatMap(([name, schema]) =>
      ajv.validateSchema(schema) === true ? [] : [`${name}: ${ajv.errorsText()}`],
    );
    expect(wrong).toEqual([]);
    expect(ajv.validateSchema({ type: 'nonsense' })).toBe(false);
  });
});

test('the committed document is what the routes make', () => {
  const kept = readFileSync(resolve(__dirname, '../../docs/openapi.json'), 'utf8');
  // A difference of thousands of lines would not be read: the command that mends it is what one needs.
  expect(kept === text ? 'fresh' : 'stale: run `npm run openapi` and commit docs/openapi.json').toBe('fresh');
});

test('routes of local mode are not in it', () => {
  expect(areas.some(({ path }) => path === '/dev/mailbox')).toBe(true);
  expect(Object.keys(document.paths).filter((path) => path.startsWith('/dev'))).toEqual([]);
});
