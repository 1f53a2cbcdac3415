import { StreamError, createClient } from '@agent-platform/sdk';
import fc from 'fast-check';
import { FrameParser } from '../../packages/sdk/src/sse';

const target = { projectId: 'proj_1', agentId: 'agent_1' };
const ask = { messages: [{ role: 'user' as const, content: 'hi' }] };
const frame = (content: string): string => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;
const failure = (error: string): string => `data: ${JSON.stringify({ error })}\n\n`;
const DONE = 'data: [DONE]\n\n';

/** Cuts a text at the given places, as bytes: characters may be cut too. */
function chunksOf(text: string, cuts: number[]): Uint8Array[] {
  const bytes = new TextEncoder().encode(text);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((place, index) => bytes.subarray(places[index], place));
}

test('frames are the same however the stream is cut into chunks, and with any ends of lines', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ id: fc.option(fc.stringMatching(/^[0-9a-f:/]{1,12}$/)), text: fc.string({ unit: 'binary' }) }),
        { maxLength: 6 },
      ),
      fc.array(fc.nat(), { maxLength: 8 }),
      fc.constantFrom('\n', '\r\n'),
      (frames, cuts, end) => {
        const wire = frames
          .map(({ id, text }) => `: keep-alive\n\n${id === null ? '' : `id: ${id}\n`}data: ${JSON.stringify(text)}\n\n`)
          .join('')
          .replaceAll('\n', end);
        const parser = new FrameParser();
        const decoder = new TextDecoder();
        const found = chunksOf(wire, cuts).flatMap((chunk) => parser.push(decoder.decode(chunk, { stream: true })));
        expect(found).toEqual(frames.map(({ id, text }) => ({ id: id ?? undefined, data: JSON.stringify(text) })));
      },
    ),
    { numRuns: 60 },
  );
});

interface Service {
  /** What the connection that begins the run tells, before it breaks or ends. */
  opening: string | Response;
  /** What each connection that picks up tells, given the event after which it begins. */
  pickUp?: (lastEventId: string | null, number: number) => string | Response;
  record?: object;
}

const sse = (wire: string, cuts: number[] = []): Response => {
  const chunks = chunksOf(wire, cuts);
  const body = new ReadableStream({
    pull: (controller) => {
      const chunk = chunks.shift();
      if (chunk === undefined) controller.close();
      else controller.enqueue(chunk);
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream', 'x-svc-generation-id': 'gen_1' } });
};
const json = (status: number, body: object): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

function clientOf({ opening, pickUp = () => '', record = { status: 'in_progress' } }: Service) {
  const asked: (string | null)[] = [];
  const client = createClient({
    baseUrl: 'http://api.test',
    retry: { retries: 0, baseMs: 0, maxMs: 0 },
    fetch: ({ method, url, headers }) => {
      if (method === 'POST') return Promise.resolve(typeof opening === 'string' ? sse(opening) : opening);
      if (!url.endsWith('/stream')) return Promise.resolve(json(200, { id: 'gen_1', ...record }));
      asked.push(headers.get('last-event-id'));
      const answer = pickUp(headers.get('last-event-id'), asked.length - 1);
      return Promise.resolve(typeof answer === 'string' ? sse(answer) : answer);
    },
  });
  return { client, asked };
}

async function read(service: Service) {
  const { client, asked } = clientOf(service);
  const stream = await client.generations.stream(target, ask);
  const pieces: string[] = [];
  for await (const piece of stream) pieces.push(piece);
  return { text: pieces.join(''), end: await stream.result(), asked };
}

test('whatever connections break, and wherever, the text comes whole and once', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }), { maxLength: 8 }),
      fc.array(fc.nat(), { maxLength: 4 }),
      fc.array(fc.nat(), { maxLength: 6 }),
      async (pieces, breaks, cuts) => {
        const text = pieces.join('');
        // An event's id is the number of characters that came with it and before it.
        const from = (at: number): string => {
          const left = text.slice(at);
          const middle = Math.ceil(left.length / 2);
          const told = [left.slice(0, middle), left.slice(middle)].filter((piece) => piece !== '');
          let end = at;
          return `${told.map((piece) => `id: ${(end += piece.length)}\n${frame(piece)}`).join('')}id: ${end}\n${DONE}`;
        };
        const broken = (wire: string, place: number | undefined): string =>
          place === undefined
            ? wire
            : new TextDecoder().decode(new TextEncoder().encode(wire).subarray(0, place % wire.length));
        const { text: given, end } = await read({
          opening: sse(broken(pieces.map(frame).join('') + DONE, breaks[0]), cuts),
          pickUp: (id, number) => sse(broken(from(Number(id ?? 0)), breaks[number + 1]), cuts),
        });
        expect(given).toBe(text);
        expect(end).toEqual({ status: 'completed', generationId: 'gen_1', text });
      },
    ),
    { numRuns: 100 },
  );
});

