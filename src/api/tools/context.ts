import { ApiError, invalidInput } from '../core/errors';

/** Pure: the tool context, a flat map of texts that goes with a call. Spec: Tools, tool context. */

/** Key to text; keys are unique without regard to case. */
export type ToolContext = Readonly<Record<string, string>>;

/** What the service itself knows of a call; a caller's values under these names are dropped. */
export interface ReservedContext {
  session_id?: string | undefined;
  actor_id?: string | undefined;
  actor_external_id?: string | undefined;
  calling_project_id?: string | undefined;
}

const RESERVED: ReadonlySet<string> = new Set(['session_id', 'actor_id', 'actor_external_id', 'calling_project_id']);
const KEYS_MAX = 64;
const VALUE_CHARACTERS_MAX = 8192;
const HEADER_PREFIX = 'X-Svc-Context-';
const KEY = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/;

/** Whether the service sets a key itself, in whatever casing it is written. */
export const isReservedKey = (key: string): boolean => RESERVED.has(key.toLowerCase());

/** Keys that cannot be one of a context: no name of a header, or equal to an earlier one without regard to case. */
export function badContextKeys(keys: readonly string[]): string[] {
  const folded = keys.map((key) => key.toLowerCase());
  const isDouble = (key: string): boolean =>
    folded.indexOf(key.toLowerCase()) !== folded.lastIndexOf(key.toLowerCase());
  return keys.filter((key) => !KEY.test(key) || isDouble(key));
}

/** @throws INVALID_TOOL_CONTEXT_KEY with the refused keys in `meta.keys` */
export function assertContextKeys(keys: readonly string[], path: string): void {
  const bad = badContextKeys(keys);
  if (bad.length === 0) return;
  const message = `holds keys that are no name of a header, or equal without regard to case: ${bad.join(', ')}`;
  throw new ApiError('INVALID_TOOL_CONTEXT_KEY', `${path} ${message}.`, {
    meta: { keys: bad },
    details: [{ path, message }],
  });
}

/**
 * The context of a call from what a caller sent: keys checked, those that the service sets itself dropped in any casing
 * and replaced by `reserved`. At most 64 keys and 8,192 characters a value: they go out as headers.
 * @throws INVALID_TOOL_CONTEXT_KEY with `meta.keys`, VALIDATION_FAILED
 */
export function toolContextOf(given: ToolContext | null | undefined, reserved: ReservedContext = {}): ToolContext {
  const entries = Object.entries(given ?? {});
  assertContextKeys(
    entries.map(([key]) => key),
    'tool_context',
  );
  if (entries.length > KEYS_MAX) {
    throw invalidInput('VALIDATION_FAILED', 'tool_context', `must have at most ${String(KEYS_MAX)} keys`);
  }
  const long = entries.find(([, value]) => value.length > VALUE_CHARACTERS_MAX);
  if (long !== undefined) {
    const message = `must have at most ${String(VALUE_CHARACTERS_MAX)} characters`;
    throw invalidInput('VALIDATION_FAILED', `tool_context.${long[0]}`, message);
  }
  const known = Object.entries(reserved as Record<string, string | undefined>);
  return Object.fromEntries([
    ...entries.filter(([key]) => !isReservedKey(key)),
    ...known.flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const])),
  ]);
}

/**
 * The headers of a call that carry its context: `X-Svc-Context-<key>`, narrowed to the tool's `context_keys` (null = all).
 * What the service sets itself always goes.
 */
export function contextHeaders(
  context: ToolContext,
  contextKeys: readonly string[] | null | undefined,
): Record<string, string> {
  const allowed = (key: string): boolean => contextKeys == null || isReservedKey(key) || contextKeys.includes(key);
  return Object.fromEntries(
    Object.entries(context).flatMap(([key, value]) => (allowed(key) ? [[HEADER_PREFIX + key, value]] : [])),
  );
}
