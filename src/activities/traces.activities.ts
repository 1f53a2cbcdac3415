import { heartbeat } from '@temporalio/activity';
import { purgeSubtree } from '../api/traces/purge';
import type { PurgePiece, PurgeTracesInput } from '../workflows/traces.contract';

/** Traces of one tree that one activity removes: far less than its time allows. */
const TRACES_A_PIECE = 1_000;

/** Activities that remove the content of traces. */
export const traceActivities = () => ({
  /**
   * Removes one piece of the content of traces and of those below them. A tree in which a generation runs or waits is
   * left as it is. Safe to repeat: what has a stamp keeps it.
   */
  async purgeTraces({ projectId, traceIds, by }: PurgeTracesInput): Promise<PurgePiece> {
    const total: PurgePiece = { purged: 0, done: true, refused: false };
    for (const traceId of traceIds) {
      heartbeat();
      const bounds = { tracesMax: TRACES_A_PIECE, onTrace: () => heartbeat() };
      const { purged, refused, more } = await purgeSubtree({ projectId, traceId }, by, bounds);
      total.purged += purged;
      if (refused) total.refused = true;
      if (more) total.done = false;
    }
    return total;
  },
});