test('a pause is how a stream ends', async () => {
  const action = { type: 'submit_tool_outputs', tool_calls: [{ id: 'c1', tool_name: 'ask', args: {} }] };
  const paused = { id: 'gen_1', status: 'requires_action', required_action: action };
  const { end } = await read({ opening: `${frame('Let me see.')}data: ${JSON.stringify(paused)}\n\n${DONE}` });
  expect(end).toEqual({
    status: 'requires_action',
    generationId: 'gen_1',
    text: 'Let me see.',
    required_action: action,
  });
});

test('an answer that was made again and is another one now is told, not mixed', async () => {
  const service = { opening: frame('The parcel '), pickUp: () => `id: 1\n${frame('Your order ')}${DONE}` };
  const error: unknown = await read(service).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(StreamError);
  expect(error).toMatchObject({ reason: 'diverged', generationId: 'gen_1' });
});

test('a failed run throws its failure, a reading that only was interrupted goes on', async () => {
  const recorded = { code: 'AI_PROVIDER_ERROR', message: 'Provider returned 404: no such model' };
  const failed = { status: 'failed', generation_id: 'gen_1', trace_id: 'trace_1', error: recorded };
  await expect(read({ opening: failure(recorded.message), record: failed })).rejects.toMatchObject({
    ...recorded,
    status: 502,
    generationId: 'gen_1',
  });
  const { text, asked } = await read({
    opening: frame('a') + failure('The stream was interrupted; the run goes on.'),
    pickUp: () => `id: 2\n${frame('ab')}id: 2/done\n${DONE}`,
  });
  expect({ text, asked }).toEqual({ text: 'ab', asked: [null] });
});

test('connections that say nothing are tried a bounded number of times', async () => {
  const { client, asked } = clientOf({ opening: frame('a') });
  const stream = await client.generations.stream(target, ask);
  await expect(stream.result()).rejects.toMatchObject({ reason: 'interrupted' });
  expect(asked.length).toBeLessThanOrEqual(7);
  expect(stream.text).toBe('a');
  await expect(
    clientOf({
      opening: json(409, { error: { code: 'PROJECT_PAUSED', message: 'Paused.' } }),
    }).client.generations.stream(target, ask),
  ).rejects.toMatchObject({ code: 'PROJECT_PAUSED' });
});

test('a repeat of a request whose answer was lost is picked up from its start', async () => {
  const service = {
    opening: json(202, { status: 'in_progress', id: 'gen_1', generation_id: 'gen_1', trace_id: 'trace_1' }),
    pickUp: () => `id: 1\n${frame('hello')}${DONE}`,
  };
  expect((await read(service)).text).toBe('hello');
});

test('a connection that falls silent is made anew; a stream is read once and may be left', async () => {
  const silent = new Response(new ReadableStream({}), {
    headers: { 'content-type': 'text/event-stream', 'x-svc-generation-id': 'gen_1' },
  });
  const { client } = clientOf({ opening: silent, pickUp: () => frame('late') + DONE });
  const stream = await client.generations.stream(target, ask, { idleMs: 20 });
  for await (const piece of stream) {
    expect(piece).toBe('late');
    break;
  }
  await expect(stream.result()).rejects.toMatchObject({ reason: 'interrupted' });
  await expect(stream[Symbol.asyncIterator]().next()).rejects.toThrow(TypeError);
});
