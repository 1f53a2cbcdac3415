import { createPrograms, ProgramLimitError, ProgramSchemaError, type Programs } from '../../src/api/core/programs';

let programs: Programs;
beforeAll(() => {
  programs = createPrograms();
});
afterAll(() => programs.close());

const limit = (name: ProgramLimitError['limit']): unknown =>
  expect.objectContaining({ name: 'ProgramLimitError', limit: name });
const backtracking = { type: 'string', pattern: '^(a+)+$' };
const attack = `${'a'.repeat(40)}!`;

describe('checking values', () => {
  test('a value that fits is ok', async () => {
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    await expect(programs.validate(schema, { name: 'x' })).resolves.toEqual({ ok: true });
  });

  test('every fault is told with its dotted path, a missing and an unknown property by name', async () => {
    const schema = {
      type: 'object',
      properties: { events: { type: 'array', items: { type: 'string' } }, name: { type: 'string' } },
      required: ['name'],
      additionalProperties: false,
    };
    const result = await programs.validate(schema, { events: [1], nmae: 'x' });
    expect(result).toEqual({
      ok: false,
      errors: expect.arrayContaining([
        { path: 'name', message: expect.stringContaining('required') as string },
        { path: 'nmae', message: expect.stringContaining('additional') as string },
        { path: 'events.0', message: 'must be string' },
      ]) as unknown,
    });
  });

  test('at most 20 faults are told', async () => {
    const result = await programs.validate(
      { items: { type: 'string' } },
      Array.from({ length: 500 }, () => 1),
    );
    expect(result.ok ? 0 : result.errors.length).toBe(20);
  });

  test('formats are asserted only when asked', async () => {
    const schema = { type: 'string', format: 'email' };
    await expect(programs.validate(schema, 'nobody')).resolves.toEqual({ ok: true });
    await expect(programs.validate(schema, 'nobody', { formats: true })).resolves.toMatchObject({ ok: false });
    await expect(programs.validate(schema, 'a@b.test', { formats: true })).resolves.toEqual({ ok: true });
  });

  test('2020-12 keywords are known', async () => {
    const schema = { type: 'array', prefixItems: [{ type: 'number' }], items: false };
    await expect(programs.validate(schema, [1])).resolves.toEqual({ ok: true });
    await expect(programs.validate(schema, [1, 2])).resolves.toMatchObject({ ok: false });
  });

  test('a draft-07 schema is read as one', async () => {
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      items: [{ type: 'number' }],
      additionalItems: false,
    };
    await expect(programs.validate(schema, [1])).resolves.toEqual({ ok: true });
    await expect(programs.validate(schema, [1, 2])).resolves.toMatchObject({ ok: false });
  });

  test('a pattern that is valid only without the unicode flag works', async () => {
    await expect(programs.validate({ pattern: '^a\\_b$' }, 'a_b')).resolves.toEqual({ ok: true });
  });

  test('a recursive schema inside its own document works', async () => {
    const schema = {
      $defs: { node: { properties: { next: { $ref: '#/$defs/node' } }, required: ['id'] } },
      $ref: '#/$defs/node',
    };
    await expect(programs.validate(schema, { id: 1, next: { id: 2 } })).resolves.toEqual({ ok: true });
    await expect(programs.validate(schema, { id: 1, next: {} })).resolves.toMatchObject({
      errors: [{ path: 'next.id' }],
    });
  });

  test('two schemas of the same $id stay apart', async () => {
    await expect(programs.validate({ $id: 'https://x.test/s', type: 'string' }, 'a')).resolves.toEqual({ ok: true });
    await expect(programs.validate({ $id: 'https://x.test/s', type: 'number' }, 'a')).resolves.toMatchObject({
      ok: false,
    });
  });

  test('a schema that does not compile is an error of its own', async () => {
    await expect(programs.validate({ type: 'nonsense' }, 1)).rejects.toBeInstanceOf(ProgramSchemaError);
  });
});

