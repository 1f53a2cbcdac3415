import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { OutboundError, toOutboundError } from './http-error';

const ENCODINGS_MAX = 5;
/** Servers end compressed bodies carelessly, or send none at all under the header; browsers and curl are as lenient. */
const LENIENT = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };

/** `deflate` means zlib by the standard and raw deflate by some servers; the first byte tells which. */
class InflateEither extends Transform {
  private inner: Transform | null = null;

  override _transform(chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    if (chunk.length === 0) {
      callback();
      return;
    }
    const inner = (this.inner ??= this.begin((chunk[0] ?? 0) & 0x0f));
    inner.write(chunk, callback);
  }

  override _final(callback: (error?: Error | null) => void): void {
    if (this.inner === null) {
      callback();
      return;
    }
    this.inner.once('end', callback);
    this.inner.end();
  }

  override _read(size: number): void {
    this.inner?.resume();
    super._read(size);
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.inner?.destroy();
    callback(error);
  }

  private begin(method: number): Transform {
    const inner = method === 8 ? createInflate(LENIENT) : createInflateRaw(LENIENT);
    inner.on('data', (chunk: Buffer) => {
      // A reader that is full stops the decoder, which in turn stops the source: a bomb never unfolds ahead of its limit.
      if (!this.push(chunk)) inner.pause();
    });
    inner.on('error', (error) => this.destroy(error));
    return inner;
  }
}

function decoderOf(encoding: string): Transform | null {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip(LENIENT);
    case 'deflate':
      return new InflateEither();
    case 'br':
      return createBrotliDecompress({
        flush: constants.BROTLI_OPERATION_FLUSH,
        finishFlush: constants.BROTLI_OPERATION_FLUSH,
      });
    default:
      return null;
  }
}

/**
 * The body without its content encodings, and the headers that then hold. An encoding we did not ask for and do not know
 * leaves both as they are.
 * @throws OutboundError `connection` when there are more encodings than any honest server stacks.
 */
export function decoded(
  body: Readable,
  headers: IncomingHttpHeaders,
): { body: Readable; headers: IncomingHttpHeaders } {
  const encodings = (headers['content-encoding'] ?? '')
    .toLowerCase()
    .split(',')
    .map((encoding) => encoding.trim())
    .filter((encoding) => encoding !== '' && encoding !== 'identity')
    .reverse();
  if (encodings.length === 0) return { body, headers };
  if (encodings.length > ENCODINGS_MAX) {
    body.destroy();
    throw new OutboundError({ kind: 'connection', detail: 'too many content encodings', sent: true });
  }
  const decoders = encodings.map(decoderOf);
  if (decoders.includes(null)) return { body, headers };
  const { 'content-encoding': _encoding, 'content-length': _length, ...rest } = headers;
  let last: Readable = body;
  for (const decoder of decoders) {
    // The callback only keeps an early end from being unhandled; the reader of the last stream sees the error itself.
    if (decoder !== null) last = pipeline(last, decoder, () => undefined);
  }
  last.on('error', () => undefined);
  return { body: last, headers: rest };
}

export interface BodyRule {
  /** Counted after decoding. */
  responseBytesMax: number;
  onTooLarge: 'truncate' | 'fail';
}

/**
 * Reads a decoded body to its end or its limit, whichever comes first; beyond the limit nothing more is read or decoded.
 * @throws OutboundError `too_large` where the rule says fail, else whatever ended the body early.
 */
export function collect(body: Readable, rule: BodyRule): Promise<{ body: Buffer; truncated: boolean }> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const fail = (error: unknown): void => {
      reject(toOutboundError(error, true));
    };
    body.on('data', (chunk: Buffer) => {
      if (size + chunk.length <= rule.responseBytesMax) {
        size += chunk.length;
        chunks.push(chunk);
        return;
      }
      if (rule.onTooLarge === 'fail') {
        const detail = `more than ${String(rule.responseBytesMax)} bytes`;
        fail(new OutboundError({ kind: 'too_large', detail, sent: true }));
      } else {
        chunks.push(chunk.subarray(0, rule.responseBytesMax - size));
        resolve({ body: Buffer.concat(chunks), truncated: true });
      }
      body.destroy();
    });
    body.once('end', () => {
      resolve({ body: Buffer.concat(chunks), truncated: false });
    });
    body.once('error', fail);
    body.once('close', () => {
      if (body.readableEnded) return;
      fail(new OutboundError({ kind: 'connection', detail: 'connection closed', sent: true }));
    });
    // Destroyed before this reader came: no event would follow.
    if (body.destroyed)
      fail(body.errored ?? new OutboundError({ kind: 'connection', detail: 'connection closed', sent: true }));
  });
}
