import { continueAsNew, defineSignal, proxyActivities, setHandler, workflowInfo } from '@temporalio/workflow';
import type { Activities } from '../activities';
import { deleteAll } from './deletions';
import type { DeletionCounts } from './deletions.contract';
import { batch } from './options';
import { PROJECT_CHANGED } from './projects.contract';
import type { PausePageResult, PausePlace, ProjectRunInput } from './projects.contract';

const { pausePage } = proxyActivities<Activities>(batch);

const projectChanged = defineSignal(PROJECT_CHANGED);

/**
 * Brings the runs and Schedules of a project to what its row says now, page by page, until row and world agree. A change
 * meanwhile makes it begin again: a signal that arrives after the last page is a change that this page did not see.
 */
export async function projectPause({ projectId }: ProjectRunInput): Promise<{ changed: number }> {
  let signals = 0;
  setHandler(projectChanged, () => {
    signals += 1;
  });
  let changed = 0;
  let place: PausePlace | null = null;
  for (;;) {
    const before = signals;
    const page: PausePageResult = await pausePage({ projectId, place });
    changed += page.changed;
    ({ place } = page);
    if (place === null && signals === before) return { changed };
    if (place === null && workflowInfo().continueAsNewSuggested)
      await continueAsNew<typeof projectPause>({ projectId });
  }
}

/**
 * Cancels what runs in a project that was deleted, then removes its rows batch by batch, those of its own last. The rows say
 * what is left, so that a run that is started again goes on where this one stood.
 */
export function projectDeletion({ projectId }: ProjectRunInput): Promise<DeletionCounts> {
  return deleteAll({ kind: 'project', id: projectId }, () => continueAsNew<typeof projectDeletion>({ projectId }));
}
