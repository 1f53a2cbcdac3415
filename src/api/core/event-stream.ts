import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { errorFacts, log } from './log';
import { readFrom } from './metrics';

/** An open answer of `text/event-stream`. */
export interface EventSink {
  /** Sends a frame once the reader has taken what came before; false when there is no reader any more. */
  send: (frame: string) => Promise<boolean>;
  /** Fires when the reader is gone. */
  closed: AbortSignal;
}

/** What is answered as a stream, frame by frame; the answer ends when it resolves. */
export type EventSource = (sink: EventSink) => Promise<void>;

/** Times of a stream, in milliseconds. */
export interface StreamTimes {
  keepAliveMs: number;
  /** A reader that takes nothing for so long is cut off: whoever produces the frames waits for it. */
  slowReaderMs: number;
}

const TIMES: StreamTimes = { keepAliveMs: 15_000, slowReaderMs: 30_000 };

let openStreams = 0;
readFrom('openStreams', () => [{ value: openStreams }]);

/** Answers a stream of frames, with a comment line every 15 s so that no one between takes it for dead. */
export async function serveEvents(res: ServerResponse, source: EventSource, times = TIMES): Promise<void> {
  const closed = new AbortController();
  res.once('close', () => {
    closed.abort();
  });
  res.setHeader('Content-Type', 'text/event-stream');
  res.setHeader('Cache-Control', 'no-cache');
  res.setHeader('X-Accel-Buffering', 'no'); // A proxy that collects the answer would make a stream of one piece.
  res.flushHeaders();
  openStreams += 1;
  const keepAlive = setInterval(() => {
    if (!res.writableNeedDrain) res.write(': keep-alive\n\n');
  }, times.keepAliveMs);
  try {
    await source({ closed: closed.signal, send: (frame) => send({ res, frame, closed: closed.signal, times }) });
    res.end();
  } catch (error) {
    // The status is out: an answer that is cut short is the only sign left.
    log.error({ msg: 'stream failed', ...errorFacts(error) });
    res.destroy();
  } finally {
    openStreams -= 1;
    clearInterval(keepAlive);
  }
}

interface Sending {
  res: ServerResponse;
  frame: string;
  closed: AbortSignal;
  times: StreamTimes;
}

async function send({ res, frame, closed, times }: Sending): Promise<boolean> {
  if (closed.aborted) return false;
  if (res.write(frame)) return true;
  try {
    await once(res, 'drain', { signal: AbortSignal.any([closed, AbortSignal.timeout(times.slowReaderMs)]) });
    return true;
  } catch {
    res.destroy();
    return false;
  }
}
