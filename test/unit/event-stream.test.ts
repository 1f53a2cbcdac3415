import { createServer, get } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { serveEvents } from '../../src/api/core/event-stream';
import type { EventSource, StreamTimes } from '../../src/api/core/event-stream';

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close().closeAllConnections();
});

async function reading(source: EventSource, times: Partial<StreamTimes> = {}): Promise<IncomingMessage> {
  const server = createServer((_req, res) => {
    void serveEvents(res, source, { keepAliveMs: 60_000, slowReaderMs: 60_000, ...times });
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return new Promise((resolve) => get({ port: (server.address() as AddressInfo).port }, resolve));
}

const bodyOf = async (response: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
};

const MEGABYTE = 'x'.repeat(1_000_000);

test('a silent stream sends comments that keep it alive', async () => {
  const response = await reading(
    async ({ send }) => {
      await wait(120);
      await send('data: 1\n\n');
    },
    { keepAliveMs: 40 },
  );
  expect(await bodyOf(response)).toMatch(/^(: keep-alive\n\n)+data: 1\n\n$/);
});

test('whoever produces the frames waits for a slow reader', async () => {
  let sent = 0;
  const response = await reading(async ({ send }) => {
    for (; sent < 40; sent++) await send(MEGABYTE);
  });
  await wait(300);
  expect(sent).toBeLessThan(20);
  expect((await bodyOf(response)).length).toBe(40 * MEGABYTE.length);
});

test('a reader that takes nothing is cut off, and the source is told', async () => {
  const told: boolean[] = [];
  const ended = new Promise<void>((resolve) => {
    void reading(
      async ({ send, closed }) => {
        for (let count = 0; count < 40 && told.at(-1) !== false; count++) told.push(await send(MEGABYTE));
        await wait(50);
        if (closed.aborted) resolve();
      },
      { slowReaderMs: 150 },
    );
  });
  await ended;
  expect(told.at(-1)).toBe(false);
});

test('a source that fails leaves an answer that is cut short', async () => {
  const response = await reading(async ({ send }) => {
    await send('data: 1\n\n');
    throw new Error('unforeseen');
  });
  await expect(bodyOf(response)).rejects.toThrow(/aborted|ECONNRESET/);
});
