/**
 * Takes secret values out of whatever a call brings back, so that a target that echoes its credentials leaks nothing into
 * errors, transcripts and the model's context. Spec: Tools, http ("replaced by `[secret]`").
 */

const MARK = '[secret]';
/** Deeper values are refused: walking them would exhaust the stack. */
const DEPTH_MAX = 500;

/** A value is nested too deeply to be walked. */
export class TooDeepError extends Error {}

export interface Redaction {
  text: (text: string) => string;
  /** Strings, keys and numbers of a JSON value. @throws TooDeepError */
  value: (value: unknown) => unknown;
}

/** A redaction of the given values in the forms in which they may come back: as they are, URL-encoded, JSON-escaped. */
export function redactionOf(secrets: Iterable<string>): Redaction {
  const forms = [...new Set([...secrets].flatMap(formsOf))].filter((form) => form !== '');
  // The longest first: a form that holds another one must not be left in halves.
  forms.sort((a, b) => b.length - a.length);
  const text = (given: string): string => forms.reduce((rest, form) => rest.replaceAll(form, MARK), given);
  return { text, value: (given) => (forms.length === 0 ? given : walked(given, text, 0)) };
}

function formsOf(secret: string): string[] {
  const upper = encodeURIComponent(Buffer.from(secret).toString());
  const json = JSON.stringify(secret).slice(1, -1);
  const percent = [upper, upper.replaceAll('%2F', '/'), upper.replaceAll('%20', '+')];
  return [
    secret,
    ...percent,
    ...percent.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())),
    json,
    json.replaceAll('/', '\\/'),
    JSON.stringify(json).slice(1, -1),
  ];
}

function walked(value: unknown, text: (text: string) => string, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new TooDeepError('nested too deeply');
  if (typeof value === 'string') return text(value);
  if (typeof value === 'number' || typeof value === 'boolean')
    return text(String(value)) === String(value) ? value : MARK;
  if (Array.isArray(value)) return value.map((entry) => walked(entry, text, depth + 1));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [text(key), walked(entry, text, depth + 1)]));
}
