import { StreamError } from './errors';
import { backoffMs, sleep } from './retry';
import type { RetryPolicy } from './retry';
import { FrameParser } from './sse';
import type { Frame } from './sse';
import type { Generation, RequiredAction } from './types';

/** How a stream ended. */
export type StreamEnd =
  | { status: 'completed'; generationId: string; text: string }
  | { status: 'requires_action'; generationId: string; text: string; required_action: RequiredAction };

/** What a stream needs of the service. */
export interface StreamSource {
  generationId: string;
  /** The answer to the request that began the run; null when the stream is picked up from the first. */
  opened: Response | null;
  /** Picks the stream up after an event, or from its start. @throws ApiError, ConnectionError */
  pickUp: (lastEventId: string | undefined) => Promise<Response>;
  /** The record of the run. */
  record: () => Promise<Generation>;
  /** The failure of a failed run; `message` is what the stream said of it. */
  failure: (record: Generation, message: string) => Error;
  /** Ends the reading. */
  abort: AbortController;
  signal: AbortSignal;
  retry: RetryPolicy;
  /** A connection that says nothing for so long is given up and made anew; the service sends a comment every 15 s. */
  idleMs: number;
  /** Event after which the caller wants to read. */
  lastEventId?: string | undefined;
}

/** How often a stream is picked up in a row without one new character. */
const PICK_UPS_MAX = 6;
const DONE = '[DONE]';

interface Payload {
  choices?: [{ delta: { content: string } }];
  error?: string;
  required_action?: RequiredAction;
}

/**
 * The text of a run while the model speaks: `for await (const text of stream)`, once. A connection that breaks is made anew
 * behind the scenes, without a character lost or given twice. Leaving the loop ends the reading and not the run.
 */
export class GenerationStream implements AsyncIterable<string> {
  readonly generationId: string;
  #text = '';
  #end: StreamEnd | undefined;
  /** Pause that was told; the stream ends after it. */
  #pause: RequiredAction | undefined;
  #started = false;
  /** Last event whose id is known, and how many characters of this reading had come with it. */
  #known: { id: string | undefined; seen: number };
  /** Characters of the run that the connection at hand has told. */
  #seen = 0;

  constructor(private readonly source: StreamSource) {
    this.generationId = source.generationId;
    this.#known = { id: source.lastEventId, seen: 0 };
  }

  /** What has been read so far. */
  get text(): string {
    return this.#text;
  }

  /** Event after which another reader would go on; undefined while nothing was picked up. */
  get lastEventId(): string | undefined {
    return this.#known.id;
  }

  /**
   * Reads what is left and tells how the stream ended.
   * @throws ApiError when the run failed, StreamError when it cannot be read on
   */
  async result(): Promise<StreamEnd> {
    if (!this.#started) for await (const _ of this);
    if (this.#end === undefined) {
      throw new StreamError('interrupted', 'The stream was left before its end.', this.generationId);
    }
    return this.#end;
  }

  /** Ends the reading; the run goes on. */
  close(): void {
    this.source.abort.abort(new StreamError('interrupted', 'The stream was closed.', this.generationId));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    if (this.#started) throw new TypeError('A stream is read once.');
    this.#started = true;
    try {
      yield* this.#whole();
    } finally {
      this.source.abort.abort();
    }
  }

  async *#whole(): AsyncGenerator<string, void, undefined> {
    const { opened, pickUp, retry, signal } = this.source;
    let response = opened ?? (await pickUp(this.#known.id));
    for (let vain = 0; ;) {
      const before = this.#text.length;
      const failed = yield* this.#read(response);
      if (this.#end !== undefined) return;
      signal.throwIfAborted();
      if (failed !== null) await this.#judge(failed);
      vain = this.#text.length > before ? 0 : vain + 1;
      if (vain > PICK_UPS_MAX) throw this.#error('interrupted', failed ?? 'The connection breaks again and again.');
      await sleep(backoffMs(retry, vain), signal);
      this.#seen = this.#known.seen;
      response = await pickUp(this.#known.id);
    }
  }

  /** Reads one connection to its end. @returns the message of an error frame; null when the connection was lost, or is done */
  async *#read(response: Response): AsyncGenerator<string, string | null, undefined> {
    for await (const frame of framesOf(response, this.source.idleMs)) {
      if (frame.data === DONE) {
        if (frame.id !== undefined) this.#known = { id: frame.id, seen: this.#seen };
        this.#end = this.#endOf();
        return null;
      }
      const { choices, error, required_action: action } = JSON.parse(frame.data) as Payload;
      if (error !== undefined) return error;
      if (action !== undefined) this.#pause = action;
      const piece = this.#take(choices?.[0].delta.content ?? '');
      if (frame.id !== undefined) this.#known = { id: frame.id, seen: this.#seen };
      if (piece !== '') yield piece;
    }
    return null;
  }

  /** What is new in a piece: a connection that begins at the start tells what was given already. @throws StreamError */
  #take(piece: string): string {
    const given = this.#text.slice(this.#seen, this.#seen + piece.length);
    if (!piece.startsWith(given)) {
      throw this.#error('diverged', 'A part of the answer was made again and is another one now: read the generation.');
    }
    const fresh = piece.slice(given.length);
    this.#seen += piece.length;
    this.#text += fresh;
    return fresh;
  }

  /** What an error frame means: the run failed, or only this reading of it did. @throws the run's failure */
  async #judge(message: string): Promise<void> {
    const record = await this.source.record();
    if (record.status === 'failed') throw this.source.failure(record, message);
    // From the start again: whether what was given still holds is then seen by the text itself.
    this.#known = { id: this.source.lastEventId, seen: 0 };
  }

  #endOf(): StreamEnd {
    const facts = { generationId: this.generationId, text: this.#text };
    if (this.#pause === undefined) return { status: 'completed', ...facts };
    return { status: 'requires_action', ...facts, required_action: this.#pause };
  }

  #error(reason: StreamError['reason'], message: string): StreamError {
    return new StreamError(reason, message, this.generationId);
  }
}

/** The events of one connection; ends without an error where it was cut or fell silent. */
async function* framesOf(response: Response, idleMs: number): AsyncGenerator<Frame, void, undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  const parser = new FrameParser();
  try {
    for (;;) {
      const chunk = await within(idleMs, reader.read()).catch(() => null);
      if (chunk === null || chunk.done) return;
      yield* parser.push(decoder.decode(chunk.value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** The value, or null when it does not come in time. */
async function within<Value>(ms: number, value: Promise<Value>): Promise<Value | null> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => {
      resolve(null);
    }, ms);
  });
  try {
    return await Promise.race([value, late]);
  } finally {
    clearTimeout(timer);
  }
}
