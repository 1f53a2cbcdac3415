import type { ProgramLimitError } from '../../src/api/core/programs';
import { createPrograms, ProgramFailedError, type Programs } from '../../src/api/core/programs';

let programs: Programs;
beforeAll(() => {
  programs = createPrograms({ threadsMax: 2 });
});
afterAll(() => programs.close());

const limit = (name: ProgramLimitError['limit']): unknown =>
  expect.objectContaining({ name: 'ProgramLimitError', limit: name });
const data = { input: { a: 1, list: [1, 2, 3], text: 'hello' }, steps: { one: { id: 'x', 'dotted.key': 2 } } };

describe('JSON Logic', () => {
  test.each<[string, unknown, unknown]>([
    ['a path', { var: 'steps.one.id' }, 'x'],
    ['a path with a fallback', { var: ['steps.two', 'none'] }, 'none'],
    ['a path that leads nowhere', { var: 'steps.two.three' }, null],
    ['an escaped dot in a path', { var: 'steps.one.dotted\\.key' }, 2],
    ['an index in a path', { var: 'input.list.1' }, 2],
    ['all data', { '===': [{ var: '' }, { var: [] }] }, true],
    ['the steps of val', { val: ['input', 'list', 2] }, 3],
    ['exists', [{ exists: ['input', 'a'] }, { exists: ['input', 'b'] }], [true, false]],
    ['missing', { missing: ['input.a', 'input.b'] }, ['input.b']],
    ['arithmetic', { '+': [{ var: 'input.a' }, 2] }, 3],
    ['iteration', { map: [{ var: 'input.list' }, { '*': [{ var: '' }, 2] }] }, [2, 4, 6]],
    ['a way out of an iteration', { map: [{ var: 'input.list' }, { var: '../../input.a' }] }, [1, 1, 1]],
    [
      'an accumulator that is an object',
      {
        reduce: [
          { var: 'input.list' },
          { last: { var: 'current' }, before: { var: 'accumulator.last' } },
          { last: null },
        ],
      },
      { last: 3, before: 2 },
    ],
    ['a condition', { if: [{ '>': [{ var: 'input.a' }, 5] }, 'big', 'small'] }, 'small'],
    ['an empty object is false', { '!!': [{ var: 'steps.none' }] }, false],
    ['a literal', { preserve: { var: 'input.a' } }, { var: 'input.a' }],
    ['an object of several keys', { a: { var: 'input.a' }, b: [{ var: 'input.text' }] }, { a: 1, b: ['hello'] }],
    ['a key that is no operator', { query: { var: 'input.text' } }, { query: 'hello' }],
    ['scalars', [1, 'a', null, true], [1, 'a', null, true]],
    ['a number that JSON does not have', { '/': [1, { '-': [1, 1.0000000001] }] }, expect.any(Number)],
  ])('%s', async (_name, logic, value) => {
    await expect(programs.evaluateLogic(logic, data)).resolves.toEqual(value);
  });

  test.each([
    ['constructor', { var: 'input.constructor' }],
    ['its name', { var: 'input.constructor.name' }],
    ['the prototype', { var: 'input.__proto__' }],
    ['the prototype by val', { val: ['input', '__proto__', 'toString'] }],
    ['methods of lists', { var: 'input.list.map' }],
    ['methods of texts', { var: 'input.text.constructor.constructor' }],
    ['get', { get: [{ var: 'input' }, 'constructor.name'] }],
    ['scopes outside the data', { var: '../../../../process' }],
    ['far scopes', { val: [[1000000], 'process'] }],
  ])('nothing but the data is seen: %s', async (_name, logic) => {
    await expect(programs.evaluateLogic(logic, data)).resolves.toBeNull();
  });

  test.each(['constructor', '__proto__', 'toString', 'log', 'method', 'hasOwnProperty', 'valueOf'])(
    '%s is no operator',
    async (key) => {
      const logic = JSON.parse(`{"${key}": [{"var": "input.a"}]}`) as unknown;
      const value = await programs.evaluateLogic(logic, data);
      expect(JSON.stringify(value)).toBe(`{"${key}":[1]}`);
    },
  );

  test.each([
    ['an operand that is no number', { '+': ['a', 1] }, 'not a number'],
    ['a thrown error', { throw: 'because' }, 'because'],
    ['an operand of the wrong kind', { substr: [1, 2] }, /\S/],
  ])('%s is an error of the program', async (_name, logic, message) => {
    const error: unknown = await programs.evaluateLogic(logic, data).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ProgramFailedError);
    expect((error as Error).message).toMatch(message);
  });

  test('what cannot be used is told when it is compiled', async () => {
    await expect(programs.compileLogic({ map: [{ var: 'a' }, { '+': [1] }] })).resolves.toEqual({ ok: true });
    await expect(programs.compileLogic({ map: 'a' })).resolves.toEqual({ ok: false, message: 'map takes a list' });
    await expect(programs.compileLogic({ a: { preserve: { map: 'a' } } })).resolves.toEqual({ ok: true });
    let deep: unknown = 1;
    for (let depth = 0; depth < 101; depth += 1) deep = { '!': deep };
    await expect(programs.compileLogic(deep)).resolves.toMatchObject({ ok: false });
    await expect(programs.compileLogic('x'.repeat(70_000))).rejects.toEqual(limit('size'));
  });
});

