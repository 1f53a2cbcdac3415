import { TooDeepError } from './redaction';
import type { Redaction } from './redaction';

export interface ReadAnswer {
  /** JSON where the body is JSON, null where it is empty, else its text. */
  value: unknown;
  text: string;
}

/**
 * What a target answered, without credentials. JSON is redacted value by value, so that neither its escapes hide a
 * credential nor a replaced number breaks it; its text is then written anew.
 */
export function readAnswer(body: Buffer, redaction: Redaction): ReadAnswer {
  const raw = new TextDecoder().decode(body);
  if (raw.trim() === '') return { value: null, text: '' };
  const text = redaction.text(raw);
  const parsed = parsedJson(raw);
  if (parsed === undefined) return { value: text, text };
  try {
    const value = redaction.value(parsed.value);
    // Nothing but the credential makes a difference here; an unchanged body keeps its own spelling.
    const changed = JSON.stringify(value) !== JSON.stringify(parsed.value);
    return { value, text: changed ? JSON.stringify(value) : text };
  } catch (error) {
    if (error instanceof TooDeepError || error instanceof RangeError) return { value: text, text };
    throw error;
  }
}

function parsedJson(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined; // Not JSON: the body is text.
  }
}
