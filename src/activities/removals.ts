import { heartbeat } from '@temporalio/activity';
import { clock, shifted } from '../api/core/clock';
import { isDatabaseDown, query } from '../api/core/db';
import { errorFacts, log } from '../api/core/log';
import { WIDEST_WINDOW_SECONDS } from '../api/core/sliding-windows';
import { expiredRoots, purgeSubtree } from '../api/traces/purge';
import type { ExpiredRoot } from '../api/traces/purge';
import { retainedSince } from '../api/webhooks/deliveries';
import type { RemovalPiece } from '../workflows/sweeps.contract';

const DAY_MS = 86_400_000;
const ROWS_MAX = 1_000;
const ROOTS_MAX = 100;
/** An event without deliveries is left alone this long, so that nothing that just happens is looked at. */
const EVENT_AGE_MS = 3_600_000;

/** Removes one page of a table's rows; says where to go on. Safe to repeat. */
type Removal = (after: string | null) => Promise<RemovalPiece>;

const idsOf = (sql: string, bind: unknown[]): Promise<{ id: string }[]> => query<{ id: string }>(sql, bind);

/** Pages that start anew each time: what was removed is not found again, so a full page means that there may be more. */
const whileFull = (count: number): RemovalPiece => ({ removed: count, after: count < ROWS_MAX ? null : '' });

const byAge = (sql: string, bind: () => unknown[]): Removal => {
  return async () => whileFull((await idsOf(sql, [...bind(), ROWS_MAX])).length);
};

/** Walks all events by id, since those without deliveries stand between those that have some. */
async function removeEvents(after: string | null): Promise<RemovalPiece> {
  const page = await idsOf('select id from events where id > $1 and created_at < $2 order by id limit $3', [
    after ?? '',
    shifted(clock.now(), -EVENT_AGE_MS),
    ROWS_MAX,
  ]);
  const ids = page.map(({ id }) => id);
  const gone = await idsOf(
    `delete from events e where e.id = any($1::text[])
       and not exists (select 1 from webhook_deliveries d where d.event_id = e.id) returning e.id`,
    [ids],
  );
  return { removed: gone.length, after: page.length < ROWS_MAX ? null : (ids.at(-1) ?? null) };
}

/** Stands behind content that its project no longer keeps. */
const RETENTION_SWEEP = { type: 'system', id: 'retention_sweep' } as const;

/**
 * Removes the content of one page of trees that are past their project's retention. A tree in which something runs or
 * waits is left to the next day; so is one that cannot be removed, which must not keep the others from it.
 */
async function removeContents(after: string | null): Promise<RemovalPiece> {
  const [projectId = '', id = ''] = (after ?? '').split('/');
  const roots = await expiredRoots({ projectId, id }, ROOTS_MAX);
  let removed = 0;
  for (const root of roots) removed += await removeContent(root);
  const last = roots.at(-1);
  return {
    removed,
    after: last === undefined || roots.length < ROOTS_MAX ? null : `${last.projectId}/${last.id}`,
  };
}

async function removeContent({ projectId, id: traceId }: ExpiredRoot): Promise<number> {
  let removed = 0;
  try {
    for (let more = true; more;) {
      heartbeat();
      const bounds = { tracesMax: ROWS_MAX, onTrace: () => heartbeat() };
      const piece = await purgeSubtree({ projectId, traceId }, RETENTION_SWEEP, bounds);
      removed += piece.purged;
      ({ more } = piece);
    }
  } catch (error) {
    if (isDatabaseDown(error)) throw error;
    log.warn({ msg: 'content not removed', trace_id: traceId, ...errorFacts(error) });
  }
  return removed;
}

/** What the daily sweeps remove, by table. */
export const removals: ReadonlyMap<string, Removal> = new Map<string, Removal>([
  [
    'sign_in_codes',
    byAge(
      'delete from sign_in_codes where id in (select id from sign_in_codes where expires_at < $1 limit $2) returning id',
      () => [clock.now()],
    ),
  ],
  [
    // Written by older builds alone, while they run beside this one; the table goes with a later release.
    'sign_in_requests',
    byAge(
      `delete from sign_in_requests where id in (select id from sign_in_requests where created_at < $1 limit $2)
       returning id::text as id`,
      () => [shifted(clock.now(), -DAY_MS)],
    ),
  ],
  [
    // A spent one stays as long as an unspent one: shown again it has to end its family.
    'refresh_tokens',
    byAge(
      `delete from refresh_tokens where hash in (
         select hash from refresh_tokens where expires_at < $1 limit $2) returning family_id as id`,
      () => [clock.now()],
    ),
  ],
  [
    'session_families',
    byAge(
      `delete from session_families where id in (
         select id from session_families where expires_at < $1 or revoked_at is not null limit $2) returning id`,
      () => [clock.now()],
    ),
  ],
  [
    'project_idempotency_keys',
    byAge(
      `delete from project_idempotency_keys where (user_id, key) in (
         select user_id, key from project_idempotency_keys where created_at < $1 limit $2) returning key as id`,
      () => [shifted(clock.now(), -DAY_MS)],
    ),
  ],
  [
    'rate_windows',
    byAge(
      `delete from rate_windows where (kind, key, second, instance) in (
         select kind, key, second, instance from rate_windows where second < $1 limit $2) returning key as id`,
      () => [Math.floor(clock.ms() / 1000) - WIDEST_WINDOW_SECONDS],
    ),
  ],
  [
    'webhook_deliveries',
    byAge(
      `delete from webhook_deliveries where id in (
         select id from webhook_deliveries where status <> 'pending' and created_at <= $1
         order by created_at limit $2 for update skip locked) returning id`,
      () => [retainedSince()],
    ),
  ],
  ['events', removeEvents],
  ['trace_contents', removeContents],
]);
