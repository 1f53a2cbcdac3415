export const TRACE_PURGE = 'tracePurge';
/** Update that answers when the run has ended. */
export const AWAIT_END = 'awaitEnd';

/** Id of the run that removes the content of a trace and of those below it. */
export const tracePurgeId = (traceId: string): string => `purge/${traceId}`;

/** Who removes content; ids only. */
export interface TracePurger {
  type: 'api_key' | 'user' | 'system';
  id: string;
}

export interface TracePurgeInput {
  projectId: string;
  traceId: string;
  by: TracePurger;
}

export interface PurgeTracesInput {
  projectId: string;
  /** At most 100, each with the traces below it. */
  traceIds: string[];
  by: TracePurger;
}

/** One piece of a purge. */
export interface PurgePiece {
  /** Traces whose content this piece removed. */
  purged: number;
  /** Whether there is nothing left to do: purged, or refused. */
  done: boolean;
  /** Whether a generation below one of the traces runs or waits; that tree was left as it is. */
  refused: boolean;
}
