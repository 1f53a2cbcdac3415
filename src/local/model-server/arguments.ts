import type { Hints } from './hints';

export type JsonSchema = Record<string, unknown>;

/** Levels of nesting that are filled; deeper objects stay empty. */
const depthMax = 8;
const itemsMax = 10;

/** Formats that are easy to recognise in a message, with a value for the case that there is none. */
const formats: Record<string, { looksLike: RegExp; otherwise: string }> = {
  email: { looksLike: /^[^\s@]+@[^\s@]+\.[^\s@]+$/, otherwise: 'user@example.com' },
  date: { looksLike: /^\d{4}-\d{2}-\d{2}$/, otherwise: '2026-01-01' },
  'date-time': { looksLike: /^\d{4}-\d{2}-\d{2}T\S+$/, otherwise: '2026-01-01T00:00:00Z' },
  time: { looksLike: /^\d{2}:\d{2}(?::\d{2})?\S*$/, otherwise: '12:00:00Z' },
  uri: { looksLike: /^[a-z][a-z0-9+.-]*:\/\/\S+$/i, otherwise: 'https://example.com/' },
  url: { looksLike: /^[a-z][a-z0-9+.-]*:\/\/\S+$/i, otherwise: 'https://example.com/' },
  uuid: {
    looksLike: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
    otherwise: '00000000-0000-4000-8000-000000000000',
  },
  ipv4: { looksLike: /^\d{1,3}(?:\.\d{1,3}){3}$/, otherwise: '192.0.2.1' },
};

interface Spot {
  /** The property's name; empty at the top and for list items without one. */
  name: string;
  depth: number;
}

/**
 * Arguments that fit a JSON schema, with values found in the message where the schema makes that easy. Deterministic.
 * Only required properties are filled. Keywords beyond types, enum, const, pattern, format and bounds are not looked at.
 */
export function synthesiseArguments(schema: JsonSchema, hints: Hints): unknown {
  return new Synthesis(schema, hints).value(schema, { name: '', depth: 0 });
}

class Synthesis {
  constructor(
    readonly root: JsonSchema,
    readonly hints: Hints,
  ) {}

  value(given: unknown, spot: Spot): unknown {
    const schema = this.#resolve(given, spot.depth);
    if ('const' in schema) return schema.const;
    if (Array.isArray(schema.enum)) return this.#choice(schema.enum);
    switch (typeOf(schema)) {
      case 'object':
        return this.#object(schema, spot);
      case 'array':
        return this.#list(schema, spot);
      case 'number':
        return this.#number(schema, spot.name);
      case 'integer':
        return Math.trunc(this.#number(schema, spot.name));
      case 'boolean':
        return this.#flag(schema, spot.name);
      case 'null':
        return null;
      default:
        return this.#text(schema, spot.name);
    }
  }

  /** Follows local references and takes the first usable branch of a union. */
  #resolve(given: unknown, depth: number): JsonSchema {
    let schema = asSchema(given);
    for (let hop = 0; hop < depthMax; hop += 1) {
      const branches = [schema.anyOf, schema.oneOf].find(Array.isArray) as unknown[] | undefined;
      if (typeof schema.$ref === 'string') schema = this.#pointed(schema.$ref);
      else if (branches !== undefined) schema = asSchema(branches.find((branch) => asSchema(branch).type !== 'null'));
      else if (Array.isArray(schema.allOf))
        schema = merged(
          schema,
          (schema.allOf as unknown[]).map((part) => this.#resolve(part, depth)),
        );
      else return schema;
    }
    return {};
  }

  #pointed(reference: string): JsonSchema {
    if (!reference.startsWith('#')) return {};
    const path = reference
      .slice(1)
      .split('/')
      .filter((part) => part !== '');
    const decode = (part: string) => part.replaceAll('~1', '/').replaceAll('~0', '~');
    return asSchema(path.reduce<unknown>((value, part) => asSchema(value)[decode(part)], this.root));
  }

