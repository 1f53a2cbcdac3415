import type { ToolContext } from './context';
import { fillPreset } from './templates';

/** Pure: pinned arguments. They are hidden from the model and always win. Spec: Tools, presets. */

type JsonObject = Record<string, unknown>;

const DEPTH_MAX = 32;
const BRANCHES = ['allOf', 'anyOf', 'oneOf'] as const;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The texts inside presets, each with its dotted place; deeper than 32 levels none is looked for. */
export function presetTexts(value: unknown, place: string, depth = 0): { place: string; text: string }[] {
  if (typeof value === 'string') return [{ place, text: value }];
  if (depth >= DEPTH_MAX || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, entry]) => presetTexts(entry, `${place}.${key}`, depth + 1));
}

/** Whether a call has to put values of its context into the presets. */
export const takesContext = (presets: JsonObject | null | undefined): boolean =>
  presetTexts(presets ?? {}, '').some(({ text }) => text.includes('{{context:'));

/**
 * The presets of a call: tokens of the context replaced, and a text that held one retyped to the integer, number or boolean
 * that the schema declares at its place. A text that is none stays one, and the check of the arguments names it.
 * @throws MissingContextError
 */
export function filledPresets(
  presets: JsonObject,
  context: ToolContext,
  parameters: JsonObject | null | undefined,
): JsonObject {
  const filled = fill(presets, { context, schema: parameters, place: 'preset_parameters', depth: 0 });
  return filled as JsonObject;
}

interface At {
  context: ToolContext;
  schema: unknown;
  place: string;
  depth: number;
}

function fill(value: unknown, { context, schema, place, depth }: At): unknown {
  if (typeof value === 'string') {
    const { text, filled } = fillPreset(value, context, place);
    return filled ? retyped(text, schema) : text;
  }
  if (depth >= DEPTH_MAX) return value;
  const under = (key: string, own: unknown): At => ({
    context,
    schema: own,
    place: `${place}.${key}`,
    depth: depth + 1,
  });
  if (Array.isArray(value)) {
    const items = isObject(schema) ? schema.items : undefined;
    return value.map((entry, index) => fill(entry, under(String(index), items)));
  }
  if (!isObject(value)) return value;
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(
    Object.entries(value).map(([key, entry]) => [
      key,
      fill(entry, under(key, Object.hasOwn(properties, key) ? properties[key] : undefined)),
    ]),
  );
}

/** A declared text stays a text, whatever else is declared beside it. */
function retyped(text: string, schema: unknown): unknown {
  const declared = isObject(schema) ? [schema.type].flat() : [];
  if (declared.includes('string')) return text;
  if (declared.includes('integer') && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (declared.includes('number') && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return Number(text);
  if (declared.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

/** The schema that the model sees: without the pinned arguments, neither as properties nor as required ones. */
export function modelParameters(parameters: JsonObject, presets: JsonObject | null | undefined): JsonObject {
  const pinned = Object.keys(presets ?? {});
  return pinned.length === 0 ? parameters : without(parameters, new Set(pinned), 0);
}

function without(schema: JsonObject, pinned: ReadonlySet<string>, depth: number): JsonObject {
  const { properties, required, ...rest } = schema;
  const kept = Array.isArray(required) ? required.filter((key) => !pinned.has(key as string)) : [];
  const branches = BRANCHES.flatMap((name) => {
    const list = schema[name];
    if (!Array.isArray(list) || depth >= DEPTH_MAX) return [];
    return [[name, list.map((entry: unknown) => (isObject(entry) ? without(entry, pinned, depth + 1) : entry))]];
  });
  return {
    ...rest,
    ...(Object.fromEntries(branches) as JsonObject),
    ...(isObject(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).filter(([key]) => !pinned.has(key))) }
      : {}),
    ...(kept.length === 0 ? {} : { required: kept }),
  };
}
