import type { Mail, OutgoingMail } from './mailbox';

/** What the API and the worker tell their supervisor. */
export type ChildMessage =
  | { type: 'ready'; port?: number; metricsPort?: number }
  | { type: 'mail'; id: number; mail: OutgoingMail }
  | { type: 'mailbox'; id: number; to: string };

/** What it answers; `id` is the question's. */
export type SupervisorMessage = { type: 'mail-stored'; id: number } | { type: 'mailbox'; id: number; data: Mail[] };
