/** The workflow's exported name. */
export const MONTH_TURN = 'monthTurn';

/** What the workflow `monthTurn` is started with: the rows say what is to be turned. */
export interface MonthTurnInput {
  /** Where a fresh history goes on. */
  at?: TurnPosition;
}

/** A place in the turn of one month. */
export interface TurnPosition {
  /** As 2026-11. */
  month: string;
  /** The account after which to go on; empty at the beginning. */
  after: string;
}

/** The id of a turn that a worker starts since it was left undone; the Schedule's have one of their own. */
export const monthTurnId = (month: string): string => `month-turn/${month}`;

/** What is done for an account, each step by an activity of its own. */
export type TurnStep = 'downgrade';

export interface TurnAccountInput {
  userId: string;
  month: string;
  step: TurnStep;
}

export interface AccountPage {
  userIds: string[];
  /** Whether there may be more after the last one. */
  more: boolean;
}

/** What a turn came to. */
export interface TurnCounts {
  months: number;
  downgrades: number;
}
