import { MockActivityEnvironment } from '@temporalio/testing';
import { sweepActivities } from '../../src/activities/sweeps.activities';
import { config } from '../../src/api/core/config';
import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { engine, runEnded, startRun } from '../../src/api/core/temporal';
import { firstAttempts } from '../../src/api/webhooks/first-attempts';
import { startDelivery, startPendingDeliveries } from '../../src/api/webhooks/runs';
import { reconcile } from '../../src/reconcile';
import { ensureSchedules, isOlder } from '../../src/schedules';
import { AUTH_TABLES, DELIVERY_TABLES, RATE_TABLES, SWEEP_KINDS } from '../../src/workflows/sweeps.contract';
import type { LostCounts, SweepKind } from '../../src/workflows/sweeps.contract';
import { useService } from '../support/app';
import type { Person } from '../support/app';
import { eventually } from '../support/eventually';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { alterDelivery, deliveryRow, recordOnly } from '../support/webhooks';

const SCHEDULES = [
  'sweep/starts',
  'sweep/lost',
  'sweep/auth',
  'sweep/rate-windows',
  'retention/deliveries',
  'retention/content',
];
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

// Before the service's own ending, which closes the database and the engine.
afterAll(() => firstAttempts.drain(1_000));

const service = useService({ worker: true });

let owner: Person;
let projectId: string;
let receiver: Receiver;

beforeAll(async () => {
  owner = await service.signedIn();
});

beforeEach(async () => {
  projectId = (await service.project(owner)).id;
  receiver = await startReceiver();
  const webhook = { url: `${receiver.url}/hook`, events: ['*'] };
  const answer = await service.client(owner.token).post(`/v1/projects/${projectId}/webhooks`, webhook);
  expect(answer.status).toBe(201);
});

afterEach(() => receiver.close());

const ago = (milliseconds: number): Date => new Date(Date.now() - milliseconds);

/** A delivery whose process died right after the commit, its claim over. */
const leftBehind = async (overdueMs: number): Promise<string> => {
  const [id = ''] = await recordOnly(projectId);
  await alterDelivery(id, 'claimed_until = $2, next_attempt_at = $2', [ago(overdueMs)]);
  return id;
};

const sweep = async (type: string, input: object): Promise<unknown> => {
  const id = `sweep/tests/${newId('event')}`;
  await startRun({
    type,
    id,
    args: [input],
    labels: { resourceType: 'sweep', resourceId: id },
    memo: { trigger: 'test' },
  });
  return engine().workflow.getHandle(id).result();
};

const sweepStarts = () => sweep('sweepStarts', { kinds: SWEEP_KINDS });

const delivered = (id: string) =>
  eventually(
    async () => {
      expect(await deliveryRow(id)).toMatchObject({ status: 'success', attempts: 1 });
    },
    { timeoutMs: 25_000 },
  );

/** The run has read the row, and waits for the planned time. */
const seen = (id: string) =>
  eventually(async () => {
    expect((await deliveryRow(id)).run_seen_at).not.toBeNull();
  });

const statusOf = async (id: string): Promise<string> => (await engine().workflow.getHandle(id).describe()).status.name;

