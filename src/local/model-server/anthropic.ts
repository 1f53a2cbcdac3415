import { z } from 'zod';
import type { Completion } from './completion';
import { halves } from './completion';
import type { JsonAnswer } from './http';
import type { StreamPiece, Wire } from './wire';
import { parseWith } from './wire';

const textBlock = z.looseObject({ type: z.literal('text'), text: z.string() });
const toolUseBlock = z.looseObject({
  type: z.literal('tool_use'),
  id: z.string().min(1),
  name: z.string().min(1),
  input: z.unknown(),
});
const resultBlock = z.looseObject({
  type: z.literal('tool_result'),
  tool_use_id: z.string().min(1),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]).optional(),
});
const systemSchema = z.union([z.string(), z.array(textBlock)]);
const messageSchema = z.discriminatedUnion('role', [
  z.looseObject({
    role: z.literal('user'),
    content: z.union([z.string(), z.array(z.union([textBlock, resultBlock]))]),
  }),
  z.looseObject({
    role: z.literal('assistant'),
    content: z.union([z.string(), z.array(z.union([textBlock, toolUseBlock]))]),
  }),
]);
const requestSchema = z.looseObject({
  model: z.string().min(1),
  max_tokens: z.int().min(1),
  system: systemSchema.optional(),
  messages: z.array(messageSchema).min(1),
  stream: z.boolean().optional(),
  tools: z
    .array(z.looseObject({ name: z.string(), input_schema: z.record(z.string(), z.unknown()) }))
    .max(1_000)
    .optional(),
  tool_choice: z.looseObject({ type: z.enum(['auto', 'any', 'tool', 'none']), name: z.string().optional() }).optional(),
});

type MessagesRequest = z.output<typeof requestSchema>;
type Message = MessagesRequest['messages'][number];

/**
 * A request of the Messages wire as the chat request that asks for the same.
 * @throws WireError 400 for what the real service would refuse
 */
export function chatRequestOf(body: unknown): unknown {
  const request = parseWith(requestSchema, body);
  const { model, max_tokens: maxTokens, stream, system, tools, tool_choice: choice } = request;
  return {
    model,
    max_tokens: maxTokens,
    ...(stream === undefined ? {} : { stream }),
    messages: [
      ...(system === undefined ? [] : [{ role: 'system', content: system }]),
      ...request.messages.flatMap(chatMessages),
    ],
    ...(tools === undefined
      ? {}
      : {
          tools: tools.map(({ name, input_schema: parameters }) => ({
            type: 'function',
            function: { name, parameters },
          })),
        }),
    ...(choice === undefined ? {} : { tool_choice: chatChoice(choice) }),
  };
}

function chatChoice({ type, name }: NonNullable<MessagesRequest['tool_choice']>): unknown {
  if (type === 'tool') return { type: 'function', function: { name: name ?? '' } };
  return type === 'any' ? 'required' : type;
}

/** Results of tools stand in messages of the user here, and in messages of their own there. */
function chatMessages(message: Message): unknown[] {
  if (typeof message.content === 'string') return [{ role: message.role, content: message.content }];
  const texts = message.content.filter((block) => block.type === 'text');
  const said = texts.length === 0 ? null : texts;
  if (message.role === 'assistant') {
    const calls = message.content.flatMap((block) =>
      block.type === 'tool_use'
        ? [
            {
              id: block.id,
              type: 'function',
              function: { name: block.name, arguments: JSON.stringify(block.input ?? {}) },
            },
          ]
        : [],
    );
    return [{ role: 'assistant', content: said, ...(calls.length === 0 ? {} : { tool_calls: calls }) }];
  }
  const results = message.content.flatMap((block) =>
    block.type === 'tool_result'
      ? [{ role: 'tool', tool_call_id: block.tool_use_id, content: block.content ?? '' }]
      : [],
  );
  return [...results, ...(said === null ? [] : [{ role: 'user', content: said }])];
}

const errorTypes: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

function errorAnswer({ status, message }: { status: number; message: string }): JsonAnswer {
  const type = errorTypes[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { status, body: { type: 'error', error: { type, message } } };
}

/** Words of the chat wire in this one's; a script may also write these themselves. */
const stopReasons: Record<string, string> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

const stopReasonOf = ({ finishReason }: Completion): string => stopReasons[finishReason] ?? finishReason;
const messageId = ({ id }: Completion): string => id.replace(/^chatcmpl-/, 'msg_');
const callId = (id: string): string => id.replace(/^call_(?=[0-9a-f]{24}$)/, 'toolu_');

/** Counts leave out here what came from the cache or went into it. */
function inputUsage({ usage, cacheWriteTokens }: Completion): Record<string, number> {
  const cached = usage.prompt_tokens_details.cached_tokens;
  return {
    input_tokens: Math.max(0, usage.prompt_tokens - cached - cacheWriteTokens),
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cached,
  };
}

function inputOf(written: string): unknown {
  try {
    return JSON.parse(written) as unknown;
  } catch {
    return written; // Broken on purpose by a script.
  }
}

function messageBody(completion: Completion): unknown {
  const { model, text, toolCalls, usage } = completion;
  const calls = toolCalls.map((call) => ({
    type: 'tool_use',
    id: callId(call.id),
    name: call.function.name,
    input: inputOf(call.function.arguments),
  }));
  return {
    id: messageId(completion),
    type: 'message',
    role: 'assistant',
    model,
    content: [...(text === null || text === '' ? [] : [{ type: 'text', text }]), ...calls],
    stop_reason: stopReasonOf(completion),
    stop_sequence: null,
    usage: { ...inputUsage(completion), output_tokens: usage.completion_tokens },
  };
}

function* messageEvents(completion: Completion): Generator<StreamPiece> {
  const { model, usage } = completion;
  let textDeltas = 0;
  const event = (type: string, data: object): StreamPiece => ({
    text: `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`,
    textDeltas,
  });
  const message = {
    id: messageId(completion),
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...inputUsage(completion), output_tokens: 1 },
  };
  yield event('message_start', { message });
  yield event('ping', {});
  let index = 0;
  if (completion.chunks.length > 0) {
    yield event('content_block_start', { index, content_block: { type: 'text', text: '' } });
    for (const text of completion.chunks) {
      textDeltas += 1;
      yield event('content_block_delta', { index, delta: { type: 'text_delta', text } });
    }
    yield event('content_block_stop', { index });
    index += 1;
  }
  for (const call of completion.toolCalls) {
    const block = { type: 'tool_use', id: callId(call.id), name: call.function.name, input: {} };
    yield event('content_block_start', { index, content_block: block });
    for (const part of halves(call.function.arguments)) {
      yield event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: part } });
    }
    yield event('content_block_stop', { index });
    index += 1;
  }
  yield event('message_delta', {
    delta: { stop_reason: stopReasonOf(completion), stop_sequence: null },
    usage: { output_tokens: usage.completion_tokens },
  });
  yield event('message_stop', {});
}

/** The wire of `POST /v1/messages`. */
export const messagesWire: Wire = {
  errorAnswer,
  plainBody: messageBody,
  pieces: (completion) => messageEvents(completion),
  end: '',
};

/** The listing of models in this wire's shape. */
export function modelListing(names: string[]): unknown {
  const data = names.map((id) => ({ type: 'model', id, display_name: id, created_at: '2026-01-01T00:00:00Z' }));
  return { data, has_more: false, first_id: names[0] ?? null, last_id: names.at(-1) ?? null };
}
