import { pino } from 'pino';
import type { LevelWithSilent } from 'pino';
import { logFacts } from './log-context';

/**
 * The log of this process: one JSON line an event. Lines hold method, route template, ids, status, codes and times;
 * never a URL, query, header, body, secret or error text, since those carry content and tokens. Whose line it is stands in it
 * by `request_id`, the ids of run and activity, and `trace_id` (`log-context.ts`).
 */
export const log = pino({
  level: 'info',
  base: { pid: process.pid },
  mixin: () => ({ ...logFacts() }),
  timestamp: () => `,"time":"${new Date().toISOString()}"`,
});

/** Sets the least level that is written. */
export function setLogLevel(level: LevelWithSilent): void {
  log.level = level;
}

/** What a log line may say of an unforeseen error: its class, its code and where it was thrown, not its text. */
export function errorFacts(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: typeof error };
  const code = (error as { code?: unknown }).code;
  const frames = (error.stack ?? '')
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 6)
    .map((line) => line.trim());
  return { error: error.name, ...(typeof code === 'string' ? { code } : {}), frames };
}
