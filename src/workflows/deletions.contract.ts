/** Names the row of what is being deleted. */
export interface DeleteBatchInput {
  kind: 'agent' | 'project';
  id: string;
}

/** What one batch came to. */
export interface DeleteBatchResult {
  generations: number;
  traces: number;
  /** Rows of other kinds; those of builds before projects could be deleted have none. */
  rows?: number;
  /** Whether something may be left. */
  more: boolean;
}

/** Sums of the batches of one run. */
export interface DeletionCounts {
  generations: number;
  traces: number;
  rows: number;
}
