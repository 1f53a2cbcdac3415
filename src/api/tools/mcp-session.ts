import { deadline } from '../core/deadline';
import { OutboundError, outboundErrorOf } from '../core/http';
import type { OutboundFetch } from '../core/http';

/** One session with an MCP server, from the first byte to the last: nothing of it outlives the call it was opened for. */

/** Decoded bytes that a server may send in one session. */
export const SESSION_BYTES_MAX = 5_000_000;
const SHOWN_CHARACTERS_MAX = 4096;
/** The server is told that a session ends, but nobody waits for what it says to that. */
const GOODBYE_MS_MAX = 2_000;
/** Said by the protocol for each message. */
const PROTOCOL_HEADERS = new Set(['mcp-session-id', 'mcp-protocol-version', 'last-event-id', 'accept', 'content-type']);
/** Statuses by which a server says that it does not refuse the caller, but does not speak Streamable HTTP. */
const isOlderTransport = (status: number): boolean =>
  status >= 400 && status < 500 && status !== 401 && status !== 403 && status !== 429;

/** Why a session came to nothing; texts are the transport's or the server's and not redacted yet. */
export class McpFailure extends Error {
  override readonly name = 'McpFailure';
  constructor(
    readonly kind: 'egress_blocked' | 'timeout' | 'aborted' | 'status' | 'answer' | 'transport',
    message: string,
    readonly facts: { status?: number; body?: string; address?: string } = {},
  ) {
    super(message);
  }
}

export interface McpServer {
  url: string;
  /** Filled: they hold credentials. */
  headers: Readonly<Record<string, string>>;
  /** Ends the session. */
  signal: AbortSignal;
  /** For the whole session. */
  timeoutMs: number;
  fetch: OutboundFetch;
}

/** What went over the wire of a session, in so far as it tells why it failed. */
interface Trace {
  refusal?: OutboundError;
  answer?: { status: number; body: string };
  bytes: number;
  /** Ends the session at once: the library would wait for an answer that cannot come any more. */
  stop: (reason: OutboundError) => void;
}

type Library = Awaited<ReturnType<typeof load>>;
type Client = InstanceType<Library['Client']>;

/** What is done in a session; each request of the client takes limits of its own: the library never leaves a signal. */
type Use<T> = (client: Client, limits: () => { signal: AbortSignal; timeout: number }) => Promise<T>;

/**
 * Opens a session over Streamable HTTP, or over SSE where the server knows no other, and closes it whatever happens.
 * @throws McpFailure
 */
export async function withMcpServer<T>(server: McpServer, use: Use<T>): Promise<T> {
  const stopped = new AbortController();
  const late = deadline(server.timeoutMs, undefined);
  const signal = AbortSignal.any([server.signal, late.signal, stopped.signal]);
  const trace: Trace = {
    bytes: 0,
    stop: (reason) => {
      stopped.abort(reason);
    },
  };
  const fetch = tracedFetch(server.fetch, { trace, signal });
  try {
    return await untilAborted(signal, inSession({ ...server, signal, fetch }, { trace, use }));
  } catch (error) {
    throw failureOf(error, { trace, server, late: late.signal });
  } finally {
    late.end();
  }
}

async function inSession<T>(server: McpServer, { trace, use }: { trace: Trace; use: Use<T> }): Promise<T> {
  const library = await loaded();
  const { signal } = server;
  const url = new URL(server.url);
  const options = {
    requestInit: { headers: configured(server.headers) },
    // Each hop is followed and checked by our own client.
    redirectPolicy: 'follow' as const,
  };
  const streamable = new library.StreamableHTTPClientTransport(url, {
    ...options,
    fetch: withoutUnasked(server.fetch),
  });
  let transport: Parameters<Client['connect']>[0] = streamable;
  let client = newClient(library);
  // The session has a deadline of its own; the library's must not come before it.
  const limits = () => ({ signal: AbortSignal.any([signal]), timeout: server.timeoutMs + 60_000 });
  try {
    try {
      await client.connect(transport, limits());
    } catch (error) {
      const first = trace.answer;
      if (signal.aborted || first === undefined || !isOlderTransport(first.status)) throw error;
      await transport.close();
      transport = new library.SSEClientTransport(url, { ...options, fetch: server.fetch });
      client = newClient(library);
      await client.connect(transport, limits()).catch((second: unknown) => {
        // What the server said first tells more than that it has no stream either.
        trace.answer = first;
        throw second;
      });
    }
    delete trace.answer;
    return await use(client, limits);
  } finally {
    await streamable.terminateSession().catch(() => undefined);
    await transport.close().catch(() => undefined);
  }
}

/** Loaded at the first call of a server: most processes never make one. */
let library: ReturnType<typeof load> | undefined;
const loaded = (): ReturnType<typeof load> => (library ??= load());

