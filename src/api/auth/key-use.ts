import { LRUCache } from 'lru-cache';
import { clock, shifted } from '../core/clock';
import { query } from '../core/db';
import { errorFacts, log } from '../core/log';

const REFRESH_MS = 60_000;
const FLUSH_DELAY_MS = 1_000;
const REMEMBERED_KEYS_MAX = 10_000;

/** When this process last noted a use of a key, in milliseconds. */
const noted = new LRUCache<string, number>({ max: REMEMBERED_KEYS_MAX });
const waiting = new Set<string>();
let timer: NodeJS.Timeout | undefined;

/**
 * Notes that a key was used. It is written a moment later, many keys at a time and each at most once a minute, so that
 * no request waits for it; what waits when the process dies is lost, which the field allows.
 */
export function noteKeyUse(keyId: string): void {
  const nowMs = clock.ms();
  if (nowMs - (noted.get(keyId) ?? -Infinity) < REFRESH_MS) return;
  noted.set(keyId, nowMs);
  waiting.add(keyId);
  timer ??= setTimeout(() => void flushKeyUse(), FLUSH_DELAY_MS).unref();
}

/** Writes the uses that wait; called by itself, and once more before a process stops. Safe to repeat. */
export async function flushKeyUse(): Promise<void> {
  clearTimeout(timer);
  timer = undefined;
  const ids = [...waiting];
  waiting.clear();
  if (ids.length === 0) return;
  const now = clock.now();
  try {
    // Another process may have written within the minute: the condition keeps it to one write.
    await query(
      `update api_keys set last_used_at = $2
       where id = any($1) and (last_used_at is null or last_used_at <= $3)`,
      [ids, now, shifted(now, -REFRESH_MS)],
    );
  } catch (error) {
    log.warn({ msg: 'last use of keys not written', keys: ids.length, ...errorFacts(error) });
  }
}
