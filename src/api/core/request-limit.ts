import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { clock } from './clock';
import { query } from './db';
import { errorFacts, log } from './log';
import { SecondCounts } from './second-counts';

const KIND = 'requests';
const SYNC_DELAY_MS = 1_000;
const KEYS_MAX = 50_000;
/** How far all processes together may be wrong: half of it by what is on its way, half by what came since. */
const ERROR_SHARE = 0.05 / 2;

/** What one process knows of one key. */
interface Entry {
  /** Accepted requests of all processes as of the last look at the database, and own ones since. */
  seen: SecondCounts;
  /** Own requests that are not in the database yet. */
  own: SecondCounts;
  /** Requests accepted since the last look began. */
  sinceLook: number;
  /** Processes that have counted this key lately. */
  processes: number;
  /** The look under way. */
  looking: Promise<void> | null;
}

export interface RequestLimitRules {
  /** Requests in the window. */
  limit: number;
  windowSeconds: number;
}

/**
 * Counts requests by key in a sliding window that all processes share, without asking the database for each of them.
 * A process counts in memory, writes its counts a second later at the latest, and reads those of the others with them. It
 * accepts at most its share before it looks again, so that all processes together err by a twentieth of the limit at most;
 * alone it is exact. When the database is away each process counts for itself.
 * Spec: Limits, rules 1 to 3.
 */
export class RequestLimit {
  private readonly entries = new LRUCache<string, Entry>({ max: KEYS_MAX });
  private readonly due = new Set<string>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly rules: () => RequestLimitRules,
    private readonly instance: string = randomUUID(),
  ) {}

  /** Takes a place in the window; false when it is full. A refused request is not counted. */
  async take(key: string): Promise<boolean> {
    const { limit, windowSeconds } = this.rules();
    let entry = this.entries.get(key);
    if (entry === undefined) {
      entry = {
        seen: new SecondCounts(windowSeconds),
        own: new SecondCounts(windowSeconds),
        sinceLook: 0,
        processes: 1,
        looking: null,
      };
      this.entries.set(key, entry);
      await this.look(key, entry);
    }
    const share = Math.max(1, Math.floor((limit * ERROR_SHARE) / entry.processes));
    if (entry.looking !== null && entry.sinceLook >= share) await entry.looking;
    const second = Math.floor(clock.ms() / 1000);
    if (entry.seen.total(second) >= limit) return false;
    entry.seen.add(second, 1);
    entry.own.add(second, 1);
    entry.sinceLook += 1;
    this.remember(key, entry, share);
    return true;
  }

  /** Looks at once when half the share is used, so that nobody has to wait for it; else within a second. */
  private remember(key: string, entry: Entry, share: number): void {
    this.plan(key);
    if (entry.sinceLook * 2 >= share) void this.look(key, entry);
  }

  private plan(key: string): void {
    this.due.add(key);
    this.timer ??= setTimeout(() => void this.flush(), SYNC_DELAY_MS).unref();
  }

  /** Writes what is not written yet; once more before a process stops. */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const keys = [...this.due];
    this.due.clear();
    await Promise.all(keys.map((key) => this.flushKey(key)));
  }

  private async flushKey(key: string): Promise<void> {
    const entry = this.entries.get(key);
    if (entry === undefined) return;
    await entry.looking;
    if (entry.own.entries().length > 0) await this.look(key, entry);
  }

  private look(key: string, entry: Entry): Promise<void> {
    entry.looking ??= this.exchange(key, entry).finally(() => {
      entry.looking = null;
    });
    return entry.looking;
  }

  /** Adds own counts to the database and takes over what stands there, in one statement. */
  private async exchange(key: string, entry: Entry): Promise<void> {
    const { windowSeconds } = this.rules();
    const now = Math.floor(clock.ms() / 1000);
    const written = entry.own.entries();
    entry.own = new SecondCounts(windowSeconds);
    entry.sinceLook = 0;
    try {
      const rows = await query<{ second: string; count: number; others: number }>(EXCHANGE, [
        key,
        this.instance,
        written.map(([second]) => second),
        written.map(([, count]) => count),
        now - windowSeconds,
      ]);
      entry.seen = merged(windowSeconds, [
        ...rows.map(({ second, count }): [number, number] => [Number(second), count]),
        ...written,
        ...entry.own.entries(),
      ]);
      entry.processes = 1 + (rows[0]?.others ?? 0);
    } catch (error) {
      log.warn({ msg: 'counts of requests not exchanged', ...errorFacts(error) });
      entry.own = merged(windowSeconds, [...written, ...entry.own.entries()]);
      this.plan(key);
    }
  }
}

function merged(windowSeconds: number, counts: [second: number, count: number][]): SecondCounts {
  const all = new SecondCounts(windowSeconds);
  for (const [second, count] of counts.sort(([a], [b]) => a - b)) all.add(second, count);
  return all;
}

/** The select does not see what the same statement writes. */
const EXCHANGE = `
  with put as (
    insert into rate_windows (kind, key, second, instance, count)
    select '${KIND}', $1, w.second, $2, w.count from unnest($3::bigint[], $4::int[]) as w (second, count)
    on conflict (kind, key, second, instance) do update set count = rate_windows.count + excluded.count)
  select second::text, sum(count)::int as count,
    (select count(distinct instance)::int from rate_windows
      where kind = '${KIND}' and key = $1 and second > $5 and instance <> $2) as others
  from rate_windows where kind = '${KIND}' and key = $1 and second > $5 group by second`;
