import fc from 'fast-check';
import { types } from 'pg';
import { isoTime, isoTimeOrNull, parseTimestamp } from '../../src/api/core/timestamps';

const driver = types.getTypeParser(types.builtins.TIMESTAMPTZ) as (text: string) => Date | number;
const unexpected = (text: string): never => {
  throw new Error(`left to the driver: ${text}`);
};

const DAY_MS = 86_400_000;
const withinYears = fc.date({
  min: new Date('0100-01-01T00:00:00.000Z'),
  max: new Date('9999-12-31T23:59:59.999Z'),
  noInvalidDate: true,
});
/** As the database writes it: no zeros at the end of the fraction. */
const written = (date: Date, micros: number): string => {
  const iso = date.toISOString();
  const fraction = `${iso.slice(20, 23)}${String(micros).padStart(3, '0')}`.replace(/0+$/, '');
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}${fraction === '' ? '' : `.${fraction}`}+00`;
};

describe('a timestamp of the database', () => {
  test('is read as the driver reads it, finer than a millisecond or not', () => {
    fc.assert(
      fc.property(withinYears, fc.integer({ min: 0, max: 999 }), (date, micros) => {
        const text = written(date, micros);
        expect(parseTimestamp(text, unexpected)).toEqual(date);
        expect(driver(text)).toEqual(date);
      }),
      { numRuns: 1_000 },
    );
  });

  test('is left to the driver where it is written in another way', () => {
    for (const text of [
      'infinity',
      '-infinity',
      '0044-03-15 00:00:00+00 BC',
      '0099-01-01 00:00:00+00',
      '12026-01-01 00:00:00+00',
      '2026-01-01 00:00:00+02',
      '2026-01-01 00:00:00.5-03:30',
    ])
      expect(parseTimestamp(text, driver)).toEqual(driver(text));
  });
});

describe('a time of an answer', () => {
  test('is written as toISOString writes it, whatever was written before', () => {
    const anyDate = fc.date({ noInvalidDate: true });
    const sameDay = fc
      .tuple(withinYears, fc.array(fc.integer({ min: 0, max: DAY_MS - 1 })))
      .map(([day, times]) => times.map((ms) => new Date(Math.floor(day.getTime() / DAY_MS) * DAY_MS + ms)));
    fc.assert(
      fc.property(fc.oneof(fc.array(anyDate), sameDay), (dates) => {
        expect(dates.map(isoTime)).toEqual(dates.map((date) => date.toISOString()));
      }),
      { numRuns: 1_000 },
    );
  });

  test('is none where there is none, and a date that is no date is an error', () => {
    expect([isoTimeOrNull(null), isoTimeOrNull(undefined)]).toEqual([null, null]);
    expect(() => isoTime(new Date(NaN))).toThrow(RangeError);
  });
});
