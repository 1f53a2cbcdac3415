import type { GenerationError } from './models';

/** How a run ends. */
export type Ending =
  | { status: 'completed'; stopReason: string }
  | { status: 'failed'; stopReason: 'error' | 'cancelled'; error: GenerationError };

/** An error of the record; every one names the generation and its trace. */
export const failure = (
  ids: { generationId: string; traceId: string },
  code: string,
  message: string,
  meta: Record<string, unknown> = {},
): Ending => ({
  status: 'failed',
  stopReason: code === 'GENERATION_CANCELLED' ? 'cancelled' : 'error',
  error: { code, message, meta: { ...meta, generation_id: ids.generationId, trace_id: ids.traceId } },
});
