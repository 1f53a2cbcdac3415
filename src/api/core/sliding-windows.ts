import { clock } from './clock';
import { query } from './db';
import type { Tx } from './db';
import { invariant } from './errors';

/** No window reaches further back: what is older counts nowhere and is removed by `sweep/rate-windows`. */
export const WIDEST_WINDOW_SECONDS = 86_400;

/** What was accepted within one second. */
export interface Bucket {
  /** Seconds since the epoch. */
  second: number;
  count: number;
}

/**
 * Seconds until a trailing window has room for one more, or null when it has now. The window slides and is exact to the
 * second: as many as the limit within it are the last ones. Pure. Spec: Limits, rule 1.
 * @param buckets oldest first; those that have left the window count nothing
 */
export function secondsUntilRoom(
  buckets: readonly Bucket[],
  { nowSecond, windowSeconds, limit }: { nowSecond: number; windowSeconds: number; limit: number },
): number | null {
  const inside = buckets.filter(({ second }) => second > nowSecond - windowSeconds);
  let left = inside.reduce((total, { count }) => total + count, 0);
  if (left < limit) return null;
  for (const { second, count } of inside) {
    left -= count;
    if (left < limit) return second + windowSeconds - nowSecond;
  }
  return windowSeconds;
}

/** How many within which trailing time. */
export interface WindowRule {
  /** At most `WIDEST_WINDOW_SECONDS`. */
  windowSeconds: number;
  limit: number;
}

/** What is counted (`invitations`), for whom, and the windows that all need room for one more. */
export interface SlidingWindows {
  kind: string;
  key: string;
  windows: readonly WindowRule[];
}

/**
 * Takes one place, exactly: of calls at once for one key, each waits for the one before to commit. A refused call counts
 * nothing, and neither does one whose transaction rolls back. Spec: Limits, rules 1 to 3.
 * @returns null = taken; else the seconds until every window has room
 */
export async function takeFromWindows({ kind, key, windows }: SlidingWindows, tx: Tx): Promise<number | null> {
  const widest = Math.max(...windows.map(({ windowSeconds }) => windowSeconds));
  invariant(widest <= WIDEST_WINDOW_SECONDS, 'a window reaches back no further than the sweep leaves its rows');
  await query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`window ${kind} ${key}`], tx);
  const nowSecond = Math.floor(clock.ms() / 1000);
  const buckets = await query<Bucket>(
    `select second::float8 as second, sum(count)::integer as count from rate_windows
     where kind = $1 and key = $2 and second > $3 group by second order by second`,
    [kind, key, nowSecond - widest],
    tx,
  );
  const seconds = Math.max(...windows.map((rule) => secondsUntilRoom(buckets, { nowSecond, ...rule }) ?? 0));
  if (seconds > 0) return seconds;
  await query(
    `insert into rate_windows as w (kind, key, second, count) values ($1, $2, $3, 1)
     on conflict (kind, key, second, instance) do update set count = w.count + 1`,
    [kind, key, nowSecond],
    tx,
  );
  return null;
}
