import type { ActivityOptions } from '@temporalio/workflow';

/** Short work on rows: repeated until the database answers. */
export const database: ActivityOptions = {
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
};

/** Long passes over many rows. */
export const batch: ActivityOptions = {
  startToCloseTimeout: '10m',
  heartbeatTimeout: '30s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
};

/** One model step. Its tries are counted by the row, since the engine would count lost workers and outages too. */
export const model = (heartbeatMs: number): ActivityOptions => ({
  taskQueue: 'calls',
  startToCloseTimeout: '10m',
  heartbeatTimeout: heartbeatMs,
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
});

/**
 * One model step at the API process that holds the run's stream. The engine's retries never change the queue, so it makes
 * one attempt; the workflow decides where the next one goes.
 */
export const streamedModel = (taskQueue: string): ActivityOptions => ({
  taskQueue,
  scheduleToStartTimeout: '5s',
  startToCloseTimeout: '10m',
  heartbeatTimeout: '5s',
  retry: { maximumAttempts: 1 },
});

/** One tool call, sent at most once; reads are tried three times on connection failure. */
export const tool = (heartbeatMs: number, timeoutMs: number, read: boolean): ActivityOptions => ({
  taskQueue: 'calls',
  startToCloseTimeout: timeoutMs + 10_000,
  heartbeatTimeout: heartbeatMs,
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumAttempts: read ? 3 : 1 },
});

/** One attempt of a webhook delivery; the row counts to five, the activity names the wait before the next one. */
export const delivery: ActivityOptions = {
  taskQueue: 'deliveries',
  startToCloseTimeout: '30s',
  heartbeatTimeout: '5s',
  retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '1m' },
};

/** A sign-in code is of use for minutes only. */
export const codeMail: ActivityOptions = {
  taskQueue: 'deliveries',
  startToCloseTimeout: '30s',
  scheduleToCloseTimeout: '2m',
  retry: { initialInterval: '2s', backoffCoefficient: 2, maximumAttempts: 5 },
};

/** An invitation is worth more patience: eight tries over about eleven minutes. */
export const invitationMail: ActivityOptions = {
  taskQueue: 'deliveries',
  startToCloseTimeout: '30s',
  retry: { initialInterval: '5s', backoffCoefficient: 2, maximumInterval: '10m', maximumAttempts: 8 },
};
