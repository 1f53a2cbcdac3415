import type { ProcessIdentity } from './processes';

/** One engine as the guard starts it. */
export interface EngineSpec {
  name: string;
  command: string;
  args: string[];
  /** Appended to; holds both outputs of the engine. */
  logFile: string;
  /** Set when the engine must not run as the guard's own user. */
  user?: { uid: number; gid: number };
  /** Engines end in falling order: what leans on another has the higher number. */
  order: number;
  /** Signals of a stop, in order, each with the time it has before the next; SIGKILL comes after the last. */
  stop: { signal: NodeJS.Signals; graceMs: number }[];
}

export type GuardRequest =
  | { id: number; type: 'start'; spec: EngineSpec }
  | { id: number; type: 'stop'; name: string }
  | { id: number; type: 'remove-at-end'; paths: string[] };

export type GuardMessage =
  | { type: 'answer'; id: number; error?: string; process?: ProcessIdentity }
  | { type: 'exit'; name: string; pid: number; code: number | null; signal: NodeJS.Signals | null };