  #object(schema: JsonSchema, { depth }: Spot): Record<string, unknown> {
    const properties = asSchema(schema.properties);
    const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];
    if (depth >= depthMax) return {};
    return Object.fromEntries(
      required.map((name) => [name, this.value(properties[name] ?? {}, { name, depth: depth + 1 })]),
    );
  }

  #list(schema: JsonSchema, { name, depth }: Spot): unknown[] {
    if (depth >= depthMax) return [];
    const least = numberOr(schema.minItems, 1);
    const most = numberOr(schema.maxItems, itemsMax);
    const length = Math.min(Math.max(least, 1), most, itemsMax);
    // "tags" holds a "tag": the singular finds "tag red" in the message as well.
    const singular = name.replace(/s$/, '');
    return Array.from({ length }, () => this.value(schema.items ?? {}, { name: singular, depth: depth + 1 }));
  }

  #choice(choices: unknown[]): unknown {
    const mentioned = choices.find((choice) => {
      const text = String(choice).toLowerCase();
      return this.hints.find((candidate) => candidate.toLowerCase() === text) !== undefined;
    });
    return mentioned ?? choices[0];
  }

  #number(schema: JsonSchema, name: string): number {
    const named = Number(this.hints.valueAfter(name) ?? Number.NaN);
    const said = Number.isFinite(named) ? named : Number(this.hints.nextNumber() ?? Number.NaN);
    const step = schema.type === 'integer' ? 1 : Number.MIN_VALUE;
    const least = Math.max(numberOr(schema.minimum, -Infinity), numberOr(schema.exclusiveMinimum, -Infinity) + step);
    const most = Math.min(numberOr(schema.maximum, Infinity), numberOr(schema.exclusiveMaximum, Infinity) - step);
    const fallback = numberOr(schema.default, Number.isFinite(least) ? least : 1);
    return Math.min(Math.max(Number.isFinite(said) ? said : fallback, least), most);
  }

  #flag(schema: JsonSchema, name: string): boolean {
    const said = this.hints.valueAfter(name)?.toLowerCase();
    if (said === 'false' || said === 'no' || said === 'off') return false;
    if (said === 'true' || said === 'yes' || said === 'on') return true;
    return typeof schema.default === 'boolean' ? schema.default : true;
  }

  #text(schema: JsonSchema, name: string): string {
    const value = this.#shapedText(schema) ?? this.#freeText(schema, name);
    const cut = value.slice(0, numberOr(schema.maxLength, 2_000));
    return cut.padEnd(Math.min(numberOr(schema.minLength, 0), 2_000), 'x');
  }

  /** A text that a pattern or a format picks out of the message. */
  #shapedText(schema: JsonSchema): string | undefined {
    const pattern = typeof schema.pattern === 'string' ? patternOrNull(schema.pattern) : null;
    if (pattern !== null) return this.hints.find((candidate) => pattern.test(candidate));
    const format = typeof schema.format === 'string' ? formats[schema.format] : undefined;
    if (format === undefined) return undefined;
    return this.hints.find((candidate) => format.looksLike.test(candidate)) ?? format.otherwise;
  }

  #freeText(schema: JsonSchema, name: string): string {
    const named = this.hints.valueAfter(name) ?? this.hints.nextQuoted();
    if (named !== undefined) return named;
    if (typeof schema.default === 'string') return schema.default;
    const isId = /(?:^|[_-])id$|Id$/.test(name);
    const identifier = isId
      ? this.hints.find((candidate) => /\d/.test(candidate) && /^[\w-]+$/.test(candidate))
      : undefined;
    return identifier ?? this.hints.remainder() ?? this.hints.message;
  }
}

function asSchema(value: unknown): JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {};
}

function merged(schema: JsonSchema, parts: JsonSchema[]): JsonSchema {
  const { allOf: _allOf, ...own } = schema;
  return [own, ...parts].reduce<JsonSchema>((all, part) => {
    const required = [...listOf(all.required), ...listOf(part.required)];
    return { ...all, ...part, properties: { ...asSchema(all.properties), ...asSchema(part.properties) }, required };
  }, {});
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The declared type, or the one that the schema's other words imply. */
function typeOf(schema: JsonSchema): string {
  const declared = Array.isArray(schema.type)
    ? (schema.type as unknown[]).find((type) => type !== 'null')
    : schema.type;
  if (typeof declared === 'string') return declared;
  if ('properties' in schema || 'required' in schema) return 'object';
  if ('items' in schema) return 'array';
  return 'string';
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function patternOrNull(source: string): RegExp | null {
  try {
    return new RegExp(source, 'u');
  } catch {
    return null;
  }
}
