import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

/** Stands between clients and a server on this machine: passes on all that comes, and can be cut. */
export interface Relay {
  port: number;
  /** Ends every connection over it at once; new ones are taken. */
  cut(): void;
  close(): Promise<void>;
}

interface RelayOptions {
  /** Makes the reader of what one client sends: it sees each piece before the server does. */
  reader?: () => (chunk: Buffer) => void;
}

/** Starts a relay to a port of this machine; a connection that ends on one side ends on the other. */
export async function startRelay(
  target: { port: number; host?: string },
  { reader }: RelayOptions = {},
): Promise<Relay> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target.port, target.host ?? '127.0.0.1');
    const read = reader?.();
    if (read !== undefined) near.on('data', read);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    close: () => {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
