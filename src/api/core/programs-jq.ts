import createJq from 'jq-wasm/dist/build/jq.js';

/** Runs in the threads of tenant programs only: it changes what the thread's runtime gives to WebAssembly. */

type Import = (...args: number[]) => number;
interface Memory {
  buffer: ArrayBuffer;
  grow: (this: Memory, pages: number) => number;
}
interface Instance {
  exports: Record<string, unknown>;
}
interface Runtime {
  Module: new (bytes: ArrayBufferView) => object;
  Instance: new (module: object, imports: { a: Record<string, Import> }) => Instance;
  Memory: { prototype: Memory };
  instantiate: (bytes: ArrayBufferView, imports: object) => Promise<unknown>;
}
declare const WebAssembly: Runtime;

const PAGE_BYTES = 64 * 1024;
const MEMORY_BYTES_MAX = 64 * 1024 * 1024;
/** What jq says of a fault is one line; a program may write more to its error stream. */
const FAULT_BYTES_MAX = 2_000;

/**
 * Nothing from outside the value reaches the program: no clock, no time zone, no environment, no further input. Written
 * before it as definitions; `as` makes a program that begins with `import` a syntax error.
 */
const PRELUDE = [
  'def now: error("now is not available");',
  'def localtime: gmtime; def strflocaltime(f): strftime(f);',
  'def input: error("there is one input"); def inputs: empty; def env: {}; def get_search_list: [];',
  'def debug: .; def debug(f): .; def stderr: .; def input_filename: null;',
  '{} as $ENV |',
].join(' ');

/** A run went over the bound of its result. */
export class ResultTooLargeError extends Error {}
/** A run asked for more memory than it may have. */
export class JqMemoryError extends Error {}

/** A program that does not compile, or failed on the value; the message is jq's. */
export class JqFault extends Error {}

interface Io {
  input: Uint8Array;
  at: number;
  output: Buffer[];
  outputBytes: number;
  outputBytesMax: number;
  faults: Buffer[];
  faultBytes: number;
}

let binary: Promise<object> | null = null;
/** Set when the memory of the run under way could not grow. */
let refused = false;

/** jq's code, compiled; loads it at the first call. Not part of any tenant's time. */
export const loadJq = (): Promise<object> => (binary ??= compiledBinary());

async function compiledBinary(): Promise<object> {
  boundMemory();
  // Its runtime writes what it cannot do to the console of this process.
  Object.assign(globalThis.console, { error: () => undefined, log: () => undefined });
  const { instantiate } = WebAssembly;
  const found: { module?: object } = {};
  // The library keeps the bytes to itself: taken where it hands them over.
  WebAssembly.instantiate = (bytes, imports) => {
    found.module = new WebAssembly.Module(bytes);
    return instantiate(bytes, imports);
  };
  try {
    await createJq();
  } finally {
    WebAssembly.instantiate = instantiate;
  }
  if (found.module === undefined) throw new Error('jq was not instantiated as expected');
  // The engine translates functions when they are first used.
  await jqResults(found.module, '.a | length', '{"a":[1]}', 100);
  return found.module;
}

function boundMemory(): void {
  const { prototype } = WebAssembly.Memory;
  const grow = prototype.grow;
  prototype.grow = function grown(this: Memory, pages: number): number {
    if (this.buffer.byteLength + pages * PAGE_BYTES <= MEMORY_BYTES_MAX) return grow.call(this, pages);
    refused = true;
    throw new RangeError('memory limit');
  };
}

/**
 * Runs a program over one JSON text; each run has memory of its own, which goes with it.
 * @returns the results, as JSON texts
 * @throws JqFault, JqMemoryError, ResultTooLargeError
 */
export async function jqResults(
  module: object,
  program: string,
  input: string,
  outputBytesMax: number,
): Promise<string[]> {
  const io: Io = {
    input: Buffer.from(input),
    at: 0,
    output: [],
    outputBytes: 0,
    outputBytesMax,
    faults: [],
    faultBytes: 0,
  };
  refused = false;
  const jq = await instance(module, io);
  const status = ended(() => jq.callMain(['-c', '-M', `${PRELUDE} ${program}`, '/dev/stdin']));
  if (status === 0) return lines(io.output);
  const text = Buffer.concat(io.faults).toString().split('\n')[0] ?? '';
  throw new JqFault(
    text.replace(/^jq: (\d+ compile errors?|error)( \([^)]*\))?:? ?/, '').trim() || 'the program failed',
  );
}

