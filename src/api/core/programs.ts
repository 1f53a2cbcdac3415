import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import Piscina from 'piscina';
import { clock } from './clock';
import { observe } from './metrics';
import type { ProgramFault, ProgramResult, ProgramTask, ProgramWork } from './programs-worker';

export type { ProgramFault } from './programs-worker';

export const PROGRAM_LIMITS = {
  schemaBytesMax: 64 * 1024,
  runMsMax: 250,
  memoryMibMax: 64,
  resultMibMax: 8,
} as const;

const LIMIT_TEXTS = {
  time: (runMsMax: number) => `time (${String(runMsMax)} ms)`,
  memory: () => `memory (${String(PROGRAM_LIMITS.memoryMibMax)} MiB)`,
  size: () => `size (${String(PROGRAM_LIMITS.schemaBytesMax / 1024)} KiB)`,
  result: () => `the result (${String(PROGRAM_LIMITS.resultMibMax)} MiB)`,
};

/** A tenant program went over one of its bounds; the message names the limit. Running it again ends the same way. */
export class ProgramLimitError extends Error {
  override readonly name = 'ProgramLimitError';
  constructor(
    readonly limit: keyof typeof LIMIT_TEXTS,
    runMsMax: number = PROGRAM_LIMITS.runMsMax,
  ) {
    super(`The program exceeds the limit of ${LIMIT_TEXTS[limit](runMsMax)}.`);
  }
}

/** A schema that cannot be compiled was used to check a value; `compileSchema` tells this when it is stored. */
export class ProgramSchemaError extends Error {
  override readonly name = 'ProgramSchemaError';
}

/** A program of JSON Logic or jq cannot be used, or failed on its value; the message is the evaluator's. */
export class ProgramFailedError extends Error {
  override readonly name = 'ProgramFailedError';
}

/** Too many programs wait for a thread; trying again later helps. */
export class ProgramsBusyError extends Error {
  override readonly name = 'ProgramsBusyError';
}

interface SchemaOptions {
  /** Asserts `format`; off by default, as 2020-12 has it. */
  formats?: boolean;
}

export interface Programs {
  /**
   * Checks a JSON value against a schema; at most 20 errors are told.
   * @throws ProgramLimitError, ProgramSchemaError, ProgramsBusyError.
   */
  validate(
    schema: unknown,
    value: unknown,
    options?: SchemaOptions,
  ): Promise<{ ok: true } | { ok: false; errors: ProgramFault[] }>;
  /**
   * Tells whether a schema may be stored: a schema of 2020-12 (or, by its `$schema`, draft 4 to 7) without `$ref` outside itself.
   * @throws ProgramLimitError, ProgramsBusyError.
   */
  compileSchema(schema: unknown, options?: SchemaOptions): Promise<{ ok: true } | { ok: false; message: string }>;
  /**
   * The value of a document of JSON Logic: an object whose only key is an operator is an expression, other objects and
   * lists are looked through for expressions, `{"preserve": x}` is x, a path that leads nowhere is null. It sees nothing
   * but the data, and ends the same way every time.
   * @throws ProgramFailedError, ProgramLimitError, ProgramsBusyError.
   */
  evaluateLogic(logic: unknown, data: unknown): Promise<unknown>;
  /**
   * Tells whether a document of JSON Logic may be stored.
   * @throws ProgramLimitError, ProgramsBusyError.
   */
  compileLogic(logic: unknown): Promise<{ ok: true } | { ok: false; message: string }>;
  /**
   * All results of a jq program over a JSON value, in order. It sees nothing but the value: no clock, no time zone, no
   * environment, no modules.
   * @throws ProgramFailedError, ProgramLimitError, ProgramsBusyError.
   */
  jq(program: string, value: unknown): Promise<unknown[]>;
  /**
   * Tells whether a jq program may be stored.
   * @throws ProgramLimitError, ProgramsBusyError.
   */
  compileJq(program: string): Promise<{ ok: true } | { ok: false; message: string }>;
  /** Ends all threads, running programs included. */
  close(): Promise<void>;
}

/** Two at least, so that one looping program delays nobody else; more than four only take memory. */
const defaultThreads = (): number => Math.min(4, Math.max(2, availableParallelism()));
const QUEUE_LENGTH_MAX = 1_000;
/** How often a run that still waits for its thread is looked at, and how long it may wait. */
const WAITING = { lookMs: 25, maxMs: 30_000 };

