import { AsyncLocalStorage } from 'node:async_hooks';

/** Ids that every log line of a request, a run or an activity carries: never content. */
export type LogFacts = Readonly<Record<string, string>>;

const storage = new AsyncLocalStorage<LogFacts>();
let traceFacts: () => LogFacts = () => ({});

/** Runs `fn`; log lines that are written in it, or in what it begins, carry these facts. */
export const withLogFacts = <T>(facts: LogFacts, fn: () => T): T => storage.run(facts, fn);

/** What a log line written here carries: the facts around it, and where there is one the trace. */
export const logFacts = (): LogFacts => ({ ...storage.getStore(), ...traceFacts() });

/** Says how the trace that is under way is found; without tracing there is none. */
export function readTraceBy(read: () => LogFacts): void {
  traceFacts = read;
}
