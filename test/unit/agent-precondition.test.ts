import { ApiError } from '../../src/api/core/errors';
import { assertVersion, statedVersion } from '../../src/api/agents/precondition';

const refusalOf = (attempt: () => unknown): ApiError => {
  try {
    attempt();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('it was accepted');
};

test.each([
  [undefined, undefined, null],
  ['*', undefined, null],
  ['*', 4, 4],
  ['3', undefined, 3],
  ['"3"', undefined, 3],
  [' "3" ', undefined, 3],
  [undefined, 3, 3],
  ['"3"', 3, 3],
])('If-Match %j with expected_version %j states %j', (header, expected, stated) => {
  expect(statedVersion(header, expected)).toBe(stated);
});

test.each(['', '0', '"0"', '-1', '1.5', 'W/"3"', '"3', '3, 4', 'abc', '1'.repeat(16)])(
  'If-Match %j is refused',
  (header) => {
    const { code, extra } = refusalOf(() => statedVersion(header, undefined));
    expect(code).toBe('VALIDATION_FAILED');
    expect(extra.details).toEqual([expect.objectContaining({ path: 'header.If-Match' })]);
  },
);

test('a header and a body that differ are refused', () => {
  const { code, extra } = refusalOf(() => statedVersion('"3"', 4));
  expect(code).toBe('VALIDATION_FAILED');
  expect(extra.details).toEqual([expect.objectContaining({ path: 'expected_version' })]);
});

test('another version than the live one is a conflict that names both', () => {
  expect(() => {
    assertVersion(5, 5);
    assertVersion(5, null);
  }).not.toThrow();
  const { code, extra } = refusalOf(() => {
    assertVersion(5, 3);
  });
  expect(code).toBe('VERSION_CONFLICT');
  expect(extra.meta).toEqual({ current_version: 5, expected_version: 3 });
});