describe('compiling schemas', () => {
  test.each([
    ['an object schema', { type: 'object' }],
    ['the boolean schema', true],
    ['an unknown keyword', { type: 'string', 'x-order': 3 }],
    ['a reference by $anchor', { $defs: { a: { $anchor: 'here', type: 'string' } }, $ref: '#here' }],
    [
      'a reference by an $id within',
      { $defs: { a: { $id: 'https://x.test/a', type: 'string' } }, $ref: 'https://x.test/a' },
    ],
  ])('%s is accepted', async (_name, schema) => {
    await expect(programs.compileSchema(schema)).resolves.toEqual({ ok: true });
  });

  test.each([
    ['no schema at all', 'text'],
    ['an unknown type', { type: 'nonsense' }],
    ['a broken pattern', { pattern: '(' }],
    ['a reference to another host', { $ref: 'https://example.com/schema.json' }],
    ['a reference to a file', { $ref: 'file:///etc/passwd' }],
    ['a relative reference', { $ref: 'other.json#/a' }],
    ['a reference to a meta-schema', { $ref: 'https://json-schema.org/draft/2020-12/schema' }],
    ['a reference to nothing within', { $ref: '#/$defs/absent' }],
    ['a remote reference deep inside', { properties: { a: { items: { $ref: 'http://127.0.0.1:1/x' } } } }],
  ])('%s is refused with a message', async (_name, schema) => {
    await expect(programs.compileSchema(schema)).resolves.toEqual({
      ok: false,
      message: expect.stringMatching(/\S/) as string,
    });
  });

  test('64 KiB is the limit of a schema, counted in bytes', async () => {
    const sized = (bytes: number): unknown => ({ description: 'é'.repeat((bytes - 18) / 2) });
    expect(Buffer.byteLength(JSON.stringify(sized(65_536)))).toBe(65_536);
    await expect(programs.compileSchema(sized(65_536))).resolves.toEqual({ ok: true });
    await expect(programs.compileSchema(sized(65_538))).rejects.toEqual(limit('size'));
    await expect(programs.validate(sized(65_538), 1)).rejects.toEqual(limit('size'));
  });
});

describe('bounds of a run', () => {
  test('a backtracking pattern ends at the time limit, and the thread is replaced', async () => {
    const begun = process.hrtime.bigint();
    await expect(programs.validate(backtracking, attack)).rejects.toEqual(limit('time'));
    expect(Number((process.hrtime.bigint() - begun) / 1_000_000n)).toBeGreaterThanOrEqual(250);
    await expect(programs.validate(backtracking, 'aaa')).resolves.toEqual({ ok: true });
  });

  test('more loops than threads: all end, and what waited behind them runs', async () => {
    const small = createPrograms({ threadsMax: 2 });
    try {
      const loops = Array.from({ length: 5 }, () => small.validate(backtracking, attack));
      const behind = small.validate({ type: 'number' }, 1);
      const outcomes = await Promise.allSettled(loops);
      expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill('rejected'));
      for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { limit: 'time' } });
      await expect(behind).resolves.toEqual({ ok: true });
    } finally {
      await small.close();
    }
  });

  test('one loop delays nobody else', async () => {
    const small = createPrograms({ threadsMax: 2 });
    try {
      await Promise.all([small.validate(true, 1), small.validate(true, 2)]);
      const order: string[] = [];
      const loop = small.validate(backtracking, attack).catch((error: unknown) => {
        order.push('loop');
        return error;
      });
      for (let index = 0; index < 5; index += 1) await small.validate({ type: 'number' }, index);
      order.push('others');
      expect(await loop).toEqual(limit('time'));
      expect(order).toEqual(['others', 'loop']);
    } finally {
      await small.close();
    }
  });

  test('a run that takes too much memory ends alone', async () => {
    // With time enough, so that a slow machine meets the memory bound first all the same.
    const patient = createPrograms({ threadsMax: 2, runMsMax: 20_000 });
    try {
      // Two bytes a character: 48 MB as text, as much again when parsed.
      const value = Array.from({ length: 400 }, () => '€'.repeat(60_000));
      await expect(patient.validate({ type: 'array' }, value)).rejects.toEqual(limit('memory'));
      await expect(patient.validate({ type: 'string' }, 'a')).resolves.toEqual({ ok: true });
    } finally {
      await patient.close();
    }
  });

  test('a value that could never fit is refused before any thread sees it', async () => {
    await expect(programs.validate(true, 'a'.repeat(33 * 1024 * 1024))).rejects.toEqual(limit('memory'));
  });

  test('endless nesting is a limit, not a crash', async () => {
    const schema = { $defs: { list: { items: { $ref: '#/$defs/list' } } }, $ref: '#/$defs/list' };
    let value: unknown = [];
    for (let depth = 0; depth < 500_000; depth += 1) value = [value];
    await expect(programs.validate(schema, value)).rejects.toBeInstanceOf(ProgramLimitError);
    await expect(programs.validate(schema, [[]])).resolves.toEqual({ ok: true });
  });

  test('the start of the threads is not counted', async () => {
    const fresh = createPrograms({ threadsMax: 2 });
    try {
      const runs = Array.from({ length: 20 }, (_, index) => fresh.validate({ type: 'number' }, index));
      expect(await Promise.all(runs)).toEqual(Array(20).fill({ ok: true }));
    } finally {
      await fresh.close();
    }
  });

  test('after close the next use starts anew', async () => {
    const again = createPrograms();
    await again.close();
    await expect(again.validate(true, 1)).resolves.toEqual({ ok: true });
    await again.close();
  });
});
