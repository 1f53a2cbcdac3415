import { z } from 'zod';
import type { JsonAnswer } from './http';
import { countTokens, parseWith } from './wire';

const dimensionsDefault = 1_536;
const dimensionsMax = 4_096;

const inputText = z.string().min(1);
const requestSchema = z.looseObject({
  model: z.string().min(1),
  input: z.union([inputText, z.array(inputText).min(1).max(2_048)]),
  dimensions: z.int().min(1).max(dimensionsMax).nullish(),
  encoding_format: z.enum(['float', 'base64']).nullish(),
});

/**
 * Answers an embeddings request. Pure: the same text and dimensions give the same vector.
 * @throws WireError 400
 */
export function embeddingsAnswer(body: unknown): JsonAnswer {
  const request = parseWith(requestSchema, body);
  const inputs = typeof request.input === 'string' ? [request.input] : request.input;
  const data = inputs.map((text, index) => {
    const vector = embed(text, request.dimensions ?? dimensionsDefault);
    const embedding = request.encoding_format === 'base64' ? toBase64(vector) : vector;
    return { object: 'embedding', index, embedding };
  });
  const tokens = countTokens(...inputs);
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return { status: 200, body: { object: 'list', data, model: request.model, usage } };
}

/**
 * A unit vector of hashed words and letter triples, so that texts which share words are near each other.
 * @param dimensions length of the vector
 */
export function embed(text: string, dimensions: number): number[] {
  const vector = new Array<number>(dimensions).fill(0);
  for (const [feature, weight] of featuresOf(text)) {
    const hash = fnv1a(feature);
    const slot = hash % dimensions;
    vector[slot] = (vector[slot] ?? 0) + (hash & 0x80000000 ? -weight : weight);
  }
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  // Opposite features may cancel out; a zero vector has no direction and would break cosine distance.
  if (length === 0) vector[0] = 1;
  return vector.map((value) => (length === 0 ? value : value / length));
}

/** Whole words weigh more than letter triples, which make related word forms similar. */
function* featuresOf(text: string): Generator<[string, number]> {
  const lower = text.toLowerCase();
  for (const word of lower.split(/[^\p{L}\p{N}]+/u)) if (word !== '') yield [`word:${word}`, 3];
  const padded = ` ${lower.replace(/\s+/g, ' ')} `;
  for (let index = 0; index + 3 <= padded.length; index += 1) yield [`triple:${padded.slice(index, index + 3)}`, 1];
}

/** 32-bit FNV-1a with a final mix, since its low bits alone spread poorly over the slots. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function toBase64(vector: number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}
