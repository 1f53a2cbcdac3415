import type {
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3Prompt,
  SharedV3ProviderOptions,
} from '@ai-sdk/provider';
import type { ToolSnapshot, UnresolvedMcpTool } from '../tools/resolve';
import type { Steering } from './steering';

/** Pure: what a turn is made of, and how it is put to a model. */

/** The step under which the calls stand that fill messages; model steps are counted from 1. */
export const INPUT_STEP = 0;

/** A message whose content is what a tool gives. */
export interface ToolOutputContent {
  type: 'tool_output';
  tool_id: string;
  action?: string | undefined;
  input?: Record<string, unknown> | undefined;
  /** A jq expression over the result. */
  output_path?: string | undefined;
  /** Number of the call of step 0 that fills it. */
  call: number;
}

/** A message as it was given. */
export interface InputMessage {
  role: 'user' | 'assistant';
  content: string | ToolOutputContent;
}

/** What a run uses from beginning to end, whatever is edited meanwhile. */
export interface Turn {
  instructions: string | null;
  aiProviderId: string;
  model: string;
  temperature: number | null;
  maxSteps: number;
  maxContextMessages: number | null;
  tools: ToolSnapshot[];
  /** Names (or ids) of bound tools that could not be resolved; the model is told. */
  unavailable: string[];
  /** Ids of the bound tools, of inline ones their places, in their order. Absent, like what follows, in turns of builds that had none. */
  bindings?: string[];
  /** Bound mcp tools whose servers have not been asked yet. */
  unresolved?: UnresolvedMcpTool[];
  /** Tools of the calls that fill messages, by the number of the call. */
  inputTools?: ToolSnapshot[];
  steering?: Steering;
  /** What the final text must satisfy. */
  outputSchema?: Record<string, unknown> | null;
  /** Marks the prefix that does not change, for vendors that cache on request. */
  promptCaching?: boolean;
}

/** A stored step. */
export interface StoredStep {
  step: number;
  parts: LanguageModelV3Content[];
  finishReason: string | null;
}

/** Why a tool call failed, as the transcript shows it. */
export interface CallError {
  name: string;
  message: string;
  status?: number;
  method?: string;
  url?: string;
  body?: string;
  /** Of a call that fills a message: the code and facts with which it fails the run. */
  code?: string;
  meta?: Record<string, unknown>;
}

/** A tool call of a step, with its answer once it is in. */
export interface StoredCall {
  step: number;
  call: number;
  callId: string;
  toolName: string;
  kind: ToolSnapshot['type'] | 'none';
  args: unknown;
  /** The arguments with the presets of the tool put in; null where it has none. */
  pinned?: unknown;
  result: unknown;
  error: CallError | null;
  answered: boolean;
}

/** The tool of a call, as the turn has it; null when the model called none that is there. */
export const toolOfCall = (
  { tools, inputTools }: Pick<Turn, 'tools' | 'inputTools'>,
  { step, call, toolName }: { step: number; call: number; toolName: string },
): ToolSnapshot | null =>
  (step === INPUT_STEP ? inputTools?.[call] : tools.find(({ name }) => name === toolName)) ?? null;

/** All text of a step. */
export const textOf = (parts: LanguageModelV3Content[]): string =>
  parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

/** What the model reads of a failed call. */
export const errorText = (error: CallError): string =>
  error.body === undefined || error.body === '' ? error.message : `${error.message}\n${error.body}`;

type ResultOutput =
  { type: 'text'; value: string } | { type: 'json'; value: unknown } | { type: 'error-text'; value: string };

/** A call's answer in the shape of response messages and of prompts. */
export function outputOf(call: StoredCall): ResultOutput {
  if (call.error !== null) return { type: 'error-text', value: errorText(call.error) };
  return typeof call.result === 'string'
    ? { type: 'text', value: call.result }
    : { type: 'json', value: call.result ?? null };
}

export interface ResponseMessage {
  role: 'assistant' | 'tool';
  content: (
    | { type: 'text'; text: string }
    | { type: 'tool-call'; toolCallId: string; toolName: string; input: unknown }
    | { type: 'tool-result'; toolCallId: string; toolName: string; output: ResultOutput }
  )[];
}

/** What the steps of a turn added to the dialogue: every tool call stands with its result. */
export function responseMessages(steps: StoredStep[], calls: StoredCall[]): ResponseMessage[] {
  return steps.flatMap(({ step, parts }) => {
    const own = calls.filter((call) => call.step === step);
    const text = textOf(parts);
    const assistant: ResponseMessage = {
      role: 'assistant',
      content: [
        ...(text === '' && own.length > 0 ? [] : [{ type: 'text' as const, text }]),
        ...own.map(({ callId, toolName, args }) => ({
          type: 'tool-call' as const,
          toolCallId: callId,
          toolName,
          input: args,
        })),
      ],
    };
    const answered = own.filter((call) => call.answered);
    if (answered.length === 0) return [assistant];
    const results: ResponseMessage = {
      role: 'tool',
      content: answered.map((call) => ({
        type: 'tool-result' as const,
        toolCallId: call.callId,
        toolName: call.toolName,
        output: outputOf(call),
      })),
    };
    return [assistant, results];
  });
}

