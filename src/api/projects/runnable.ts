import { ApiError } from '../core/errors';
import type { ProjectAccess } from '../core/route';

/**
 * Refuses to start work in a project that is archived or paused; every path that starts a generation or a run asks
 * before it writes. Spec: Other states.
 * @throws PROJECT_ARCHIVED; PROJECT_PAUSED with `meta.pause_reason`
 */
export function assertRunnable(project: Pick<ProjectAccess, 'status' | 'pausedAt' | 'pauseReason'>): void {
  if (project.status === 'archived') throw new ApiError('PROJECT_ARCHIVED', 'The project is archived.');
  if (project.pausedAt !== null) {
    throw new ApiError('PROJECT_PAUSED', 'The project is paused.', { meta: { pause_reason: project.pauseReason } });
  }
}
