import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { ProgramLimitError } from '../core/programs';
import { outbound } from '../core/outbound';
import { programs } from '../core/tenant-programs';
import { McpFailure, withMcpServer } from './mcp-session';
import type { RemoteTool } from './snapshot';

/** Spec: Tools, mcp and resolution. */
const LIST = { timeoutMs: 10_000, attempts: 2, pagesMax: 100, toolsMax: 500 };
const CACHE = { max: 1_000, maxSize: 32 * 1024 * 1024, ttl: 60_000 };
const NAME_CHARACTERS_MAX = 256;

const Page = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });
const Listed = z.looseObject({
  name: z.string().min(1).max(NAME_CHARACTERS_MAX),
  description: z.string().nullish(),
  inputSchema: z.looseObject({ type: z.literal('object') }),
});

export interface ListRequest {
  /** Whose list it is: project and tool. */
  owner: string;
  url: string;
  /** Filled: they hold credentials. */
  headers: Readonly<Record<string, string>>;
  signal: AbortSignal;
  /** For the whole list, both attempts included. */
  timeoutMs?: number;
}

const known = new LRUCache<string, RemoteTool[]>(CACHE);

/**
 * All tools of an MCP server that can be offered to a model: those whose schema is an object schema within the bounds of
 * tenants' programs. Kept for 60 seconds per tool, address and header set. Repeatable: nothing is changed there.
 * @throws McpFailure, ProgramsBusyError
 */
export async function listMcpTools(request: ListRequest): Promise<RemoteTool[]> {
  const key = keyOf(request);
  const kept = known.get(key);
  if (kept !== undefined) return kept;
  const tools = await usable(await listed(request));
  known.set(key, tools, { size: Math.max(1, JSON.stringify(tools).length) });
  return tools;
}

/** A digest: addresses and headers hold credentials, which stand nowhere in the clear. */
const keyOf = ({ owner, url, headers }: ListRequest): string =>
  createHash('sha256')
    .update(JSON.stringify([owner, url, Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1))]))
    .digest('base64');

async function listed(request: ListRequest): Promise<unknown[]> {
  const endsAt = performance.now() + (request.timeoutMs ?? LIST.timeoutMs);
  for (let attempt = 1; ; attempt += 1) {
    const timeoutMs = Math.max(1, Math.round(endsAt - performance.now()));
    try {
      return await withMcpServer({ ...request, timeoutMs, fetch: outbound().fetch }, (client, limits) =>
        allPages(async (cursor) => {
          const params = cursor === undefined ? {} : { cursor };
          return client.request({ method: 'tools/list', params }, Page, limits());
        }),
      );
    } catch (error) {
      const isWorthwhile = error instanceof McpFailure && (error.kind === 'transport' || error.kind === 'status');
      if (!isWorthwhile || attempt === LIST.attempts || performance.now() >= endsAt) throw error;
    }
  }
}

async function allPages(page: (cursor: string | undefined) => Promise<z.output<typeof Page>>): Promise<unknown[]> {
  const tools: unknown[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < LIST.pagesMax && tools.length < LIST.toolsMax; pages += 1) {
    const next = await page(cursor);
    tools.push(...next.tools.slice(0, LIST.toolsMax - tools.length));
    cursor = next.nextCursor;
    if (cursor === undefined) break;
  }
  return tools;
}

/** Leaves out what is no tool, what stands twice, and schemas that our bounds refuse. */
async function usable(entries: unknown[]): Promise<RemoteTool[]> {
  const tools = new Map<string, RemoteTool>();
  for (const entry of entries) {
    const { data, success } = Listed.safeParse(entry);
    if (!success || tools.has(data.name)) continue;
    const { name, description = null, inputSchema: parameters } = data;
    if (await isUsable(parameters)) tools.set(name, { name, description, parameters });
  }
  return [...tools.values()];
}

async function isUsable(schema: Record<string, unknown>): Promise<boolean> {
  try {
    return (await programs().compileSchema(schema)).ok;
  } catch (error) {
    if (error instanceof ProgramLimitError) return false;
    throw error;
  }
}
