/** One event of a stream: what stands behind `data: `, and the id before it where there is one. */
export interface Frame {
  id: string | undefined;
  data: string;
}

/** Cuts the text of a stream into its events, however it is cut into chunks; comments are left out. Pure. */
export class FrameParser {
  /** Pieces of an event that is not whole yet; joined once it is, since one event may be of many pieces. */
  #pieces: string[] = [];
  #last = '';
  /** A carriage return at the end of a chunk may be half of a line's end. */
  #afterReturn = false;

  /** The events that are whole with this chunk. */
  push(chunk: string): Frame[] {
    if (chunk === '') return [];
    const text = (this.#afterReturn && chunk.startsWith('\n') ? chunk.slice(1) : chunk).replace(/\r\n?/g, '\n');
    this.#afterReturn = chunk.endsWith('\r');
    this.#pieces.push(text);
    const isWhole = (this.#last + text).includes('\n\n');
    this.#last = text.at(-1) ?? this.#last;
    if (!isWhole) return [];
    const blocks = this.#pieces.join('').split('\n\n');
    this.#pieces = [blocks.pop() ?? ''];
    this.#last = this.#pieces[0]?.at(-1) ?? '';
    return blocks.map(frameOf).filter((frame) => frame !== null);
  }
}

function frameOf(block: string): Frame | null {
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === 'id') id = value;
    if (name === 'data') data.push(value);
  }
  return data.length === 0 ? null : { id, data: data.join('\n') };
}
