import type { JsonSchema } from './arguments';
import { synthesiseArguments } from './arguments';
import type { NameMatch } from './hints';
import { findNames, Hints } from './hints';
import type { Reply } from './script';
import type { ChatMessage, ChatRequest } from './wire';
import { textOf } from './wire';

const quotedCharactersMax = 10_000;

/**
 * The answer when no script speaks: calls of the tools that the last user message names, a sentence that quotes tool
 * results, or an echo. Pure and deterministic.
 */
export function defaultReply(request: ChatRequest): Reply {
  const lastUser = request.messages.findLastIndex((message) => message.role === 'user');
  const message = lastUser < 0 ? '' : textOf(request.messages[lastUser] as ChatMessage);
  const results = resultsOf(request.messages.slice(lastUser + 1));
  const calls = toolCalls({ request, message, answered: new Set(results.map((result) => result.name)) });
  if (calls.length > 0) return { toolCalls: calls };
  const schema = request.response_format?.json_schema?.schema;
  if (schema !== undefined) return { text: JSON.stringify(synthesiseArguments(schema, new Hints(message, undefined))) };
  return cut(results.length > 0 ? quote(results) : `You said: ${message}`, request);
}

interface ToolResult {
  name: string;
  text: string;
}

/** Results of tools among the given messages, under the names of the calls that they answer. */
function resultsOf(messages: ChatMessage[]): ToolResult[] {
  const names = new Map<string, string>();
  const results: ToolResult[] = [];
  for (const message of messages) {
    for (const call of message.tool_calls ?? []) names.set(call.id, call.function.name);
    if (message.role === 'tool')
      results.push({ name: names.get(message.tool_call_id ?? '') ?? 'tool', text: textOf(message) });
  }
  return results;
}

function quote(results: ToolResult[]): string {
  return results.map(({ name, text }) => `${name} answered: ${text.slice(0, quotedCharactersMax)}`).join('\n');
}

interface Asked {
  request: ChatRequest;
  message: string;
  /** Tools that have a result since the last user message; they are not called again. */
  answered: Set<string>;
}

function toolCalls({ request, message, answered }: Asked): { name: string; args: unknown }[] {
  const tools = new Map((request.tools ?? []).map((tool) => [tool.function.name, tool.function.parameters ?? {}]));
  const mentions = findNames(message, [...tools.keys()]);
  const wanted = wantedNames(request, mentions).filter((name) => !answered.has(name));
  return wanted.map((name) => {
    const mention = mentions.find((match) => match.name === name);
    const hints = new Hints(message, mention, mentions);
    const schema: JsonSchema = { type: 'object', ...tools.get(name) };
    return { name, args: synthesiseArguments(schema, hints) };
  });
}

/** The tools to call: those named in the message, within what `tool_choice` allows and asks for. */
function wantedNames(request: ChatRequest, mentions: NameMatch[]): string[] {
  const named = [...new Set(mentions.map((mention) => mention.name))];
  const choice = request.tool_choice ?? 'auto';
  if (choice === 'none') return [];
  if (typeof choice === 'object') return [choice.function.name];
  const first = request.tools?.[0]?.function.name;
  return choice === 'required' && named.length === 0 && first !== undefined ? [first] : named;
}

/** Obeys the caller's token limit, as the real service does. */
function cut(text: string, request: ChatRequest): Reply {
  const tokensMax = request.max_completion_tokens ?? request.max_tokens;
  if (tokensMax == null || text.length <= tokensMax * 4) return { text };
  return { text: text.slice(0, tokensMax * 4), finishReason: 'length' };
}
