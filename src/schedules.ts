import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ScheduleAlreadyRunning } from '@temporalio/client';
import type { ScheduleHandle, ScheduleOptions } from '@temporalio/client';
import { config } from './api/core/config';
import { log } from './api/core/log';
import { engine, queues, searchAttributesOf } from './api/core/temporal';
import { MONTH_TURN } from './workflows/billing.contract';
import type { MonthTurnInput } from './workflows/billing.contract';
import { AUTH_TABLES, CONTENT_TABLES, DELIVERY_TABLES, RATE_TABLES, SWEEP_KINDS } from './workflows/sweeps.contract';
import type { RemovalInput, SweepInput } from './workflows/sweeps.contract';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const CATCH_UP_MS = MINUTE_MS;
/** One stuck pass would block the overlap policy for ever; the next pass goes on where one was cut. */
const TIMEOUT_MS = { often: 15 * MINUTE_MS, daily: 6 * HOUR_MS };

/** One Schedule: plain data, so that a digest of it tells whether the engine's copy is the same. */
interface ScheduleDefinition {
  id: string;
  /** The workflow's exported name. */
  type: string;
  input: SweepInput | RemovalInput | MonthTurnInput;
  when: Interval | { cron: string };
  /** How far back it makes up for what was missed; a minute unless said. */
  catchUpMs?: number;
  /** What ends a pass; null where each has to come to its end. */
  timeoutMs: number | null;
  /** What the passes' ids begin with, where it is not the Schedule's own. */
  workflowId?: string;
}

interface Interval {
  everyMs: number;
  /** From midnight UTC, so that daily work does not all begin at once. */
  offsetMs: number;
}

const definitions = (): ScheduleDefinition[] => [
  {
    id: 'sweep/starts',
    type: 'sweepStarts',
    input: { kinds: SWEEP_KINDS },
    when: { everyMs: config().SWEEP_INTERVAL_SECONDS * 1000, offsetMs: 0 },
    timeoutMs: TIMEOUT_MS.often,
  },
  {
    id: 'sweep/lost',
    type: 'sweepLost',
    input: { kinds: SWEEP_KINDS },
    when: { everyMs: HOUR_MS, offsetMs: 0 },
    timeoutMs: TIMEOUT_MS.often,
  },
  {
    id: 'sweep/auth',
    type: 'sweepExpired',
    input: { tables: AUTH_TABLES },
    when: { everyMs: DAY_MS, offsetMs: 2 * HOUR_MS },
    timeoutMs: TIMEOUT_MS.daily,
  },
  {
    id: 'sweep/rate-windows',
    type: 'sweepExpired',
    input: { tables: RATE_TABLES },
    when: { everyMs: DAY_MS, offsetMs: HOUR_MS },
    timeoutMs: TIMEOUT_MS.daily,
  },
  {
    id: 'retention/deliveries',
    type: 'retain',
    input: { tables: DELIVERY_TABLES },
    when: { everyMs: DAY_MS, offsetMs: 3 * HOUR_MS },
    timeoutMs: TIMEOUT_MS.daily,
  },
  {
    id: 'retention/content',
    type: 'retain',
    input: { tables: CONTENT_TABLES },
    when: { everyMs: DAY_MS, offsetMs: 4 * HOUR_MS },
    timeoutMs: TIMEOUT_MS.daily,
  },
  {
    id: 'month-turn',
    type: MONTH_TURN,
    input: {},
    when: { cron: '0 0 1 * *' },
    catchUpMs: 31 * DAY_MS,
    timeoutMs: null,
    workflowId: 'month-turn/turn',
  },
];

/** This build's version: a worker of an older build leaves the Schedules of a newer one alone. */
const thisBuild = (): string => {
  const manifest = readFileSync(join(__dirname, '..', 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
};

/** Whether version `a` (`1.2.3`) comes before `b`. */
export function isOlder(a: string, b: string): boolean {
  const [left, right] = [a, b].map((version) => version.split('.').map((part) => Number.parseInt(part, 10)));
  for (const [index, number] of (left ?? []).entries()) {
    const other = right?.[index] ?? 0;
    if (number !== other) return number < other;
  }
  return false;
}

function optionsOf(definition: ScheduleDefinition, build: string): ScheduleOptions {
  const { id, type, input, when, timeoutMs, catchUpMs = CATCH_UP_MS, workflowId = id } = definition;
  const hash = createHash('sha256').update(JSON.stringify(definition)).digest('hex').slice(0, 16);
  return {
    scheduleId: id,
    spec:
      'cron' in when
        ? { cronExpressions: [when.cron], timezone: 'UTC' }
        : { intervals: [{ every: when.everyMs, offset: when.offsetMs }] },
    policies: { overlap: 'SKIP', catchupWindow: catchUpMs },
    action: {
      type: 'startWorkflow',
      workflowType: type,
      workflowId, // The engine appends the nominal time.
      taskQueue: queues.platform,
      args: [input],
      ...(timeoutMs === null ? {} : { workflowExecutionTimeout: timeoutMs }),
      typedSearchAttributes: searchAttributesOf({
        resourceType: type === MONTH_TURN ? 'month_turn' : 'sweep',
        resourceId: id,
      }),
      // On the action, since the Schedule's own memo cannot be changed after it is made.
      memo: { trigger: 'schedule', hash, build },
    },
  };
}

/**
 * Brings the engine's Schedules to what this build defines, and begins a comparison of rows and runs at once. Safe to
 * repeat and to call from several workers at once: each Schedule exists once.
 */
export async function ensureSchedules(): Promise<void> {
  const build = thisBuild();
  for (const definition of definitions()) await ensureSchedule(optionsOf(definition, build));
  await engine().schedule.getHandle('sweep/lost').trigger('SKIP');
}

async function ensureSchedule(options: ScheduleOptions): Promise<void> {
  try {
    await engine().schedule.create(options);
    log.info({ msg: 'schedule created', schedule_id: options.scheduleId });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    await bringUpToDate(engine().schedule.getHandle(options.scheduleId), options);
  }
}

async function bringUpToDate(handle: ScheduleHandle, options: ScheduleOptions): Promise<void> {
  const { memo: stored } = (await handle.describe()).action;
  const wanted = options.action.memo;
  if (stored?.hash === wanted?.hash) return;
  if (typeof stored?.build === 'string' && isOlder(String(wanted?.build), stored.build)) return;
  // The state stays: an operator may have paused the Schedule.
  await handle.update(({ state }) => ({
    spec: options.spec,
    policies: options.policies ?? {},
    action: options.action,
    state,
  }));
  log.info({ msg: 'schedule updated', schedule_id: options.scheduleId });
}
