import { heartbeat } from '@temporalio/activity';
import { closeChange, openChange } from '../api/projects/pausing';
import type { PausePageInput, PausePageResult } from '../workflows/projects.contract';

const PAGE = 100;

/** One kind of what runs by itself in a project, and is held and let go with it. */
export interface HeldKind {
  name: string;
  /** Holds or lets go the next rows after an id, in the order of their ids; answers which. Safe to repeat. */
  bring(to: { projectId: string; runs: boolean }, after: string | null, limit: number): Promise<string[]>;
}

/** Activities of projects. `held` lists the kinds, in the order in which they are gone through. */
export const projectActivities = ({ held }: { held: HeldKind[] }) => ({
  /**
   * Brings the next page of what runs in a project in line with its row. A change meanwhile begins at the first page again;
   * after the last one its marker goes. Safe to repeat. Spec: Projects, pause; Engine, `projectPause`.
   */
  pausePage: async ({ projectId, place }: PausePageInput): Promise<PausePageResult> => {
    const change = await openChange(projectId);
    if (change === null) return { changed: 0, place: null };
    const changedAt = change.changedAt.toISOString();
    const from = place?.changedAt === changedAt ? place.after : null;
    const first = Math.max(
      0,
      held.findIndex(({ name }) => name === from?.kind),
    );
    for (const kind of held.slice(first)) {
      heartbeat();
      const after = kind.name === from?.kind ? from.id : null;
      const ids = await kind.bring({ projectId, runs: change.runs }, after, PAGE);
      const last = ids.at(-1);
      if (last !== undefined) {
        return { changed: ids.length, place: { changedAt, after: { kind: kind.name, id: last } } };
      }
    }
    const closed = await closeChange(projectId, change.changedAt);
    return { changed: 0, place: closed ? null : { changedAt, after: null } };
  },
});
