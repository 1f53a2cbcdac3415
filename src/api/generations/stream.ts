import { setTimeout } from 'node:timers/promises';
import { clock } from '../core/clock';
import { ApiError } from '../core/errors';
import type { EventSink, EventSource } from '../core/event-stream';
import { DONE_FRAME, errorFrame, pauseFrame, positionOf } from './frames';
import type { Closing, Position } from './frames';
import { isSettled } from './models';
import type { GenerationRow } from './models';
import { DEPTH_GUARD_TEXT, presentResult } from './present';
import type { GenerationRows } from './present';
import { awaitGenerationRest } from './runs';
import { takeRows } from './scratch';
import { getGeneration } from './service';
import { Diverged, StreamReader } from './stream-reader';
import type { SaidStep } from './stream-reader';
import { streams } from './streams';
import { textOf } from './turn';

/** How long one wait for a run's rest lasts before it is asked for anew; a stream ends only with its run. */
const WAIT_MS = 10 * 60_000;
/** How long a stream outlasts an engine that cannot be reached, and how often it asks meanwhile. */
const OUTAGE_MS = 60_000;
const ASK_AGAIN_MS = 1_000;
const DIVERGED =
  'A part of this step had been sent before it was made again; read the generation for the whole answer.';
const GONE = 'The content of the run was removed.';
const INTERRUPTED = 'The stream was interrupted; the run goes on. Read the generation, or pick its stream up.';

/** A stream that waits to be answered: who is to follow, and what to give back when nobody follows any more. */
export interface OpenStream {
  row: GenerationRow;
  release: () => void;
}

/**
 * The stream of a run that this process has just started. The run goes on without a reader; as long as it does, what it
 * says here can be picked up.
 */
export function streamOf({ row, release }: OpenStream): EventSource {
  return async (sink) => {
    sink.closed.addEventListener('abort', release, { once: true });
    try {
      await follow({ row, sink, afterPause: 0 });
    } finally {
      streams.close(row.id);
      release();
    }
  };
}

/**
 * Picks the stream of a run up after the given event, while it runs and after.
 * Spec: Agents, generation rule 3.
 * @throws not_found, VALIDATION_FAILED, GENERATION_CONTENT_UNAVAILABLE, service_unavailable when too many streams are open
 */
export async function pickUp(projectId: string, id: string, lastEventId: string | undefined): Promise<EventSource> {
  const { position, closing } = positionOf(lastEventId);
  const row = await getGeneration(projectId, id);
  if (row.contentRedactedAt !== null) {
    throw new ApiError('GENERATION_CONTENT_UNAVAILABLE', 'The content of the generation was removed.', {
      meta: { generation_id: id },
    });
  }
  const release = streams.reserve();
  return async (sink) => {
    try {
      const waiting = row.status === 'in_progress';
      await follow({
        row,
        sink,
        from: position,
        closing,
        afterPause: waiting ? row.pause : row.pause - 1,
        until: sink.closed,
      });
    } finally {
      release();
    }
  };
}

interface Following {
  row: GenerationRow;
  sink: EventSink;
  /** Ends at the settlement, or at a pause with a higher number. */
  afterPause: number;
  from?: Position;
  closing?: string | null;
  /** Ends the waiting with the reader. */
  until?: AbortSignal;
}

async function follow({ row, sink, afterPause, from, closing, until }: Following): Promise<void> {
  const live = streams.live(row.id);
  const broken = new AbortController();
  const read = rowsOf(row);
  const load = async (): Promise<SaidStep[]> => saidSteps(await read());
  const reader = new StreamReader({ sink, live, load, ...(from === undefined ? {} : { from }) });
  const tell = (): Promise<void> =>
    reader.advance().catch((error: unknown) => {
      broken.abort(error);
    });
  const leave = live?.subscribe(tell);
  live?.open();
  try {
    if (from !== undefined) await reader.catchUp(await load());
    await tell();
    const rows = await restOf(
      { row, read },
      afterPause,
      until === undefined ? broken.signal : AbortSignal.any([broken.signal, until]),
    );
    if (rows === null) {
      await reader.close(errorFrame(broken.signal.aborted ? DIVERGED : INTERRUPTED));
      return;
    }
    await end(reader, rows, closing ?? null);
  } catch (error) {
    if (!(error instanceof Diverged)) throw error;
    await reader.close(errorFrame(DIVERGED));
  } finally {
    leave?.();
  }
}

/**
 * The rows of a run once it rests; null when the wait was cut, or nobody can tell. An engine that cannot be reached is asked
 * again: what the model says here comes without it, and so does the settlement of a last step.
 */
async function restOf(
  { row, read }: { row: GenerationRow; read: () => Promise<GenerationRows> },
  afterPause: number,
  cut: AbortSignal,
): Promise<GenerationRows | null> {
  let knownAt = clock.ms();
  for (let outcome: string = 'timeout'; ;) {
    const rows = await read();
    if (isSettled(rows.row) || (rows.row.status === 'requires_action' && rows.row.pause > afterPause)) return rows;
    if (cut.aborted || outcome === 'no-run') return null;
    if (outcome !== 'unknown') knownAt = clock.ms();
    else if (clock.ms() - knownAt > OUTAGE_MS) return null;
    else await setTimeout(ASK_AGAIN_MS, undefined, { signal: cut }).catch(() => undefined);
    outcome = await awaitGenerationRest(row, afterPause, { timeoutMs: WAIT_MS, cut, outlastsOutages: false });
  }
}

/** Reads the rows of a run, one read after the other; under zero retention those of its end can be read only once. */
function rowsOf({ projectId, id }: GenerationRow): () => Promise<GenerationRows> {
  let last: Promise<GenerationRows | null> = Promise.resolve(null);
  const read = async (known: GenerationRows | null): Promise<GenerationRows> => {
    if (known !== null && isSettled(known.row)) return known;
    const rows = await takeRows(projectId, id);
    if (rows === null) throw new Error('the generation of a stream is gone');
    return rows;
  };
  return () => {
    const next = last.then(read);
    last = next.catch(() => null);
    return next;
  };
}

/** The depth guard speaks in the place of the first step, which is never made. */
const saidSteps = ({ row, steps }: GenerationRows): SaidStep[] =>
  row.stopReason === 'depth_guard'
    ? [{ step: 1, text: DEPTH_GUARD_TEXT }]
    : steps.map(({ step, parts }) => ({ step, text: textOf(parts) }));

/** Sends what is left to say, and what closes a stream: the failure, or the pause if there is one, and the sign that it is complete. */
async function end(reader: StreamReader, rows: GenerationRows, closing: string | null): Promise<void> {
  const { row } = rows;
  if (!rows.held) {
    await reader.close(errorFrame(GONE));
    return;
  }
  await reader.catchUp(saidSteps(rows));
  if (row.status === 'failed') {
    await reader.close(errorFrame(row.error?.message ?? 'The generation failed.'));
    return;
  }
  const pause: Closing = `p${row.pause}`;
  if (row.status === 'requires_action' && closing !== pause) {
    const { id, generation_id, trace_id, status, required_action } = presentResult(rows);
    await reader.close(pauseFrame({ id, generation_id, trace_id, status, required_action }), pause);
  }
  await reader.close(DONE_FRAME, 'done');
}
