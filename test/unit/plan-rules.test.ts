import { monthBefore, monthOf, monthStart, nextMonthStart } from '../../src/api/core/cycle';
import { compareRungs, LadderError, parseLadder } from '../../src/api/core/ladder';

describe('the ladder', () => {
  test('stands as it is where nothing replaces it', () => {
    const ladder = parseLadder('');
    expect(Object.keys(ladder)).toEqual(['free', 'pro', 'business', 'enterprise']);
    const columns = Object.values(ladder).map((rung) => [
      rung.projects,
      rung.channels,
      rung.triggers,
      rung.trigger_interval_seconds,
      rung.runs,
      rung.storage_bytes,
      rung.retention_days,
      rung.included_usd,
    ]);
    expect(columns).toEqual([
      [3, 1, 3, 3_600, 1_000, 104_857_600, 7, 0],
      [20, 10, 30, 300, 25_000, 5_368_709_120, 30, 10],
      [200, 100, 500, 60, 250_000, 53_687_091_200, 365, 100],
      [null, null, 500, 60, null, null, null, 0],
    ]);
    const features = Object.values(ladder).map((rung) => [
      rung.guardrails,
      rung.approvals,
      rung.exceptions,
      rung.audit_log,
    ]);
    expect(features).toEqual([
      [false, false, false, false],
      [true, true, true, false],
      [true, true, true, true],
      [true, true, true, true],
    ]);
  });

  test('takes single numbers from the setting and keeps the others; null is no limit', () => {
    const ladder = parseLadder('{"free":{"projects":5,"runs":null},"pro":{"included_usd":2.5}}');
    expect([ladder.free.projects, ladder.free.runs, ladder.free.channels]).toEqual([5, null, 1]);
    expect([ladder.pro.included_usd, ladder.pro.projects]).toEqual([2.5, 20]);
    expect(ladder.business).toEqual(parseLadder('').business);
  });

  test.each([
    ['no JSON', '{free}', 'is not JSON'],
    ['an unknown rung', '{"gold":{}}', 'gold'],
    ['an unknown number', '{"free":{"seats":1}}', 'free'],
    ['a negative number', '{"free":{"projects":-1}}', 'free.projects'],
    ['a number as text', '{"pro":{"runs":"10"}}', 'pro.runs'],
    ['an interval of nothing', '{"pro":{"trigger_interval_seconds":0}}', 'pro.trigger_interval_seconds'],
    ['no credit', '{"pro":{"included_usd":null}}', 'pro.included_usd'],
    ['a list', '[]', ''],
  ])('refuses %s', (_case, text, named) => {
    expect(() => parseLadder(text)).toThrow(LadderError);
    expect(() => parseLadder(text)).toThrow(named);
  });

  test('orders its rungs', () => {
    expect([compareRungs('pro', 'free'), compareRungs('pro', 'pro'), compareRungs('free', 'enterprise')]).toEqual([
      1, 0, -1,
    ]);
  });
});

describe('the cycle', () => {
  test.each([
    ['2026-11-22T04:00:00.000Z', '2026-11', '2026-12-01T00:00:00.000Z'],
    ['2026-12-31T23:59:59.999Z', '2026-12', '2027-01-01T00:00:00.000Z'],
    ['2027-01-01T00:00:00.000Z', '2027-01', '2027-02-01T00:00:00.000Z'],
    ['2028-02-29T12:00:00.000Z', '2028-02', '2028-03-01T00:00:00.000Z'],
  ])('%s lies in %s, which ends at %s', (moment, month, end) => {
    expect(monthOf(new Date(moment))).toBe(month);
    expect(nextMonthStart(new Date(moment)).toISOString()).toBe(end);
    expect(monthStart(month).toISOString()).toBe(`${month}-01T00:00:00.000Z`);
  });

  test('the month before January is December', () => {
    expect([monthBefore('2027-01'), monthBefore('2026-11')]).toEqual(['2026-12', '2026-10']);
  });
});