function ended(main: () => number): number {
  try {
    return main();
  } catch (error) {
    if (error instanceof ResultTooLargeError || error instanceof RangeError) throw error;
    // The runtime aborts where it has no memory left, and where its own stack ends.
    throw refused ? new JqMemoryError() : new JqFault('the program was aborted');
  }
}

const lines = (chunks: Buffer[]): string[] =>
  Buffer.concat(chunks)
    .toString()
    .split('\n')
    .filter((line) => line !== '');

interface Jq {
  callMain(args: string[]): number;
}

function instance(module: object, io: Io): Promise<Jq> {
  return createJq({
    thisProgram: 'jq',
    instantiateWasm: ({ a: imports }: { a: Record<string, Import> }, receive: (made: Instance, of: object) => void) => {
      const memory: { current: Memory | null } = { current: null };
      const view = (): DataView => new DataView((memory.current as Memory).buffer);
      const made = new WebAssembly.Instance(module, { a: replaced(imports, ownImports(view, io)) });
      memory.current = Object.values(made.exports).find(isMemory) ?? null;
      receive(made, module);
      return made.exports;
    },
  }) as Promise<Jq>;
}

const isMemory = (exported: unknown): exported is Memory =>
  typeof exported === 'object' && exported !== null && 'buffer' in exported && 'grow' in exported;

/** The library names its imports by letters that change with each build; the functions keep their names. */
function replaced(imports: Record<string, Import>, own: Record<string, Import>): Record<string, Import> {
  const left = new Set(Object.keys(own));
  const result = Object.entries(imports).map(([letter, given]): [string, Import] => {
    left.delete(given.name);
    if (given.name === '_emscripten_resize_heap') return [letter, (bytes = 0) => (fits(bytes) ? given(bytes) : 0)];
    return [letter, own[given.name] ?? given];
  });
  if (left.size > 0) throw new Error(`jq does not import ${[...left].join(', ')}`);
  return Object.fromEntries(result);
}

/** The library has a bound of its own, above ours, behind which it does not even ask for memory. */
function fits(bytes: number): boolean {
  if (bytes >>> 0 <= MEMORY_BYTES_MAX) return true;
  refused = true;
  return false;
}

/** Input and output in whole pieces, where the library moves single bytes; no environment and no clock. */
function ownImports(view: () => DataView, io: Io): Record<string, Import> {
  const none = (count: number, bytes: number): number => {
    view().setUint32(count, 0, true);
    view().setUint32(bytes, 0, true);
    return 0;
  };
  const moved = (list: number, count: number, each: (piece: Uint8Array) => number): number => {
    let total = 0;
    for (let index = 0; index < count; index += 1) {
      const at = view().getUint32(list + index * 8, true);
      total += each(new Uint8Array(view().buffer, at, view().getUint32(list + index * 8 + 4, true)));
    }
    return total;
  };
  return {
    _fd_read: (_fd = 0, list = 0, count = 0, done = 0) => {
      view().setUint32(
        done,
        moved(list, count, (piece) => taken(io, piece)),
        true,
      );
      return 0;
    },
    _fd_write: (fd = 0, list = 0, count = 0, done = 0) => {
      view().setUint32(
        done,
        moved(list, count, (piece) => written(io, fd, piece)),
        true,
      );
      return 0;
    },
    _environ_sizes_get: (count = 0, bytes = 0) => none(count, bytes),
    _environ_get: () => 0,
    _emscripten_date_now: () => 0,
  };
}

function taken(io: Io, piece: Uint8Array): number {
  const part = io.input.subarray(io.at, io.at + piece.length);
  piece.set(part);
  io.at += part.length;
  return part.length;
}

function written(io: Io, fd: number, piece: Uint8Array): number {
  if (fd === 1) {
    io.outputBytes += piece.length;
    if (io.outputBytes > io.outputBytesMax) throw new ResultTooLargeError();
    io.output.push(Buffer.from(piece));
  } else if (io.faultBytes < FAULT_BYTES_MAX) {
    io.faultBytes += piece.length;
    io.faults.push(Buffer.from(piece));
  }
  return piece.length;
}
