/** An endpoint in a thread of its own, so that what it costs is the same for both sides. `/hang` never answers. */
import { createServer } from 'node:http';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

/**
 * @returns its address, and `arrived`: resolves to the milliseconds at which a request with that `X-Svc-Delivery` began to come in
 */
export async function startReceiver() {
  const worker = new Worker(new URL(import.meta.url));
  const waiting = new Map();
  const port = await new Promise((resolve) => worker.once('message', resolve));
  const came = new Map();
  worker.on('message', ({ id, at }) => {
    if (waiting.has(id)) waiting.get(id)(at);
    else came.set(id, at);
    waiting.delete(id);
  });
  return {
    url: `http://127.0.0.1:${port}`,
    arrived: (id) => {
      const at = came.get(id);
      came.delete(id);
      return at === undefined ? new Promise((resolve) => waiting.set(id, resolve)) : Promise.resolve(at);
    },
    close: () => worker.terminate(),
  };
}

if (!isMainThread) {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const at = performance.timeOrigin + performance.now();
    request.resume().on('end', () => {
      if (request.url === '/hang') return;
      response.end('ok');
      parentPort.postMessage({ id: request.headers['x-svc-delivery'], at });
    });
  });
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
}
