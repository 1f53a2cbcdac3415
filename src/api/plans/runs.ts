import { randomInt } from 'node:crypto';
import { clock } from '../core/clock';
import { config } from '../core/config';
import { monthOf } from '../core/cycle';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import type { RungName } from '../core/ladder';
import { holdAccount } from '../users/service';
import { planLimitReached } from './allowances';

/** Rows a project and month that count side by side: runs accepted at once take turns only where they meet in one. */
const SHARDS = 4;

/**
 * As long as this many runs are left nobody waits for anybody: more than can be under way at once. From there on the
 * account's row is held, and the count is exact to the last run.
 */
const FAR_FROM_LIMIT = 1_000;

/** Who starts a run, and who pays for it. */
export interface RunPayer {
  projectId: string;
  ownerUserId: string;
}

/** Where a month stands against the plan; both null where the plan has no limit. */
export interface RunRoom {
  plan: RungName;
  runs_max: string | null;
  runs: string | null;
}

/** The runs a month of every rung, for a statement that reads the plan itself. */
const limitsOf = (): string =>
  JSON.stringify(Object.fromEntries(Object.entries(config().PLANS).map(([name, { runs }]) => [name, runs])));

/**
 * Places of submissions that were sent and are not accepted yet: one for each pause that stands. A place is a stored
 * submission and nothing else, so that what was accepted counts where it is accepted, and a process that dies in between
 * leaves nothing to take back. One that nobody took for so long holds no place; the run may still take it.
 */
const PLACE_HELD_MS = 600_000;

/** The places of `u`'s runs, but that of the run which is named by the parameter `except`; project by project, each by its key. */
const placesSql = (since: string, except: string | null): string => `
  select coalesce(sum((
    select count(*) from generations g
    where g.project_id = p.id and g.status = 'requires_action'${except === null ? '' : ` and g.id <> ${except}`} and exists (
      select 1 from generation_submissions s
      where s.generation_id = g.id and s.pause = g.pause and s.accepted_at is null and s.created_at > ${since}))), 0)
  from projects p where p.owner_user_id = u.id`;

/**
 * Common table expressions of a statement that starts a run: `room` (plan, runs_max, runs), and `fits`, one row where a run
 * fits and none where not. They take the six parameters that `whereRunFits` gives, from `first` on.
 * @param except parameter with the id of a run that keeps the place which a submission holds for it
 */
export const roomExpressions = (first: number, except: string | null = null): string => {
  const at = (index: number): string => `$${String(first + index)}`;
  return `
  room as (
    select u.plan, (${at(2)}::jsonb ->> u.plan)::bigint as runs_max,
      case when (${at(2)}::jsonb ->> u.plan) is null then null else
        (select coalesce(sum(c.runs), 0) from run_counts c where c.user_id = u.id and c.month = ${at(1)})
        + case when ${at(4)}::int > 0 then 0 else (${placesSql(at(5), except)}) end end as runs
    from users u where u.id = ${at(0)}),
  fits as (select ${at(3)}::smallint as shard from room where runs_max is null or runs < runs_max - ${at(4)}::int)`;
};

const RAISE = 'on conflict (user_id, month, project_id, shard) do update set runs = run_counts.runs + 1';

/** Counts one run of the project in parameter 1 for each row of `source`, with the parameters of `roomExpressions`. */
export const countRun = (first: number, source: string): string => `
  insert into run_counts (user_id, month, project_id, shard, runs)
  select $${String(first)}, $${String(first + 1)}, $1, $${String(first + 3)}::smallint, 1 from ${source} ${RAISE}`;

/**
 * Counts the run of a submission that was accepted, in the statement that accepts it: the run's id stands in parameter 1,
 * those of `acceptedRunBinds` from `first` on.
 */
export const countAcceptedRun = (first: number): string => `
  insert into run_counts (user_id, month, project_id, shard, runs)
  select p.owner_user_id, $${String(first)}, p.id, $${String(first + 1)}::smallint, 1
  from generations g join projects p on p.id = g.project_id where g.id = $1 ${RAISE}`;

/** Month and shard. */
export const acceptedRunBinds = (): unknown[] => [monthOf(clock.now()), randomInt(SHARDS)];

/** Who pays, the month, the runs a month of every rung, the shard, the margin, and since when a place is held. */
const runBinds = (ownerUserId: string, exact: boolean): unknown[] => [
  ownerUserId,
  monthOf(clock.now()),
  limitsOf(),
  randomInt(SHARDS),
  exact ? 0 : FAR_FROM_LIMIT,
  new Date(clock.ms() - PLACE_HELD_MS),
];

/**
 * Runs a statement that starts a run where one fits: freely while there is much room, else again with the account's row
 * held, so that the last runs of a month are counted one by one.
 * @param statement gets the parameters of `roomExpressions`; answers whether the run fitted, with the row of `room`
 * @throws plan_limit_reached
 */
export async function whereRunFits<Answer>(
  ownerUserId: string,
  statement: (binds: unknown[], tx?: Tx) => Promise<{ room: RunRoom | null; answer: Answer }>,
): Promise<Answer> {
  const free = await statement(runBinds(ownerUserId, false));
  if (fitted(free.room, FAR_FROM_LIMIT)) return free.answer;
  return inTransaction(async (tx) => {
    await holdAccount(ownerUserId, tx);
    const { room, answer } = await statement(runBinds(ownerUserId, true), tx);
    if (room !== null && !fitted(room, 0)) throw planLimitReached(room.plan, 'runs', Number(room.runs_max));
    return answer;
  });
}

const fitted = (room: RunRoom | null, margin: number): boolean =>
  room === null || room.runs_max === null || Number(room.runs) < Number(room.runs_max) - margin;

const ROOM = `
  with ${roomExpressions(1)}
  select plan, runs_max, runs from room`;

/** Refuses where the month has no run left, and takes none: for what is refused for another reason all the same. @throws plan_limit_reached */
export async function assertRunFits(ownerUserId: string): Promise<void> {
  const room = await queryOne<RunRoom>(ROOM, runBinds(ownerUserId, true));
  if (room !== null && !fitted(room, 0)) throw planLimitReached(room.plan, 'runs', Number(room.runs_max));
}

const TAKE = `
  with ${roomExpressions(2)},
  counted as (${countRun(2, 'fits')})
  select plan, runs_max, runs from room`;

/**
 * Counts one run of the month, or refuses it. Each call counts another one. Spec: Plans, run.
 * @returns takes the run back: what was refused is none
 * @throws plan_limit_reached
 */
export async function takeRun({ projectId, ownerUserId }: RunPayer): Promise<() => Promise<void>> {
  const taken = await whereRunFits(ownerUserId, async (binds, tx) => ({
    room: await queryOne<RunRoom>(TAKE, [projectId, ...binds], tx),
    answer: { month: binds[1], shard: binds[3] },
  }));
  return async () => {
    await query(
      `update run_counts set runs = runs - 1
       where user_id = $1 and month = $2 and project_id = $3 and shard = $4::smallint`,
      [ownerUserId, taken.month, projectId, taken.shard],
    );
  };
}
