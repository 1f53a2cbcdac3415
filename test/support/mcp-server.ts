/* eslint-disable @typescript-eslint/no-deprecated -- the client must serve what old servers speak, and bare answers need the bare server */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ErrorCode, ListToolsRequestSchema, McpError } from '@modelcontextprotocol/sdk/types.js';

export interface McpTestServer {
  /** Where the protocol is spoken. */
  url: string;
  /** Method and path of each request, in order. */
  requests: { method: string; path: string; headers: IncomingHttpHeaders }[];
  /** Calls of tools that reached it. */
  calls: { name: string; args: unknown }[];
  /** How many lists (first pages) were asked for. */
  lists: () => number;
  /** Sessions that are open, and connections that carry a request. */
  openSessions: () => number;
  openRequests: () => number;
  close(): Promise<void>;
}

interface McpTestOptions {
  /** `sse`: the protocol's first version only; it answers everything else 405. */
  transport?: 'streamable' | 'sse';
  /** Plain JSON answers instead of streams. */
  json?: boolean;
  /** The pages of its list; one page with all of its tools unless said. */
  pages?: object[][];
  /** Answers instead of the server; true when it did. */
  intercept?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

const anything = { type: 'object' };
/** What the server can do, by name. */
const behaviours: Record<string, (args: Record<string, unknown>, headers: IncomingHttpHeaders) => object> = {
  echo: (args) => ({ content: [{ type: 'text', text: JSON.stringify(args) }] }),
  say: ({ text }) => ({ content: [{ type: 'text', text }] }),
  two_parts: () => ({
    content: [
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ],
  }),
  structured: (args) => ({ content: [{ type: 'text', text: 'not this' }], structuredContent: { found: args } }),
  picture: () => ({
    content: [
      { type: 'text', text: 'see' },
      { type: 'image', data: 'aGk=', mimeType: 'image/png' },
    ],
  }),
  nothing: () => ({ content: [] }),
  fail: ({ text }) => ({ isError: true, content: [{ type: 'text', text: text ?? 'it is broken' }] }),
  refuse: () => {
    throw new McpError(ErrorCode.InvalidParams, 'no such thing');
  },
  headers: (_args, headers) => ({ content: [{ type: 'text', text: JSON.stringify(headers) }] }),
  large: () => ({ content: [{ type: 'text', text: 'x'.repeat(6_000_000) }] }),
};

export const listed = (name: string, inputSchema: object = anything): object => ({
  name,
  description: `does ${name}`,
  inputSchema,
});

/** A real MCP server on the loopback, made with the official SDK; `hang` never answers. */
export async function startMcpServer(options: McpTestOptions = {}): Promise<McpTestServer> {
  const { transport = 'streamable', json = false, intercept = () => false } = options;
  const pages = options.pages ?? [[...Object.keys(behaviours), 'hang'].map((name) => listed(name))];
  const seen: McpTestServer['requests'] = [];
  const calls: McpTestServer['calls'] = [];
  const streamable = new Map<string, StreamableHTTPServerTransport>();
  const sse = new Map<string, SSEServerTransport>();
  let lists = 0;
  let underWay = 0;

  const protocol = (): Server => {
    const server = new Server({ name: 'test', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
      const page = Number(params?.cursor ?? 0);
      if (page === 0) lists += 1;
      const more = page + 1 < pages.length ? { nextCursor: String(page + 1) } : {};
      return { tools: pages[page] ?? [], ...more };
    });
    server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: args = {} } }, extra) => {
      calls.push({ name, args });
      if (name === 'hang') await new Promise(() => undefined);
      const behaviour = behaviours[name];
      if (behaviour === undefined) throw new McpError(ErrorCode.InvalidParams, `unknown tool ${name}`);
      return behaviour(args, extra.requestInfo?.headers ?? {});
    });
    return server;
  };

  const streamed = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const known = streamable.get(String(request.headers['mcp-session-id']));
    if (known !== undefined) {
      await known.handleRequest(request, response);
      return;
    }
    const session = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: json,
      onsessioninitialized: (id) => void streamable.set(id, session),
      onsessionclosed: (id) => void streamable.delete(id),
    });
    await protocol().connect(session);
    await session.handleRequest(request, response);
  };
  const evented = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'GET') {
      const session = new SSEServerTransport('/messages', response);
      sse.set(session.sessionId, session);
      response.on('close', () => sse.delete(session.sessionId));
      await protocol().connect(session);
    } else if (pathname === '/messages') {
      await sse.get(searchParams.get('sessionId') ?? '')?.handlePostMessage(request, response);
    } else response.writeHead(405).end();
  };

  const http = createServer((request, response) => {
    seen.push({ method: request.method ?? '', path: request.url ?? '', headers: request.headers });
    underWay += 1;
    response.on('close', () => {
      underWay -= 1;
    });
    if (intercept(request, response)) return;
    (transport === 'sse' ? evented : streamed)(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${String(port)}/mcp`,
    requests: seen,
    calls,
    lists: () => lists,
    openSessions: () => streamable.size + sse.size,
    openRequests: () => underWay,
    close: () =>
      new Promise((resolve) => {
        http.close(() => {
          resolve();
        });
        http.closeAllConnections();
      }),
  };
}
