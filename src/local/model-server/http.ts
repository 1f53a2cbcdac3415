import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request's body, and all bodies kept together. */
export const bodyBytesMax = 64 * 1024 * 1024;
/** Requests remembered; older ones are forgotten first. */
export const requestsKeptMax = 10_000;
/** Longer than the idle time of the usual clients' pools, so that a reused connection is not closed under a request. */
const keepAliveMs = 65_000;

export class BodyTooLarge extends Error {
  constructor() {
    super(`The body is larger than ${bodyBytesMax} bytes`);
  }
}

/**
 * Reads a whole body as text.
 * @throws BodyTooLarge beyond `bodyBytesMax`
 */
export async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // The connection stays open when the reading stops early, so that the refusal can still be sent.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bodyBytesMax) throw new BodyTooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

export interface JsonAnswer {
  status: number;
  body: unknown;
  headers?: Record<string, string> | undefined;
}

export function sendJson(response: ServerResponse, answer: JsonAnswer): void {
  response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
  response.end(JSON.stringify(answer.body));
}

/** A signal that fires when the peer goes away before the answer is complete. */
export function abortOf(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

/** Serves on 127.0.0.1 only; port 0 takes a free one. */
export async function listen(listener: RequestListener, port: number): Promise<{ server: Server; port: number }> {
  const server = createServer({ keepAliveTimeout: keepAliveMs }, listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
  return { server, port: (server.address() as AddressInfo).port };
}

/** Stops listening and ends open connections, those of held answers included. Safe to repeat. */
export async function stop(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}

/** A first-in first-out store bounded by count and by the bytes of the kept texts. */
export class BoundedLog<Entry extends object> {
  readonly entries: Entry[] = [];
  readonly #sizes: number[] = [];
  #bytes = 0;

  add(entry: Entry, bytes: number): void {
    this.entries.push(entry);
    this.#sizes.push(bytes);
    this.#bytes += bytes;
    while (this.entries.length > requestsKeptMax || (this.#bytes > bodyBytesMax && this.entries.length > 1)) {
      this.entries.shift();
      this.#bytes -= this.#sizes.shift() ?? 0;
    }
  }

  clear(): void {
    this.entries.length = 0;
    this.#sizes.length = 0;
    this.#bytes = 0;
  }
}
