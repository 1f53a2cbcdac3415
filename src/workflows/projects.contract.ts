/** The workflows' exported names. */
export const PROJECT_PAUSE = 'projectPause';
export const PROJECT_DELETION = 'projectDeletion';

/** Tells `projectPause` that the row has changed again. */
export const PROJECT_CHANGED = 'changed';

/** The workflows' ids, derived from the project's, so that a second start changes nothing. */
export const projectPauseId = (projectId: string): string => `pause/${projectId}`;
export const projectDeletionId = (projectId: string): string => `delete/${projectId}`;

/** What the workflows `projectPause` and `projectDeletion` are started with. */
export interface ProjectRunInput {
  projectId: string;
}

/** Where a pass stands: at which change it began (ISO 8601), and the last row that it brought in line. */
export interface PausePlace {
  changedAt: string;
  /** Name of a kind of rows and the id of its last row. */
  after: { kind: string; id: string } | null;
}

export interface PausePageInput {
  projectId: string;
  /** Null = at the beginning. */
  place: PausePlace | null;
}

/** What one page came to. */
export interface PausePageResult {
  /** Runs and Schedules that it paused or let go. */
  changed: number;
  /** Where the next page goes on; null when row and world agree. */
  place: PausePlace | null;
}
