import { Socket, createServer } from 'node:net';
import type { AddressInfo, Server } from 'node:net';

/** A server that nobody may reach, on every local address: whoever connects is counted, and turned away. */
export interface Canary {
  port: number;
  /** Connections taken, HTTP or not. */
  reached: () => number;
  close: () => Promise<void>;
}

const listening = (server: Server, port: number, host: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });

/** @param at one address and port; without it every address of IPv4 and IPv6, and a free port */
export async function startCanary(at?: { host: string; port: number }): Promise<Canary> {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined);
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nreached');
  });
  // `::` takes IPv4 too; a machine without IPv6 has no such address.
  if (at === undefined) await listening(server, 0, '::').catch(() => listening(server, 0, '0.0.0.0'));
  else await listening(server, at.port, at.host);
  return {
    port: (server.address() as AddressInfo).port,
    reached: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
      }),
  };
}

/** What this process tries to connect to, from the moment it is watched: addresses elsewhere have no canary of ours. */
export interface Dialled {
  /** `host:port` of each try since the last `forget`. */
  to: () => string[];
  forget: () => void;
  restore: () => void;
}

/** `connect` takes options, options in a list (from the runtime itself), or port and host. */
function targetOf([first, second]: unknown[]): string {
  const options: unknown = Array.isArray(first) ? first[0] : first;
  if (typeof options !== 'object' || options === null) return `${String(second)}:${String(options)}`;
  const { host, port, path } = options as { host?: string; port?: number | string; path?: string | null };
  return typeof path !== 'string' ? `${host ?? 'localhost'}:${String(port)}` : `path:${path}`;
}

/** Watches every connection of this process: none is changed. */
export function watchDialling(): Dialled {
  const seen: string[] = [];
  // eslint-disable-next-line @typescript-eslint/unbound-method -- applied to the socket that it is called on
  const original = Socket.prototype.connect;
  const watched = jest.spyOn(Socket.prototype, 'connect').mockImplementation(function (
    this: Socket,
    ...given: unknown[]
  ) {
    seen.push(targetOf(given));
    return Reflect.apply(original, this, given) as Socket;
  });
  return {
    to: () => [...seen],
    forget: () => {
      seen.length = 0;
    },
    restore: () => watched.mockRestore(),
  };
}