describe('sweepStarts', () => {
  test('starts a delivery that is overdue by 15 seconds, and no other', async () => {
    const overdue = await leftBehind(16_000);
    const due = await leftBehind(10_000);
    const [claimed = ''] = await recordOnly(projectId);
    await alterDelivery(claimed, 'next_attempt_at = $2', [ago(60_000)]);
    await sweepStarts();
    await delivered(overdue);
    expect(await runEnded(overdue, 5_000)).toBe(true);
    for (const id of [due, claimed])
      expect(await deliveryRow(id)).toMatchObject({ status: 'pending', run_seen_at: null });
    expect(receiver.requests.map(({ headers }) => headers['x-svc-delivery'])).toEqual([overdue]);
  });

  test('starts a run again that was ended before its delivery settled', async () => {
    const id = await leftBehind(16_000);
    await alterDelivery(id, `next_attempt_at = now() + interval '1 hour'`);
    await startDelivery({ id, projectId });
    await engine().workflow.getHandle(id).terminate('by a test');
    await alterDelivery(id, 'next_attempt_at = $2', [ago(16_000)]);
    await sweepStarts();
    await delivered(id);
  });

  test('run twice at once it sends once', async () => {
    const id = await leftBehind(16_000);
    await Promise.all([sweepStarts(), sweepStarts()]);
    await delivered(id);
    expect(await runEnded(id, 5_000)).toBe(true);
    expect(receiver.requests).toHaveLength(1);
  });

  test('sends the mail of a code whose start was lost, but not of an expired one', async () => {
    const codes = [
      { id: newId('code'), email: 'lost@people.test', expiresAt: ago(-HOUR_MS) },
      { id: newId('code'), email: 'expired@people.test', expiresAt: ago(1_000) },
    ];
    for (const { id, email, expiresAt } of codes) {
      await query('insert into sign_in_codes (id, email, expires_at, created_at) values ($1, $2, $3, $4)', [
        id,
        email,
        expiresAt,
        ago(60_000),
      ]);
    }
    await sweepStarts();
    await eventually(() => {
      expect(service.mails.map(({ to }) => to)).toContain('lost@people.test');
    });
    expect(service.mails.map(({ to }) => to)).not.toContain('expired@people.test');
  });

  test('leaves kinds alone that it does not know', async () => {
    expect(await sweep('sweepStarts', { kinds: ['things'] })).toEqual({ started: 0 });
    expect(await sweep('sweepExpired', { tables: ['things'] })).toBe(0);
  });
});

test('a settlement that is found stored starts its pending deliveries', async () => {
  const id = await leftBehind(0);
  await startPendingDeliveries(projectId, projectId);
  await delivered(id);
});

