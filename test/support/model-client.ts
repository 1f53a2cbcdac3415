import type { LanguageModelV3, LanguageModelV3CallOptions, LanguageModelV3StreamPart } from '@ai-sdk/provider';

/** Options of a call whose prompt is one user message. */
export function ask(text: string, more: Partial<LanguageModelV3CallOptions> = {}): LanguageModelV3CallOptions {
  return { prompt: [{ role: 'user', content: [{ type: 'text', text }] }], ...more };
}

/** All parts of a streamed answer. */
export async function partsOf(
  model: LanguageModelV3,
  options: LanguageModelV3CallOptions,
): Promise<LanguageModelV3StreamPart[]> {
  const { stream } = await model.doStream(options);
  const parts: LanguageModelV3StreamPart[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/** The text deltas among the parts, joined. */
export function textFrom(parts: LanguageModelV3StreamPart[]): string {
  return parts.map((part) => (part.type === 'text-delta' ? part.delta : '')).join('');
}

export async function postJson(
  url: string | URL,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  const allHeaders = { 'content-type': 'application/json', ...headers };
  return fetch(url, { method: 'POST', headers: allHeaders, body: JSON.stringify(body) });
}

/** Says hello to a model over plain HTTP, under an idempotency key where one is given. */
export async function sayHello(baseUrl: string, model: string, key?: string): Promise<Response> {
  const body = { model, messages: [{ role: 'user', content: 'hello' }] };
  return postJson(`${baseUrl}/chat/completions`, body, key === undefined ? {} : { 'Idempotency-Key': key });
}

/** The text of a plain chat completion. */
export async function completionText(response: Response): Promise<string> {
  const body = (await response.json()) as { choices: { message: { content: string } }[] };
  return body.choices[0]?.message.content ?? '';
}
