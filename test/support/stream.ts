// Bodies are of many shapes and asserted by value.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Json = Record<string, any>;

/** A stream as its reader sees it: frame by frame, as they come. */
export interface OpenedStream {
  status: number;
  headers: Headers;
  /** The next frame without its blank line; null at the end. */
  next: () => Promise<string | null>;
  /** All frames that are left, comments included. */
  rest: () => Promise<string[]>;
  close: () => void;
  /** The body of an answer that is no stream. */
  json: () => Promise<Json>;
}

export async function openStream(
  url: string,
  given: { token: string; body?: object; lastEventId?: string; headers?: Record<string, string> },
): Promise<OpenedStream> {
  const abort = new AbortController();
  const response = await fetch(url, {
    method: given.body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${given.token}`,
      ...(given.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(given.lastEventId === undefined ? {} : { 'last-event-id': given.lastEventId }),
      ...given.headers,
    },
    ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
    signal: abort.signal,
  });
  const frames = framesOf(response);
  const next = async (): Promise<string | null> => {
    const { value, done } = await frames.next();
    return done === true ? null : value;
  };
  return {
    status: response.status,
    headers: response.headers,
    next,
    rest: async () => {
      const all: string[] = [];
      for (let frame = await next(); frame !== null; frame = await next()) all.push(frame);
      return all;
    },
    close: () => {
      abort.abort();
    },
    json: async () => (await response.json()) as Json,
  };
}

async function* framesOf(response: Response): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      yield text.slice(0, end);
      text = text.slice(end + 2);
    }
  }
  if (text !== '') yield text;
  return undefined;
}

/** The frame of one delta, without its blank line. */
export const delta = (text: string): string => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}`;

export const DONE = 'data: [DONE]';

/** The two lines of a frame of a stream that was picked up. */
export const lines = (frame: string): [id: string, data: string] => {
  const [id = '', data = ''] = frame.split('\n');
  return [id.replace(/^id: /, ''), data];
};

/** The generation that a stream belongs to. */
export const idOf = (open: OpenedStream): string => open.headers.get('x-svc-generation-id') ?? '';
