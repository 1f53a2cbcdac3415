import type { RunInput } from '../api/core/temporal';

/** Kinds of rows that belong to a run, mostly by their table; a worker's activities know what each stands for. */
export const SWEEP_KINDS = [
  'generations',
  'webhook_deliveries',
  'sign_in_codes',
  'invitations',
  'agent_deletions',
  'project_deletions',
  'project_pauses',
] as const;

/** Tables that `sweepExpired` clears for the Schedule `sweep/auth`. */
export const AUTH_TABLES = [
  'sign_in_codes',
  'sign_in_requests',
  'refresh_tokens',
  'session_families',
  'project_idempotency_keys',
] as const;

/** Tables that `sweepExpired` clears for the Schedule `sweep/rate-windows`. */
export const RATE_TABLES = ['rate_windows'] as const;

/** Tables that `retain` clears for the Schedule `retention/deliveries`; deliveries first, since events go after them. */
export const DELIVERY_TABLES = ['webhook_deliveries', 'events'] as const;

/** What `retain` clears for the Schedule `retention/content`. */
export const CONTENT_TABLES = ['trace_contents'] as const;

/** One kind of rows that belong to a run, for the sweeps. */
export interface SweepKind {
  /** As in `SWEEP_KINDS`. */
  name: string;
  /** The runs' workflow type. */
  workflowType: string;
  /** The runs look at their row by themselves and need no signal when it settled without them. */
  endsByItself?: boolean;
  /** Runs of rows whose start seems to be lost, oldest row first, at most `limit`. */
  unseen(olderThan: Date, limit: number): Promise<RunInput[]>;
  /**
   * A page of rows that are not settled, in the order of their ids; `id` is the row's, `run.id` the run's. `moving` says that
   * the row waits for nobody, so that a run which waits is elsewhere: it is told to look.
   */
  unsettled(afterId: string | null, limit: number): Promise<{ id: string; run: RunInput; moving?: boolean }[]>;
}

/** Input of `sweepStarts` and `sweepLost`. */
export interface SweepInput {
  kinds: readonly string[];
}

/** Input of `sweepExpired` and `retain`. */
export interface RemovalInput {
  tables: readonly string[];
}

export interface StartCounts {
  started: number;
}

export interface LostCounts {
  /** Rows without a run, whose run was started. */
  started: number;
  /** Runs whose row is settled, gone or may be elsewhere, which were told to look at it. */
  signalled: number;
}

/** One piece of a removal; `after` is where the next one goes on, null at the end. */
export interface RemovalPiece {
  removed: number;
  after: string | null;
}
