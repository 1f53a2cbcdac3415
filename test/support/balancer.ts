import { Agent, createServer, request } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

const PROBE_MS = 150;

/** A load balancer as it stands before the API: takes turns among those whose health answers 200, over kept connections. */
export interface Balancer {
  url: string;
  /** Requests that a backend did not answer, with the reason. */
  readonly failures: string[];
  live: () => string[];
  close: () => Promise<void>;
}

const isHealthy = async (backend: string): Promise<boolean> => {
  try {
    return (await fetch(`${backend}/health`, { signal: AbortSignal.timeout(2_000) })).ok;
  } catch {
    return false;
  }
};

/** Starts a balancer; `backends` is asked at each round of probes, so that replicas come and go. */
export async function startBalancer(backends: () => string[]): Promise<Balancer> {
  const agent = new Agent({ keepAlive: true });
  const failures: string[] = [];
  let live: string[] = [];
  let turn = 0;
  let isOver = false;
  /** Each backend is asked on its own, so that a slow one does not hold up what is known of the others. */
  const probing = new Set<string>();
  const probe = async (backend: string): Promise<void> => {
    probing.add(backend);
    const healthy = await isHealthy(backend);
    live = [...live.filter((one) => one !== backend), ...(healthy ? [backend] : [])];
    probing.delete(backend);
  };
  const probeAll = async (): Promise<void> => {
    await Promise.all(
      backends()
        .filter((one) => !probing.has(one))
        .map(probe),
    );
  };
  const again = async (): Promise<void> => {
    while (!isOver) {
      void probeAll();
      await pause(PROBE_MS);
    }
  };
  const pass = (req: IncomingMessage, res: ServerResponse): void => {
    const backend = live[turn++ % Math.max(1, live.length)];
    const fail = (reason: string): void => {
      failures.push(
        `${new Date().toISOString()} ${String(req.method)} ${String(req.url)} at ${String(backend)}: ${reason}`,
      );
      if (res.headersSent) res.destroy();
      else res.writeHead(502).end();
    };
    if (backend === undefined) {
      fail('nobody is live');
      return;
    }
    const { host: _host, connection: _connection, ...headers } = req.headers;
    const onward = request(`${backend}${String(req.url)}`, { agent, headers, method: req.method }, (answer) => {
      const { connection: _own, 'keep-alive': _kept, ...given } = answer.headers;
      res.writeHead(answer.statusCode ?? 502, given);
      answer.pipe(res);
      answer.once('aborted', () => fail('cut in mid-answer'));
    });
    onward.once('error', (error) => fail(error.message));
    res.once('close', () => onward.destroy());
    req.pipe(onward);
  };
  const server = createServer(pass);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  await probeAll();
  void again();
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    failures,
    live: () => live,
    close: async () => {
      isOver = true;
      agent.destroy();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
