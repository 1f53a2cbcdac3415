import { ApiError } from '../../src/api/core/errors';
import { badContextKeys, contextHeaders, toolContextOf } from '../../src/api/tools/context';

const refusal = (given: Record<string, string>): [string, unknown] => {
  try {
    toolContextOf(given);
  } catch (error) {
    if (error instanceof ApiError) return [error.code, error.extra.meta];
    throw error;
  }
  throw new Error('accepted');
};

test.each([
  [{ '': 'x' }, ['']],
  [{ 'a b': 'x', ok: 'y' }, ['a b']],
  [{ 'a:b': 'x' }, ['a:b']],
  [{ ключ: 'x' }, ['ключ']],
  [{ 'a\n': 'x' }, ['a\n']],
  [{ ['k'.repeat(129)]: 'x' }, ['k'.repeat(129)]],
  [{ tenant: 'x', Tenant: 'y', other: 'z' }, ['tenant', 'Tenant']],
])('keys that no header can carry, or equal without case, are refused: %j', (given, keys) => {
  expect(refusal(given as Record<string, string>)).toEqual(['INVALID_TOOL_CONTEXT_KEY', { keys }]);
});

test.each([
  [Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`k${String(index)}`, ''])), 'tool_context'],
  [{ long: 'x'.repeat(8193) }, 'tool_context.long'],
])('more than headers can carry is refused %#', (given, path) => {
  expect(() => toolContextOf(given)).toThrow(
    expect.objectContaining({ code: 'VALIDATION_FAILED', extra: { details: [expect.objectContaining({ path })] } }),
  );
});

test('every character that the name of a header may have is allowed', () => {
  expect(badContextKeys(["azAZ09!#$%&'*+-.^_`|~", 'k'.repeat(128)])).toEqual([]);
});

test('[tools 6] keys that the service sets itself are dropped in any casing, and its own values stand', () => {
  const given = { Session_ID: 'x', ACTOR_ID: 'x', actor_external_ID: 'x', Calling_Project_Id: 'x', tenant: 'acme' };
  expect(toolContextOf(given)).toEqual({ tenant: 'acme' });
  expect(toolContextOf(given, { session_id: 'sess_1', actor_id: undefined })).toEqual({
    tenant: 'acme',
    session_id: 'sess_1',
  });
  expect(toolContextOf(undefined)).toEqual({});
});

test('a key keeps its spelling in the header, and an empty value is one', () => {
  expect(contextHeaders({ 'Tenant.Id': 'a', empty: '' }, null)).toEqual({
    'X-Svc-Context-Tenant.Id': 'a',
    'X-Svc-Context-empty': '',
  });
});

test('context_keys narrows what is forwarded, but never what the service sets itself', () => {
  const context = { tenant: 'a', region: 'eu', session_id: 'sess_1' };
  expect(contextHeaders(context, ['region'])).toEqual({
    'X-Svc-Context-region': 'eu',
    'X-Svc-Context-session_id': 'sess_1',
  });
  expect(contextHeaders(context, [])).toEqual({ 'X-Svc-Context-session_id': 'sess_1' });
});
