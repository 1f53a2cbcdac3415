import { z } from 'zod';
import type { Completion } from './completion';
import type { JsonAnswer } from './http';

const toolCallSchema = z.looseObject({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.looseObject({ name: z.string().min(1), arguments: z.string() }),
});
const contentSchema = z.union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() }))]);
const messageSchema = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: contentSchema.nullish(),
  tool_calls: z.array(toolCallSchema).nullish(),
  tool_call_id: z.string().nullish(),
});
const toolSchema = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
    parameters: z.record(z.string(), z.unknown()).nullish(),
  }),
});
const toolChoiceSchema = z.union([
  z.enum(['auto', 'none', 'required']),
  z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
]);
const responseFormatSchema = z.looseObject({
  type: z.string(),
  json_schema: z.looseObject({ schema: z.record(z.string(), z.unknown()).optional() }).optional(),
});
const chatRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(messageSchema).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  tools: z.array(toolSchema).max(1_000).nullish(),
  tool_choice: toolChoiceSchema.nullish(),
  response_format: responseFormatSchema.nullish(),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
});

export type ChatMessage = z.output<typeof messageSchema>;
export type ChatRequest = z.output<typeof chatRequestSchema>;

/** A piece of a streamed answer; `textDeltas` says how many text deltas are out once it is sent. */
export interface StreamPiece {
  text: string;
  textDeltas: number;
}

/** How a vendor writes what is the same answer: scripts know nothing of it. */
export interface Wire {
  errorAnswer(error: { status: number; message: string; param?: string | null }): JsonAnswer;
  plainBody(completion: Completion): unknown;
  pieces(completion: Completion, options: { includeUsage: boolean }): Generator<StreamPiece>;
  /** What closes a stream that is whole. */
  end: string;
}

/** A refusal, in the shape of the wire that was asked on. */
export class WireError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

/** Type and code of an error status, as OpenAI answers them. */
const errorKinds: Record<number, { type: string; code: string | null }> = {
  401: { type: 'invalid_request_error', code: 'invalid_api_key' },
  403: { type: 'invalid_request_error', code: 'unsupported_country_region_territory' },
  404: { type: 'invalid_request_error', code: 'model_not_found' },
  429: { type: 'rate_limit_error', code: 'rate_limit_exceeded' },
};

export function errorAnswer(error: { status: number; message: string; param?: string | null }): JsonAnswer {
  const unknown = { type: error.status >= 500 ? 'server_error' : 'invalid_request_error', code: null };
  const kind = errorKinds[error.status] ?? unknown;
  return { status: error.status, body: { error: { message: error.message, param: error.param ?? null, ...kind } } };
}

/** @throws WireError 400 naming the first wrong part */
export function parseWith<Output>(schema: z.ZodType<Output>, body: unknown): Output {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const param = issue === undefined || issue.path.length === 0 ? null : z.core.toDotPath(issue.path);
  throw new WireError(
    400,
    `Invalid value${param === null ? '' : ` for '${param}'`}: ${issue?.message ?? 'unknown'}`,
    param,
  );
}

/**
 * Reads a chat request and checks what the real service would refuse.
 * @throws WireError 400
 */
export function parseChatRequest(body: unknown): ChatRequest {
  const request = parseWith(chatRequestSchema, body);
  checkToolMessages(request.messages);
  return request;
}

/** Every tool call of an assistant message is answered by the tool messages right after it, and by nothing else. */
function checkToolMessages(messages: ChatMessage[]): void {
  let pending = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!pending.delete(message.tool_call_id ?? '')) {
        const text = `messages with role 'tool' must be a response to a preceding message with 'tool_calls'.`;
        throw new WireError(400, text, `messages[${index}].role`);
      }
      continue;
    }
    refuseUnanswered(pending, index);
    pending = new Set((message.tool_calls ?? []).map((call) => call.id));
  }
  refuseUnanswered(pending, messages.length);
}

function refuseUnanswered(pending: Set<string>, index: number): void {
  if (pending.size === 0) return;
  const text =
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. ` +
    `The following tool_call_ids did not have response messages: ${[...pending].join(', ')}`;
  throw new WireError(400, text, `messages[${index}].role`);
}

/** The text of a message, its text parts joined. */
export function textOf(message: ChatMessage): string {
  if (typeof message.content === 'string') return message.content;
  return (message.content ?? []).map((part) => part.text ?? '').join('\n');
}

/** About four characters a token, at least one. */
export function countTokens(...texts: string[]): number {
  const characters = texts.reduce((sum, text) => sum + text.length, 0);
  return Math.max(1, Math.ceil(characters / 4));
}