function workerFile(): string {
  // Threads run compiled code; under a test transform this file is still the source.
  const file = __filename.endsWith('.ts')
    ? resolve(__dirname, '../../../dist/api/core/programs-worker.js')
    : resolve(__dirname, 'programs-worker.js');
  if (!existsSync(file)) throw new Error(`${file} is missing: run \`npm run build\` first`);
  return file;
}

type Pool = Piscina<ProgramTask, ProgramResult>;

function createPool(threads: number): Pool {
  const pool = new Piscina<ProgramTask, ProgramResult>({
    filename: workerFile(),
    name: 'run',
    // Equal bounds: a thread that was ended is replaced at once, and waiting runs never depend on the next call.
    minThreads: threads,
    maxThreads: threads,
    maxQueue: QUEUE_LENGTH_MAX,
    // The engine enforces the bound when it collects garbage: a short peak above it may pass.
    resourceLimits: {
      maxOldGenerationSizeMb: PROGRAM_LIMITS.memoryMibMax,
      maxYoungGenerationSizeMb: 16,
      stackSizeMb: 4,
    },
    // A tenant's program has no business with the settings of this process.
    env: {},
    argv: [],
    execArgv: [],
    recordTiming: false,
  });
  // A thread that dies between two runs is replaced by the pool; without a listener its error would end the process.
  pool.on('error', () => undefined);
  return pool;
}

/** Ends a run that takes too long; time counts from its start in the thread, read from the cell the thread writes. */
function watch(cell: BigInt64Array, runMsMax: number, stop: (reason: 'time' | 'waiting') => void): () => void {
  const askedAt = process.hrtime.bigint();
  const since = (start: bigint): number => Number((process.hrtime.bigint() - start) / 1_000_000n);
  let timer: NodeJS.Timeout;
  let immediate: NodeJS.Immediate | undefined;
  const look = (): void => {
    const startedAt = Atomics.load(cell, 0);
    const left = startedAt === 0n ? 0 : runMsMax - since(startedAt);
    if (startedAt !== 0n && left <= 0) {
      // An answer that already lies in the queue of a busy event loop comes before this: the run was in time.
      immediate = setImmediate(stop, 'time');
    } else if (startedAt === 0n && since(askedAt) > WAITING.maxMs) stop('waiting');
    else timer = setTimeout(look, startedAt === 0n ? WAITING.lookMs : left + 1);
  };
  timer = setTimeout(look, runMsMax);
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

function failureOf(error: unknown): unknown {
  // Read by shape: an error that comes out of a thread need not be of this realm's classes.
  if (typeof error !== 'object' || error === null) return error;
  if ('code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY') return new ProgramLimitError('memory');
  if ('message' in error && error.message === 'Task queue is at limit') {
    return new ProgramsBusyError('Too many programs are waiting.');
  }
  return error;
}

async function runIn(pool: Pool, task: ProgramWork, runMsMax: number): Promise<ProgramResult> {
  const started = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT);
  const controller = new AbortController();
  const stopped: { by: Error | null } = { by: null };
  const unwatch = watch(new BigInt64Array(started), runMsMax, (reason) => {
    stopped.by =
      reason === 'time'
        ? new ProgramLimitError('time', runMsMax)
        : new ProgramsBusyError('No thread became free in time.');
    // Ends the thread: a backtracking pattern listens to nothing else.
    controller.abort();
  });
  try {
    return await pool.run({ ...task, started }, { signal: controller.signal });
  } catch (error) {
    throw stopped.by ?? failureOf(error);
  } finally {
    unwatch();
  }
}

/** Takes down how long a program took; `ended`: it said what it had to say, be it that a value does not fit. */
async function measured(program: string, run: () => Promise<ProgramResult>): Promise<ProgramResult> {
  const startedMs = clock.ms();
  let outcome = 'cut';
  try {
    const result = await run();
    outcome = 'ended';
    return result;
  } finally {
    observe('programSeconds', { program, outcome }, (clock.ms() - startedMs) / 1000);
  }
}

