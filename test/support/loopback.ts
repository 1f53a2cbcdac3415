import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  rawHeaders: string[];
  body: string;
}

export interface Loopback {
  port: number;
  /** `http(s)://127.0.0.1:<port>`. */
  url: string;
  requests: SeenRequest[];
  /** Connections taken so far. */
  connections: () => number;
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** A bare HTTP (with `tls`: HTTPS) server on the loopback that keeps what it saw; for tests of the client itself. */
export async function startLoopback(
  answer: (request: SeenRequest, response: ServerResponse) => void,
  tls?: ServerOptions,
): Promise<Loopback> {
  const requests: SeenRequest[] = [];
  let connections = 0;
  const listener: RequestListener = (request, response) => {
    bodyOf(request).then(
      (body) => {
        const { method = '', url = '', headers, rawHeaders } = request;
        const seen = { method, path: url, headers, rawHeaders, body };
        requests.push(seen);
        answer(seen, response);
      },
      () => response.destroy(),
    );
  };
  const server: Server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${String(port)}`,
    requests,
    connections: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}
