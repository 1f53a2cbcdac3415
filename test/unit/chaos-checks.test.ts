import { barsOf } from '../../src/local/chaos/checks';
import type { Seen } from '../../src/local/chaos/checks';
import type { Incident } from '../../src/local/chaos/keeper';
import { Ledger } from '../../src/local/chaos/ledger';

const STORED_AT = 20_000;

const seen = (given: {
  /** Arrival and end of each call of the one step. */
  calls: [at: number, endedAt: number | null][];
  incidents?: Incident[];
  stored?: boolean;
  cancelledAt?: number;
  refunds?: [string, number][];
  failed?: boolean;
  lostTries?: number;
}): Seen => ({
  rows: {
    runs: [
      {
        ...{ id: 'gen_a', pause: 0, streamed: false, agent_id: 'agent_a', error_code: null },
        status: given.failed === true ? 'failed' : 'completed',
        stop_reason: given.cancelledAt === undefined ? 'stop' : 'cancelled',
        run_seen_at: new Date(0),
        completed_at: new Date(given.cancelledAt ?? STORED_AT),
      },
    ],
    steps: [
      {
        ...{ generation_id: 'gen_a', step: 1, model: 'plain', provider_failures: 1 },
        retries: 1 + (given.lostTries ?? 0),
        stored_at: given.stored === false ? null : new Date(STORED_AT),
      },
    ],
    ...{ accepted: [], events: [{ resource_id: 'gen_a', events: 1 }] },
    deliveries: [{ id: 'whd_a', status: 'success', attempts: 1 }],
  },
  ledger: new Ledger(),
  incidents: given.incidents ?? [],
  modelCalls: given.calls.map(([at, endedAt]) => ({ model: 'plain', key: 'gen_a:1', at, endedAt })),
  refunds: new Map(given.refunds ?? []),
  openRuns: new Set(),
  unfinished: [],
});
const broken = (given: Parameters<typeof seen>[0]): string[] =>
  barsOf(seen(given)).flatMap((bar) => (bar.broken.length > 0 ? [bar.name] : []));
const incident = (part: Incident['part'], at: number, upAt: number): Incident => ({
  what: `kill of ${part}`,
  part,
  at,
  upAt,
});
const UNEXPLAINED = ['unexplained extra calls'];
const TWICE: [number, number][] = [
  [1_000, 2_000],
  [10_000, 11_000],
];

test.each<[string, Incident, string[]]>([
  ['a worker that is killed while its call is served', incident('worker', 1_900, 3_000), []],
  ['a worker that is killed while the call of another one goes on', incident('worker', 1_200, 3_000), UNEXPLAINED],
  ['one that is killed before the answer is stored', incident('worker', 3_500, 4_000), []],
  ['one that was killed before the call came, and was down then', incident('worker', 900, 5_000), UNEXPLAINED],
  ['one that is killed long after', incident('worker', 8_000, 9_000), UNEXPLAINED],
  ['one that is killed under the call that was stored', incident('worker', 10_900, 12_000), UNEXPLAINED],
  ['a database that was down when the answer came', incident('postgres', 500, 1_900), []],
  ['an engine that was up again before the call', incident('temporal', 100, 900), UNEXPLAINED],
  ['a stop of everything around it', incident('all', 500, 9_000), []],
])('%s', (_what, given, expected) => {
  expect(broken({ calls: TWICE, incidents: [given] })).toEqual(expected);
});

test('one kill explains the calls that were under way at it, and no more', () => {
  const calls: [number, number][] = [
    [1_000, 2_000],
    [5_000, 6_000],
    [10_000, 11_000],
  ];
  const first = incident('worker', 1_900, 3_000);
  expect(broken({ calls, incidents: [first] })).toEqual(UNEXPLAINED);
  expect(broken({ calls, incidents: [first, incident('api', 5_900, 7_000)] })).toEqual([]);
});

test('a call that a cancellation met has no stored step, one long before it has no excuse', () => {
  expect(broken({ calls: [[1_000, 2_000]], stored: false, cancelledAt: 1_800 })).toEqual([]);
  expect(broken({ calls: [[1_000, 2_000]], stored: false, cancelledAt: 9_000 })).toEqual(UNEXPLAINED);
});

test('a call after its step was stored, and a refund that was sent twice, are told', () => {
  expect(broken({ calls: [[1_000, 2_000]], refunds: [['k', 1]] })).toEqual([]);
  expect(broken({ calls: [[1_000, 2_000]], refunds: [['k', 2]] })).toEqual(['tool calls sent twice']);
  const late: [number, number][] = [
    [1_000, 2_000],
    [22_000, 23_000],
  ];
  expect(broken({ calls: late, incidents: [incident('worker', 1_900, 3_000)] })).toEqual([
    'finished steps bought twice',
  ]);
});

test.each([
  [4, ['failed without a cause']],
  [5, []],
])('a run that failed after %i lost tries', (lostTries, expected) => {
  expect(broken({ calls: [[1_000, 2_000]], failed: true, lostTries })).toEqual(expected);
});