/** JSON text of a tenant's value; what is too deep to be written could not be read back within the bounds either. */
function textOf(value: unknown): string {
  try {
    // Nothing at all (undefined, a function) has no text, whatever the types say.
    const text = JSON.stringify(value) as string | undefined;
    return text ?? 'null';
  } catch (error) {
    if (error instanceof RangeError) throw new ProgramLimitError('memory');
    throw error;
  }
}

/** A program as it is stored. Spec: Limits, tenant programs: at most 64 KiB; for logic and jq as for schemas. */
function programText(text: string): string {
  if (Buffer.byteLength(text) > PROGRAM_LIMITS.schemaBytesMax) throw new ProgramLimitError('size');
  return text;
}

/** Text and parsed value stand in the thread side by side: no thread has to die to find out that they do not fit. */
function valueText(value: unknown): string {
  const text = textOf(value);
  if (text.length > (PROGRAM_LIMITS.memoryMibMax / 2) * 1024 * 1024) throw new ProgramLimitError('memory');
  return text;
}

type Run = (task: ProgramWork) => Promise<ProgramResult>;

async function valueOf(result: Promise<ProgramResult>): Promise<unknown> {
  const ended = await result;
  if (ended.outcome === 'value') return JSON.parse(ended.text) as unknown;
  throw new ProgramFailedError('message' in ended ? ended.message : 'the program gave no value');
}

async function usable(result: Promise<ProgramResult>): Promise<{ ok: true } | { ok: false; message: string }> {
  const ended = await result;
  return 'message' in ended ? { ok: false, message: ended.message } : { ok: true };
}

const schemaPrograms = (run: Run): Pick<Programs, 'validate' | 'compileSchema'> => ({
  validate: async (schema, value, { formats = false } = {}) => {
    const text = valueText(value);
    const result = await run({ kind: 'validate', schema: programText(textOf(schema)), value: text, formats });
    if (result.outcome === 'bad_schema') throw new ProgramSchemaError(result.message);
    return result.outcome === 'invalid' ? { ok: false, errors: result.errors } : { ok: true };
  },
  compileSchema: async (schema, { formats = false } = {}) =>
    usable(run({ kind: 'compile', schema: programText(textOf(schema)), formats })),
});

const logicPrograms = (run: Run): Pick<Programs, 'evaluateLogic' | 'compileLogic'> => ({
  evaluateLogic: async (logic, data) =>
    valueOf(run({ kind: 'logic', logic: programText(textOf(logic)), data: valueText(data) })),
  compileLogic: async (logic) => usable(run({ kind: 'compile_logic', logic: programText(textOf(logic)) })),
});

const jqPrograms = (run: Run): Pick<Programs, 'jq' | 'compileJq'> => ({
  jq: async (program, value) =>
    (await valueOf(run({ kind: 'jq', program: programText(program), value: valueText(value) }))) as unknown[],
  compileJq: async (program) => usable(run({ kind: 'compile_jq', program: programText(program) })),
});

/**
 * Makes the runner of tenant programs: worker threads, started at the first use, that never keep the process alive.
 * Spec: Limits, tenant programs: at most 250 ms and 64 MiB a run, programs of at most 64 KiB.
 */
export function createPrograms({
  threadsMax = defaultThreads(),
  runMsMax = PROGRAM_LIMITS.runMsMax,
}: { threadsMax?: number; runMsMax?: number } = {}): Programs {
  const threads = Math.max(2, threadsMax);
  let pool: Pool | null = null;

  const livePool = (): Pool => {
    if (pool !== null && pool.threads.length < threads) {
      // The pool gives up on threads that die while they start, for ever; what still runs there may end.
      pool.close().catch(() => undefined);
      pool = null;
    }
    return (pool ??= createPool(threads));
  };

  const run = async (task: ProgramWork): Promise<ProgramResult> => {
    const result = await measured(task.kind, () => runIn(livePool(), task, runMsMax));
    if (result.outcome === 'too_deep') throw new ProgramLimitError('memory');
    if (result.outcome === 'too_large') throw new ProgramLimitError('result');
    return result;
  };

  return {
    ...schemaPrograms(run),
    ...logicPrograms(run),
    ...jqPrograms(run),
    close: async () => {
      const open = pool;
      pool = null;
      await open?.destroy();
    },
  };
}