async function load() {
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- servers of the protocol's first version speak nothing else
  const [{ Client }, { StreamableHTTPClientTransport }, { SSEClientTransport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/client/sse.js'),
  ]);
  return { Client, StreamableHTTPClientTransport, SSEClientTransport };
}

/** Schemas of servers are programs of tenants: the library's own validator would compile them in this process. */
const noValidator = {
  getValidator: () => () => {
    throw new Error('schemas are not checked here');
  },
};

const newClient = ({ Client }: Library): Client =>
  new Client({ name: 'svc-tools', version: '1' }, { capabilities: {}, jsonSchemaValidator: noValidator });

const configured = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !PROTOCOL_HEADERS.has(name.toLowerCase())));

async function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    // The session is closed by then, or closes by itself: nobody waits for it.
    work.catch(() => undefined);
  }
}

/** Our fetch, ended with the session, bounded in what it reads, and noting what the library forgets to tell. */
function tracedFetch(fetch: OutboundFetch, { trace, signal }: { trace: Trace; signal: AbortSignal }): OutboundFetch {
  return async (input, init) => {
    const own = init?.signal ?? undefined;
    const isGoodbye = init?.method === 'DELETE';
    const limits = isGoodbye ? [AbortSignal.timeout(GOODBYE_MS_MAX)] : [signal, ...(own === undefined ? [] : [own])];
    try {
      const response = await fetch(input, { ...init, signal: AbortSignal.any(limits) });
      if (!response.ok && !isGoodbye) return await refusedAnswer(response, trace);
      return bounded(response, trace);
    } catch (error) {
      const refusal = outboundErrorOf(error);
      if (refusal !== undefined && !isGoodbye) trace.refusal = refusal;
      throw error;
    }
  };
}

/** Streamable HTTP also offers a stream for what the server wants to say unasked: nothing here listens to it. */
const withoutUnasked =
  (fetch: OutboundFetch): OutboundFetch =>
  (input, init) => {
    const resumes = new Headers(init?.headers).has('last-event-id');
    return init?.method === 'GET' && !resumes
      ? Promise.resolve(new Response(null, { status: 405 }))
      : fetch(input, init);
  };

/** Keeps what a server said to a request it refused; the library gives it on in a text of its own. */
async function refusedAnswer(response: Response, trace: Trace): Promise<Response> {
  const { status, statusText, headers } = response;
  const text = await bounded(response, trace).text();
  trace.answer = { status, body: text.slice(0, SHOWN_CHARACTERS_MAX) };
  return new Response(text === '' ? null : text, { status, statusText, headers });
}

function bounded(response: Response, trace: Trace): Response {
  if (response.body === null) return response;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            controller.close();
            return;
          }
          trace.bytes += value.length;
          if (trace.bytes > SESSION_BYTES_MAX) throw tooLarge();
          controller.enqueue(value);
        } catch (error) {
          const refusal =
            outboundErrorOf(error) ??
            new OutboundError({ kind: 'connection', detail: 'connection closed', sent: true });
          await reader.cancel().catch(() => undefined);
          trace.stop(refusal);
          throw error;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const { status, statusText, headers } = response;
  const copy = new Response(body, { status, statusText, headers });
  Object.defineProperty(copy, 'url', { value: response.url });
  return copy;
}

const tooLarge = (): OutboundError =>
  new OutboundError({ kind: 'too_large', detail: `more than ${String(SESSION_BYTES_MAX)} bytes`, sent: true });

/** The one reason, out of the library's error and what was seen on the wire. */
function failureOf(
  error: unknown,
  { trace, server, late }: { trace: Trace; server: McpServer; late: AbortSignal },
): McpFailure {
  if (server.signal.aborted) return new McpFailure('aborted', 'aborted by the caller');
  const refusal = outboundErrorOf(error) ?? trace.refusal;
  if (refusal?.kind === 'egress_blocked') {
    const address = refusal.address === undefined ? {} : { address: refusal.address };
    return new McpFailure('egress_blocked', refusal.detail, address);
  }
  if (late.aborted) return new McpFailure('timeout', `No answer within ${String(server.timeoutMs / 1000)} seconds`);
  const coded = rpcFailure(error);
  if (coded !== null) return coded;
  if (trace.answer !== undefined) {
    return new McpFailure('status', `The server answered ${String(trace.answer.status)}`, trace.answer);
  }
  if (refusal?.kind === 'too_large') {
    return new McpFailure('transport', `The answer is longer than ${String(SESSION_BYTES_MAX)} bytes`);
  }
  if (refusal !== undefined) return new McpFailure('transport', `The call failed: ${refusal.detail}`);
  return new McpFailure('transport', 'The server does not answer as an MCP server does');
}

/** An error that the server answered as a message of the protocol. */
function rpcFailure(error: unknown): McpFailure | null {
  if (!(error instanceof Error) || error.name !== 'McpError') return null;
  return new McpFailure('answer', error.message.replace(/^(MCP error -?\d+: )+/, '').slice(0, SHOWN_CHARACTERS_MAX));
}