function systemText({ instructions, unavailable, outputSchema }: Turn, streamed: boolean): string {
  const notice = unavailable.length === 0 ? '' : `These tools are unavailable for now: ${unavailable.join(', ')}.`;
  // Vendors differ in what they do with a schema; every model can read it.
  const shape =
    outputSchema == null || streamed
      ? ''
      : `End with one JSON value and nothing else, which satisfies this JSON Schema: ${JSON.stringify(outputSchema)}`;
  return [instructions ?? '', shape, notice].filter((text) => text !== '').join('\n\n');
}

/** The content of a message that a call gave: texts as they are, other values as JSON. */
const contentOf = (result: unknown): string => (typeof result === 'string' ? result : JSON.stringify(result ?? null));

/** The messages with the results of their calls in place; what is not there yet reads as it was given. Pure. */
export const resolvedInput = (
  input: InputMessage[],
  calls: { step: number; call: number; result: unknown; answered: boolean; error: CallError | null }[],
): InputMessage[] =>
  input.map((message) => {
    const { content } = message;
    if (typeof content === 'string') return message;
    const call = calls.find(({ step, call: number }) => step === INPUT_STEP && number === content.call);
    return call?.answered === true && call.error === null ? { ...message, content: contentOf(call.result) } : message;
  });

/** What a prompt is made of. */
export interface PromptInput {
  turn: Turn;
  input: InputMessage[];
  steps: StoredStep[];
  calls: StoredCall[];
  streamed: boolean;
}

/**
 * Order sent: instructions, then the messages cut to the last `maxContextMessages` (input messages are counted), then
 * the steps of this turn, each call with its result. `cache` is put on the instructions.
 */
export function promptOf(
  { turn, input, steps, calls, streamed }: PromptInput,
  cache: SharedV3ProviderOptions = {},
): LanguageModelV3Prompt {
  const system = systemText(turn, streamed);
  const said = resolvedInput(input, calls);
  const kept = turn.maxContextMessages === null ? said : said.slice(-turn.maxContextMessages);
  const dialogue = kept.map(({ role, content }) => ({
    role,
    content: [{ type: 'text' as const, text: typeof content === 'string' ? content : '' }],
  }));
  return [
    ...(system === ''
      ? []
      : [
          {
            role: 'system' as const,
            content: system,
            ...(Object.keys(cache).length === 0 ? {} : { providerOptions: cache }),
          },
        ]),
    ...dialogue,
    ...responseMessages(steps, calls),
  ] as LanguageModelV3Prompt;
}

/** Tools as the model sees them. */
export const modelTools = (tools: ToolSnapshot[]): LanguageModelV3CallOptions['tools'] =>
  tools.map(({ name, description, parameters }) => ({
    type: 'function' as const,
    name,
    ...(description === null ? {} : { description }),
    inputSchema: parameters,
  }));

export interface ParsedCall {
  call: number;
  callId: string;
  toolName: string;
  toolId: string | null;
  kind: ToolSnapshot['type'] | 'none';
  args: unknown;
  pinned?: unknown;
  error: CallError | null;
}

/**
 * The tool calls of an answer: ids made unique, arguments parsed, tools that were not offered refused. `taken` are the ids of
 * the calls before: a target knows a call by its id, and would take a second one under it for a repeat.
 */
export function callsOf(
  offered: ToolSnapshot[],
  parts: LanguageModelV3Content[],
  taken: readonly string[] = [],
): ParsedCall[] {
  const seen = new Set(taken);
  const called = parts.filter((part) => part.type === 'tool-call');
  return called.map(({ toolCallId, toolName, input }, call) => {
    const callId = uniqueId(toolCallId, call, seen);
    seen.add(callId);
    const known = offered.find(({ name }) => name === toolName);
    const parsed = parseArguments(input);
    const base = {
      call,
      callId,
      toolName,
      toolId: known === undefined || known.inline === true ? null : known.id,
      args: parsed.args,
    };
    if (known === undefined) {
      return { ...base, kind: 'none', error: { name: 'ToolNotFound', message: `There is no tool named ${toolName}.` } };
    }
    if (parsed.problem !== null)
      return { ...base, kind: 'none', error: { name: 'InvalidArguments', message: parsed.problem } };
    return { ...base, kind: known.type, error: null };
  });
}

/** A provider may give no id, or one twice, in one answer or in two, or one that looks like what we made of a doubled one. */
function uniqueId(given: string, call: number, seen: ReadonlySet<string>): string {
  let id = given === '' ? `-${String(call)}` : given;
  while (seen.has(id)) id = `${id}-${String(call)}`;
  return id;
}

function parseArguments(input: string): { args: unknown; problem: string | null } {
  if (input.trim() === '') return { args: {}, problem: null };
  try {
    const args: unknown = JSON.parse(input);
    const isObject = typeof args === 'object' && args !== null && !Array.isArray(args);
    return { args, problem: isObject ? null : 'The arguments must be a JSON object.' };
  } catch {
    return { args: input, problem: 'The arguments are not valid JSON.' };
  }
}

/** Why a turn without further calls ended: final text is `stop`, any other reason of the provider is relayed. */
export const stopReasonOf = (finishReason: string): string => (finishReason === 'tool-calls' ? 'stop' : finishReason);
