import { createHash } from 'node:crypto';
import type { Reply, ReplyUsage } from './script';
import type { ChatRequest, StreamPiece, Wire } from './wire';
import { countTokens, errorAnswer, textOf } from './wire';

/** Deltas that a text without scripted chunks is cut into, at most. */
const textDeltasMax = 200;

interface WireToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** One answer, ready for either form. */
export interface Completion {
  id: string;
  /** Unix seconds. */
  created: number;
  model: string;
  text: string | null;
  chunks: string[];
  toolCalls: WireToolCall[];
  finishReason: string;
  usage: WireUsage;
  /** Part of the prompt's tokens; the chat wire has no place for it. */
  cacheWriteTokens: number;
}

interface WireUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: { reasoning_tokens: number };
}

export interface CompletionInput {
  request: ChatRequest;
  reply: Reply;
  /** Makes the ids: the same identity gives the same ids, so a repeated call of a step answers alike. */
  identity: string;
  created: number;
}

/** Turns a reply into a completion: ids, counts and finish reason filled in. */
export function buildCompletion({ request, reply, identity, created }: CompletionInput): Completion {
  const text = reply.text ?? (reply.chunks === undefined ? null : reply.chunks.join(''));
  const toolCalls = (reply.toolCalls ?? []).map(({ id, name, args }, index): WireToolCall => {
    const callId = id ?? `call_${digest(`${identity}\n${index}`)}`;
    // A text goes out unchanged: that is how a script writes broken arguments.
    const written = typeof args === 'string' ? args : JSON.stringify(args ?? {});
    return { id: callId, type: 'function', function: { name, arguments: written } };
  });
  return {
    id: `chatcmpl-${digest(identity)}`,
    created,
    model: request.model,
    text: text ?? (toolCalls.length > 0 ? null : ''),
    chunks: reply.chunks ?? deltasOf(text ?? ''),
    toolCalls,
    finishReason: reply.finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop'),
    usage: usageOf(reply.usage ?? {}, { input: promptTokens(request), output: outputTokens(text ?? '', toolCalls) }),
    cacheWriteTokens: cacheWritesOf(reply),
  };
}

const cacheWritesOf = ({ usage }: Reply): number => usage?.cacheWriteTokens ?? 0;

function digest(identity: string): string {
  return createHash('sha256').update(identity).digest('hex').slice(0, 24);
}

function deltasOf(text: string): string[] {
  const words = text.match(/\s*\S+\s*/g) ?? (text === '' ? [] : [text]);
  const size = Math.max(1, Math.ceil(words.length / textDeltasMax));
  return Array.from({ length: Math.ceil(words.length / size) }, (_, index) =>
    words.slice(index * size, (index + 1) * size).join(''),
  );
}

function promptTokens(request: ChatRequest): number {
  const texts = request.messages.flatMap((message) => [
    textOf(message),
    ...(message.tool_calls ?? []).flatMap((call) => [call.function.name, call.function.arguments]),
  ]);
  return countTokens(...texts, request.tools == null ? '' : JSON.stringify(request.tools));
}

function outputTokens(text: string, toolCalls: WireToolCall[]): number {
  return countTokens(text, ...toolCalls.flatMap((call) => [call.function.name, call.function.arguments]));
}

function usageOf(given: ReplyUsage, counted: { input: number; output: number }): WireUsage {
  const input = given.inputTokens ?? counted.input;
  const output = given.outputTokens ?? counted.output;
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: given.cachedTokens ?? 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

/** The body of a plain answer. */
function completionBody(completion: Completion): unknown {
  const { id, created, model, text, toolCalls, finishReason, usage } = completion;
  const calls = toolCalls.length > 0 ? { tool_calls: toolCalls } : {};
  const message = { role: 'assistant', content: text, refusal: null, ...calls };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: finishReason }];
  return { id, object: 'chat.completion', created, model, choices, usage, system_fingerprint: null };
}

/** The chunks of a streamed answer in order, without the closing `[DONE]`. */
function* completionChunks(completion: Completion, includeUsage: boolean): Generator<StreamPiece> {
  const { id, created, model } = completion;
  const envelope = { id, object: 'chat.completion.chunk', created, model, system_fingerprint: null };
  const pending = includeUsage ? { usage: null } : {};
  let textDeltas = 0;
  const frame = (data: object): StreamPiece => ({
    text: `data: ${JSON.stringify({ ...envelope, ...data })}\n\n`,
    textDeltas,
  });
  const chunk = (delta: unknown, finishReason: string | null): StreamPiece => {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: finishReason }];
    return frame({ choices, ...pending });
  };
  yield chunk({ role: 'assistant', content: completion.text === null ? null : '', refusal: null }, null);
  for (const content of completion.chunks) {
    textDeltas += 1;
    yield chunk({ content }, null);
  }
  for (const [index, call] of completion.toolCalls.entries()) {
    const { name, arguments: written } = call.function;
    yield chunk({ tool_calls: [{ index, id: call.id, type: 'function', function: { name, arguments: '' } }] }, null);
    for (const part of halves(written)) yield chunk({ tool_calls: [{ index, function: { arguments: part } }] }, null);
  }
  yield chunk({}, completion.finishReason);
  if (includeUsage) yield frame({ choices: [], usage: completion.usage });
}

/** The wire of `POST /v1/chat/completions`. */
export const chatWire: Wire = {
  errorAnswer,
  plainBody: completionBody,
  pieces: (completion, { includeUsage }) => completionChunks(completion, includeUsage),
  end: 'data: [DONE]\n\n',
};

/** Arguments come in pieces from the real service; two suffice to prove that the reader joins them. */
export function halves(text: string): string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter((part) => part !== '');
}
