import { createHash } from 'node:crypto';
import { invalidInput } from '../core/errors';

/** Pure: the frames of a stream and the ids by which it is picked up again. Spec: Agents, generation rule 3. */

/** Where a reader stands: in which step, after how many characters, and what it knows of them. */
export interface Position {
  step: number;
  /** UTF-16 units of the step's text that are out. */
  offset: number;
  /** First 8 hex digits of their SHA-256: a step made again elsewhere may have said something else. */
  digest: string;
}

/** What a reader has of the frames that close a stream. */
export type Closing = `p${number}` | 'done';

export const START: Position = { step: 0, offset: 0, digest: digestOf('') };

/** Names what a reader was sent. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/** One delta of the model's text. */
export const deltaFrame = (text: string): string =>
  `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`;

/** The run pauses: what the caller has to do. */
export const pauseFrame = (result: object): string => `data: ${JSON.stringify(result)}\n\n`;

/** The stream failed; nothing follows. */
export const errorFrame = (message: string): string => `data: ${JSON.stringify({ error: message })}\n\n`;

/** The only sign of a complete stream. */
export const DONE_FRAME = 'data: [DONE]\n\n';

/** The line before a frame that is picked up. */
export const idLine = ({ step, offset, digest }: Position, closing?: Closing): string =>
  `id: ${String(step)}:${String(offset)}:${digest}${closing === undefined ? '' : `/${closing}`}\n`;

/**
 * Reads the header `Last-Event-ID`; without one the stream begins at its start.
 * @throws VALIDATION_FAILED
 */
export function positionOf(header: string | undefined): { position: Position; closing: string | null } {
  if (header === undefined || header === '') return { position: START, closing: null };
  const parts = /^(\d{1,6}):(\d{1,9}):([0-9a-f]{8})(?:\/(p\d{1,6}|done))?$/.exec(header);
  if (parts === null) throw invalidInput('VALIDATION_FAILED', 'header.Last-Event-ID', 'is no id of this stream');
  const [, step, offset, digest, closing] = parts;
  return { position: { step: Number(step), offset: Number(offset), digest: digest ?? '' }, closing: closing ?? null };
}