describe('sweepLost', () => {
  test('[engine 2] starts the run of a delivery that has none, in whatever state it waits', async () => {
    const id = await leftBehind(0);
    await alterDelivery(id, `attempts = 2, next_attempt_at = now() + interval '1 hour', run_seen_at = now()`);
    await startDelivery({ id, projectId });
    await eventually(async () => {
      expect(await statusOf(id)).toBe('RUNNING');
    });
    await engine().workflow.getHandle(id).terminate('by a test');
    const { started } = await reconcile();
    expect(started).toBeGreaterThanOrEqual(1);
    expect(await statusOf(id)).toBe('RUNNING');
    const [claimed = ''] = await recordOnly(projectId);
    await reconcile();
    expect(await statusOf(id)).toBe('RUNNING');
    await expect(statusOf(claimed)).rejects.toThrow('not found');
    await engine().workflow.getHandle(id).terminate('by a test');
    await alterDelivery(id, `status = 'failed'`);
  });

  test('signals open runs whose row is settled or gone, and starts no run that is open', async () => {
    const settled = await leftBehind(0);
    const open = await leftBehind(0);
    for (const id of [settled, open]) {
      await alterDelivery(id, `next_attempt_at = now() + interval '1 hour'`);
      await startDelivery({ id, projectId });
      await seen(id);
    }
    await alterDelivery(settled, `status = 'failed'`);
    const kind: SweepKind = {
      name: 'things',
      workflowType: 'delivery',
      unseen: () => Promise.resolve([]),
      unsettled: () =>
        Promise.resolve([
          {
            id: open,
            run: {
              type: 'delivery',
              id: open,
              args: [],
              labels: { resourceType: 'thing', resourceId: open },
              memo: { trigger: 'test' },
            },
          },
        ]),
    };
    const activities = sweepActivities({ kinds: [kind] });
    await eventually(async () => {
      const counts = await new MockActivityEnvironment().run<[], LostCounts, () => Promise<LostCounts>>(() =>
        activities.compareRuns({ kind: 'things' }),
      );
      expect(counts.started).toBe(0);
      expect(counts.signalled).toBeGreaterThanOrEqual(1);
      expect(await signalsOf(settled)).toBeGreaterThanOrEqual(1);
    });
    expect(await signalsOf(open)).toBe(0);
    for (const id of [settled, open]) {
      await engine().workflow.getHandle(id).terminate('by a test');
      await alterDelivery(id, `status = 'failed'`);
    }
  });

  test('tells the open run of a row that waits for nobody to look, since it may wait where its row has left', async () => {
    const id = await leftBehind(0);
    await alterDelivery(id, `next_attempt_at = now() + interval '1 hour'`);
    await startDelivery({ id, projectId });
    await seen(id);
    const labels = { resourceType: 'thing', resourceId: id };
    const run = { type: 'delivery', id, args: [], labels, memo: { trigger: 'test' } };
    const kind: SweepKind = {
      name: 'things',
      workflowType: 'delivery',
      unseen: () => Promise.resolve([]),
      unsettled: () => Promise.resolve([{ id, run, moving: true }]),
    };
    const activities = sweepActivities({ kinds: [kind] });
    await eventually(async () => {
      const counts = await new MockActivityEnvironment().run<[], LostCounts, () => Promise<LostCounts>>(() =>
        activities.compareRuns({ kind: 'things' }),
      );
      expect(counts.started).toBe(0);
      expect(await signalsOf(id)).toBeGreaterThanOrEqual(1);
    });
    await engine().workflow.getHandle(id).terminate('by a test');
    await alterDelivery(id, `status = 'failed'`);
  });

  const signalsOf = async (id: string): Promise<number> => {
    const { events } = await engine().workflow.getHandle(id).fetchHistory();
    return (events ?? []).filter((event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'rowChanged')
      .length;
  };
});

describe('removals', () => {
  const count = async (table: string, ids: string[], column = 'id'): Promise<string[]> =>
    (
      await query<{ id: string }>(`select ${column} as id from ${table} where ${column} = any($1::text[]) order by 1`, [
        ids,
      ])
    ).map(({ id }) => id);

  test('what is past its end goes, what is not stays', async () => {
    const emails = ['past@people.test', 'live@people.test'] as const;
    const codes = [newId('code'), newId('code')] as const;
    const families = [newId('sessionFamily'), newId('sessionFamily'), newId('sessionFamily')] as const;
    const code =
      'insert into sign_in_codes (id, email, run_seen_at, expires_at, created_at) values ($1, $2, $4, $3, $4)';
    await query(code, [codes[0], emails[0], ago(1_000), ago(HOUR_MS)]);
    await query(code, [codes[1], emails[1], ago(-HOUR_MS), ago(HOUR_MS)]);
    for (const [index, email] of emails.entries()) {
      const age = index === 0 ? DAY_MS + 1_000 : DAY_MS - 60_000;
      await query('insert into sign_in_requests (email, created_at) values ($1, $2)', [email, ago(age)]);
      await query(
        'insert into project_idempotency_keys (user_id, key, request_hash, project_id, created_at) values ($1, $2, $3, $4, $5)',
        [owner.userId, email, Buffer.alloc(32), projectId, ago(age)],
      );
    }
    const family =
      'insert into session_families (id, user_id, revoked_at, expires_at, created_at) values ($1, $2, $3, $4, now())';
    await query(family, [families[0], owner.userId, null, ago(1_000)]);
    await query(family, [families[1], owner.userId, ago(1_000), ago(-HOUR_MS)]);
    await query(family, [families[2], owner.userId, null, ago(-HOUR_MS)]);
    expect(await sweep('sweepExpired', { tables: AUTH_TABLES })).toBeGreaterThanOrEqual(5);
    expect(await count('sign_in_codes', [...codes])).toEqual([codes[1]]);
    expect(await count('sign_in_requests', [...emails], 'email')).toEqual([emails[1]]);
    expect(await count('project_idempotency_keys', [...emails], 'key')).toEqual([emails[1]]);
    expect(await count('session_families', [...families])).toEqual([families[2]]);
    expect(await sweep('sweepExpired', { tables: AUTH_TABLES })).toBe(0);
  });

  test('what has left every sliding window goes', async () => {
    const second = Math.floor(Date.now() / 1000);
    for (const [key, age] of [
      ['left', 86_460],
      ['inside', 86_340],
    ] as const)
      await query(`insert into rate_windows (kind, key, second, count) values ('tests', $1, $2, 1)`, [
        key,
        second - age,
      ]);
    await sweep('sweepExpired', { tables: RATE_TABLES });
    expect(await count('rate_windows', ['left', 'inside'], 'key')).toEqual(['inside']);
  });

  test('goes on beyond one page', async () => {
    await query(
      `insert into sign_in_requests (email, created_at)
       select 'many@people.test', $1::timestamptz from generate_series(1, 2500)`,
      [ago(2 * DAY_MS)],
    );
    expect(await sweep('sweepExpired', { tables: ['sign_in_requests'] })).toBe(2_500);
  });

  test('settled deliveries past their retention go, and events with their last delivery', async () => {
    const past = ago(31 * DAY_MS);
    const rows = [await recordOnly(projectId), await recordOnly(projectId), await recordOnly(projectId)].map(
      ([id = '']) => id,
    );
    const [old = '', pending = '', young = ''] = rows;
    for (const id of [old, pending]) await alterDelivery(id, 'created_at = $2', [past]);
    for (const id of [old, young]) await alterDelivery(id, `status = 'success', next_attempt_at = null`);
    await query('update events set created_at = $2 where project_id = $1', [projectId, past]);
    await sweep('retain', { tables: DELIVERY_TABLES });
    expect(await count('webhook_deliveries', rows)).toEqual([pending, young].sort());
    expect(await query('select id from events where project_id = $1', [projectId])).toHaveLength(2);
    await query('delete from webhook_deliveries where id = any($1::text[])', [rows]);
    await sweep('retain', { tables: DELIVERY_TABLES });
    expect(await query('select id from events where project_id = $1', [projectId])).toEqual([]);
  });
});

describe('the Schedules', () => {
  afterAll(async () => {
    for (const id of SCHEDULES) await engine().schedule.getHandle(id).delete();
  });

  const listed = async (): Promise<string[]> => {
    const ids: string[] = [];
    for await (const { scheduleId } of engine().schedule.list()) ids.push(scheduleId);
    return ids.sort();
  };

  test('[engine 4] of two workers that start at once, each exists once', async () => {
    await Promise.all([ensureSchedules(), ensureSchedules()]);
    await eventually(async () => {
      // The turn of the month has a test of its own.
      expect(await listed()).toEqual([...SCHEDULES, 'month-turn'].sort());
    });
    for (const id of SCHEDULES) {
      const { policies, action, spec } = await engine().schedule.getHandle(id).describe();
      expect(policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 60_000 });
      expect(action).toMatchObject({ workflowId: id, taskQueue: 'platform' });
      const often = id.startsWith('sweep/starts') || id === 'sweep/lost';
      expect(action.workflowExecutionTimeout).toBe(often ? 15 * 60_000 : 6 * HOUR_MS);
      expect(spec.intervals?.[0]?.every).toBe({ 'sweep/starts': 1_000, 'sweep/lost': HOUR_MS }[id] ?? DAY_MS);
    }
  });

  test('a start of a worker begins a comparison, and what was left behind is found by itself', async () => {
    const id = await leftBehind(16_000);
    await delivered(id);
    const { info } = await engine().schedule.getHandle('sweep/lost').describe();
    expect(info.recentActions.length).toBeGreaterThanOrEqual(1);
    expect(info.recentActions[0]?.action.workflow.workflowId).toMatch(/^sweep\/lost-\d{4}-/);
  });

  test("another definition replaces the engine's copy, but not its pause, and an older build changes nothing", async () => {
    const handle = engine().schedule.getHandle('sweep/starts');
    const every = async () => (await handle.describe()).spec.intervals?.[0]?.every;
    await handle.pause('by a test');
    Object.assign(config(), { SWEEP_INTERVAL_SECONDS: 7 });
    await ensureSchedules();
    expect(await every()).toBe(7_000);
    expect((await handle.describe()).state.paused).toBe(true);
    await handle.update((current) => ({
      ...current,
      action: { ...current.action, memo: { hash: 'other', build: '999.0.0' } },
    }));
    Object.assign(config(), { SWEEP_INTERVAL_SECONDS: 9 });
    await ensureSchedules();
    expect(await every()).toBe(7_000);
    Object.assign(config(), { SWEEP_INTERVAL_SECONDS: 1 });
  });

  test.each([
    ['0.1.0', '0.2.0', true],
    ['0.9.0', '0.10.0', true],
    ['1.0.0', '0.9.9', false],
    ['1.0.0', '1.0.0', false],
    ['1.0.1', '1.0.0', false],
  ])('build %s is older than %s: %s', (a, b, older) => {
    expect(isOlder(a, b)).toBe(older);
  });
});
