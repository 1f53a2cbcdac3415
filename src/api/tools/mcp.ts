import { z } from 'zod';
import { OutboundError } from '../core/http';
import { outbound } from '../core/outbound';
import type { ToolContext } from './context';
import { failedCall, mcpEndpoint } from './filling';
import type { McpEndpoint } from './filling';
import { listMcpTools } from './mcp-list';
import { McpFailure, withMcpServer } from './mcp-session';
import type { CallOutcome } from './outcome';
import type { Redaction } from './redaction';
import { TooDeepError } from './redaction';
import { findSnapshot } from './resolve';
import { readAnswer } from './response';
import { MCP_TIMEOUT_MS, remoteSnapshotOf } from './snapshot';
import type { ToolSnapshot } from './snapshot';

/** What providers take as the name of a function. */
const MODEL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const MESSAGE_CHARACTERS_MAX = 4096;

/** Why the tools of an MCP server cannot be had. */
export type McpUnavailable = 'deleted' | 'secret_gone' | 'context_key_missing' | 'egress_blocked' | 'unreachable';

const Answer = z.looseObject({
  content: z.array(z.unknown()).optional(),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
});
const TextPart = z.looseObject({ type: z.literal('text'), text: z.string() });

/** Whether a remote tool may be used: `actions` null = all, `denied_actions` wins. */
export const isAllowed = (
  { actions, deniedActions }: Pick<ToolSnapshot, 'actions' | 'deniedActions'>,
  remoteName: string,
): boolean => (actions?.includes(remoteName) ?? true) && deniedActions?.includes(remoteName) !== true;

/**
 * The remote tools of an mcp tool as a turn uses them, each named `{name}_{remote tool}`, narrowed to the allowed ones; a
 * name that no provider takes is left out. Asks the server, at most 10 seconds, or answers from the last 60. Repeatable.
 * @param asked the id of a stored tool, or an inline tool itself
 * Spec: Tools, resolution.
 * @throws OutboundError of kind `aborted` when `signal` ended it; ProgramsBusyError
 */
export async function resolveMcpTools(
  projectId: string,
  asked: string | ToolSnapshot,
  { toolContext, signal, timeoutMs }: { toolContext: ToolContext; signal: AbortSignal; timeoutMs?: number },
): Promise<ToolSnapshot[] | { unavailable: McpUnavailable }> {
  const tool = typeof asked === 'string' ? await findSnapshot(projectId, asked) : asked;
  if (tool?.type !== 'mcp') return { unavailable: 'deleted' };
  if (tool.actions?.length === 0) return [];
  const found = await mcpEndpoint(tool, projectId, toolContext);
  if (found.kind === 'error') return { unavailable: reasonOf(found.error.code) };
  const { url, headers } = found.endpoint;
  try {
    const listed = await listMcpTools({
      owner: `${projectId}/${tool.id}`,
      url,
      headers,
      signal,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
    return listed
      .filter(({ name }) => isAllowed(tool, name))
      .map((remote) => remoteSnapshotOf(tool, remote))
      .filter(({ name }) => MODEL_NAME.test(name));
  } catch (error) {
    if (!(error instanceof McpFailure)) throw error;
    if (error.kind === 'aborted') throw aborted();
    return { unavailable: error.kind === 'egress_blocked' ? 'egress_blocked' : 'unreachable' };
  }
}

function reasonOf(code: string): McpUnavailable {
  if (code === 'SECRET_NOT_FOUND') return 'secret_gone';
  return code === 'MISSING_TOOL_CONTEXT_KEY' ? 'context_key_missing' : 'unreachable';
}

export interface McpCall {
  /** With the `remoteName` to call. */
  tool: ToolSnapshot;
  projectId: string;
  /** The merged arguments. */
  args: Record<string, unknown>;
  toolContext: ToolContext;
  signal: AbortSignal;
}

/**
 * Calls one tool of an MCP server in a session of its own, with secrets as they are now. A name outside the lists is
 * refused before anything is sent. Not repeatable: the server may have acted already. Spec: Tools, mcp.
 * @throws OutboundError of kind `aborted` when `signal` ended the call
 */
export async function callMcp({ tool, projectId, args, toolContext, signal }: McpCall): Promise<CallOutcome> {
  const { remoteName: name } = tool;
  if (name == null)
    return failedCall(tool, { code: 'VALIDATION_FAILED', message: 'An mcp tool is called by an action' });
  if (!isAllowed(tool, name)) {
    return failedCall(tool, { code: 'VALIDATION_FAILED', message: `The action ${name} is not one of this tool` });
  }
  const found = await mcpEndpoint(tool, projectId, toolContext);
  if (found.kind === 'error') return found;
  const { url, headers, redaction } = found.endpoint;
  const server = { url, headers, signal, timeoutMs: tool.timeoutMs ?? MCP_TIMEOUT_MS, fetch: outbound().fetch };
  try {
    const answer = await withMcpServer(server, (client, limits) =>
      client.request({ method: 'tools/call', params: { name, arguments: args } }, Answer, limits()),
    );
    return outcomeOf(tool, answer, redaction);
  } catch (error) {
    if (error instanceof McpFailure) return failureOf(tool, error, found.endpoint);
    throw error;
  }
}

function outcomeOf(tool: ToolSnapshot, answer: z.output<typeof Answer>, redaction: Redaction): CallOutcome {
  const { content = [], structuredContent, isError } = answer;
  const texts = content.map((part) => TextPart.safeParse(part).data?.text);
  const text = texts.filter((part) => part !== undefined).join('\n');
  if (isError === true) {
    const message = redaction.text(text).slice(0, MESSAGE_CHARACTERS_MAX);
    return failedCall(tool, { code: 'TOOL_HTTP_ERROR', message: message === '' ? 'The remote tool failed' : message });
  }
  try {
    if (structuredContent != null) return { kind: 'result', value: redaction.value(structuredContent) };
    if (texts.includes(undefined)) return { kind: 'result', value: redaction.value(content) };
    return { kind: 'result', value: readAnswer(Buffer.from(text), redaction).value };
  } catch (error) {
    if (!(error instanceof TooDeepError || error instanceof RangeError)) throw error;
    return failedCall(tool, { code: 'TOOL_HTTP_ERROR', message: 'The answer is nested too deeply' });
  }
}

function failureOf(tool: ToolSnapshot, failure: McpFailure, { redaction }: McpEndpoint): CallOutcome {
  const message = redaction.text(failure.message);
  const { status, body, address } = failure.facts;
  switch (failure.kind) {
    case 'aborted':
      throw aborted();
    case 'timeout':
      return failedCall(tool, { code: 'TOOL_TIMEOUT', message });
    case 'egress_blocked':
      return failedCall(tool, {
        code: 'TOOL_EGRESS_BLOCKED',
        message: `The target may not be called: ${message}`,
        ...(address === undefined ? {} : { address }),
      });
    case 'status':
    case 'answer':
    case 'transport':
      return failedCall(tool, {
        code: 'TOOL_HTTP_ERROR',
        message,
        ...(status === undefined ? {} : { status }),
        ...(body === undefined ? {} : { body: redaction.text(body) }),
      });
  }
}

const aborted = (): OutboundError =>
  new OutboundError({ kind: 'aborted', detail: 'aborted by the caller', sent: true });