describe('jq', () => {
  test.each<[string, unknown, unknown[]]>([
    ['.a', { a: [1, 'é€😀'] }, [[1, 'é€😀']]],
    ['.[]', [1, 2], [1, 2]],
    ['.a?.b', null, [null]],
    ['empty', 1, []],
    ['def double: . * 2; map(double)', [1, 2], [[2, 4]]],
    ['to_entries | map(.key)', { a: 1, b: 2 }, [['a', 'b']]],
    ['"a\nb"', 1, ['a\nb']],
    ['. # said beside it', 5, [5]],
  ])('%s', async (program, value, results) => {
    await expect(programs.jq(program, value)).resolves.toEqual(results);
  });

  test.each([
    ['$ENV', [{}]],
    ['env', [{}]],
    ['[inputs]', [[]]],
    ['input_filename', [null]],
    ['get_search_list', [[]]],
    ['0 | localtime | mktime', [0]],
    ['debug', [7]],
    ['stderr', [7]],
  ])('nothing but the value is seen: %s', async (program, results) => {
    await expect(programs.jq(program, 7)).resolves.toEqual(results);
  });

  test.each(['now', 'input', 'import "a" as a; .', 'include "a"; .', '$__prog_args', '.a.b', 'error("x")', '.a |', ''])(
    '%s is an error of the program',
    async (program) => {
      await expect(programs.jq(program, { a: 1 })).rejects.toBeInstanceOf(ProgramFailedError);
    },
  );

  test('runs do not see one another', async () => {
    await expect(programs.jq('halt_error', 'x')).rejects.toBeInstanceOf(ProgramFailedError);
    await expect(programs.jq('def length: 7; length', 'x')).resolves.toEqual([7]);
    await expect(programs.jq('length', 'abc')).resolves.toEqual([3]);
  });

  test('what cannot be used is told when it is compiled, and nothing runs then', async () => {
    await expect(programs.compileJq('.a.b | error("never")')).resolves.toEqual({ ok: true });
    await expect(programs.compileJq('def f: f; f')).resolves.toEqual({ ok: true });
    await expect(programs.compileJq('.a |')).resolves.toMatchObject({ ok: false });
    await expect(programs.compileJq('nonsense')).resolves.toEqual({
      ok: false,
      message: expect.stringContaining('nonsense/0 is not defined') as string,
    });
  });

  test('a large value goes in and out in time', async () => {
    const patient = createPrograms({ threadsMax: 2, runMsMax: 10_000 });
    const value = { list: Array.from({ length: 20_000 }, (_, index) => ({ index, text: 'some text' })) };
    await expect(patient.jq('.list | length', value)).resolves.toEqual([20_000]);
    await expect(patient.jq('.', value)).resolves.toEqual([value]);
    await patient.close();
  });
});

describe('bounds of a run', () => {
  const hundred = Array.from({ length: 200 }, (_, index) => index);
  const all = { preserve: hundred };
  const loop = { map: [all, { map: [all, { map: [all, { map: [all, 1] }] }] }] };
  const doubling = {
    reduce: [all, { cat: [{ var: 'accumulator' }, { var: 'accumulator' }] }, 'x'.repeat(1000)],
  };

  test.each([
    ['nested loops of JSON Logic', (own: Programs) => own.evaluateLogic(loop, {})],
    ['an endless jq program', (own: Programs) => own.jq('def f: f; f', null)],
    ['an endless jq generator', (own: Programs) => own.jq('last(repeat(1))', null)],
    ['a backtracking pattern of jq', (own: Programs) => own.jq('test("^(a+)+$")', `${'a'.repeat(40)}!`)],
  ])('%s ends at the time limit and delays nobody else', async (_name, endless) => {
    const own = createPrograms({ threadsMax: 2 });
    try {
      // Both threads have loaded what they need.
      await Promise.all([own.jq('.', 1), own.jq('.', 1), own.evaluateLogic(1, 1)]);
      const order: string[] = [];
      const ended = endless(own).catch((error: unknown) => {
        order.push('endless');
        return error;
      });
      for (let index = 0; index < 5; index += 1) await own.validate({ type: 'number' }, index);
      order.push('others');
      expect(await ended).toEqual(limit('time'));
      expect(order).toEqual(['others', 'endless']);
      await expect(own.evaluateLogic({ '+': [1, 1] }, {})).resolves.toBe(2);
    } finally {
      await own.close();
    }
  });

  test.each([
    ['a jq program that fills its memory', (own: Programs) => own.jq('[range(1e9)]', null)],
    ['a jq program that asks for all of it at once', (own: Programs) => own.jq('"x" * 1e9', null)],
    ['a text of JSON Logic that doubles', (own: Programs) => own.evaluateLogic(doubling, {})],
  ])('%s ends at the memory limit, and the next run is fine', async (_name, greedy) => {
    // With time enough, so that a slow machine meets the memory bound first all the same.
    const patient = createPrograms({ threadsMax: 2, runMsMax: 20_000 });
    try {
      await expect(greedy(patient)).rejects.toEqual(limit('memory'));
      await expect(patient.jq('.', 1)).resolves.toEqual([1]);
      await expect(patient.evaluateLogic({ var: 'a' }, { a: 1 })).resolves.toBe(1);
    } finally {
      await patient.close();
    }
  });

  test('a result of more than 8 MiB is a limit', async () => {
    const patient = createPrograms({ threadsMax: 2, runMsMax: 20_000 });
    try {
      const value = 'x'.repeat(3_000_000);
      await expect(patient.evaluateLogic([{ var: '' }, { var: '' }, { var: '' }], value)).rejects.toEqual(
        limit('result'),
      );
      await expect(patient.jq('., ., .', value)).rejects.toEqual(limit('result'));
    } finally {
      await patient.close();
    }
  });

  test('the load of jq is not counted', async () => {
    const fresh = createPrograms({ threadsMax: 2 });
    try {
      const runs = Array.from({ length: 6 }, (_, index) => fresh.jq('. + 1', index));
      expect(await Promise.all(runs)).toEqual([[1], [2], [3], [4], [5], [6]]);
    } finally {
      await fresh.close();
    }
  });
});
