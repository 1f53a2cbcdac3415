import fc from 'fast-check';
import { TooDeepError, redactionOf } from '../../src/api/tools/redaction';
import { readAnswer } from '../../src/api/tools/response';

const KEY = 'k/1+2 "quoted"\n';
const redaction = redactionOf([KEY]);
const answer = (text: string) => readAnswer(Buffer.from(text), redaction);

test.each([
  ['as it is', KEY],
  ['URL-encoded', encodeURIComponent(KEY)],
  ['URL-encoded in lower case', encodeURIComponent(KEY).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())],
  ['URL-encoded with its slashes', encodeURIComponent(KEY).replaceAll('%2F', '/')],
  ['as a form field', encodeURIComponent(KEY).replaceAll('%20', '+')],
  ['JSON-escaped', JSON.stringify(KEY).slice(1, -1)],
  ['JSON-escaped twice', JSON.stringify(JSON.stringify(KEY)).slice(3, -3)],
])('a text loses the secret %s', (_form, form) => {
  expect(redaction.text(`before ${form} after`)).toBe('before [secret] after');
});

test('the longer of two secrets goes first, so that no half of it stays', () => {
  expect(redactionOf(['abc', 'abcdef']).text('abcdef abc')).toBe('[secret] [secret]');
});

test('nothing is redacted without secrets, and an empty secret redacts nothing', () => {
  expect(redactionOf([]).text('text')).toBe('text');
  expect(redactionOf(['']).text('text')).toBe('text');
});

test('JSON loses the secret from strings, keys and numbers', () => {
  expect(redactionOf(['12345']).value({ a: ['x12345'], '12345': 12345, n: 1, b: true, z: null })).toEqual({
    a: ['x[secret]'],
    '[secret]': '[secret]',
    n: 1,
    b: true,
    z: null,
  });
});

test('the escapes of a JSON body hide no secret', () => {
  const hidden = '{"echo":"\\u0073k-live-1"}';
  const read = readAnswer(Buffer.from(hidden), redactionOf(['sk-live-1']));
  expect(read).toEqual({ value: { echo: '[secret]' }, text: '{"echo":"[secret]"}' });
});

test('a body without the secret keeps its own spelling', () => {
  expect(answer('{ "a" : 1.0 }')).toEqual({ value: { a: 1 }, text: '{ "a" : 1.0 }' });
});

test.each([
  ['', null],
  ['  \n', null],
  ['null', null],
  ['"text"', 'text'],
  ['plain text', 'plain text'],
  ['{"broken":', '{"broken":'],
  ['\ufeff{"a":1}', { a: 1 }],
])('the body %j is read as %j', (body, value) => {
  expect(answer(body).value).toEqual(value);
});

test('a body that is nested too deeply is text', () => {
  const deep = '['.repeat(5000) + ']'.repeat(5000);
  expect(answer(deep).value).toBe(deep);
  expect(() => redaction.value(JSON.parse(deep))).toThrow(TooDeepError);
});

test('a member named __proto__ stays a member', () => {
  const { value } = answer('{"__proto__":{"a":1}}');
  expect(Object.keys(value as object)).toEqual(['__proto__']);
});

test('whatever JSON a target echoes, no secret comes back', () => {
  const secret = 'S3cr3t/+=';
  const withSecret = fc.jsonValue().map((value) => [value, secret, { [secret]: { deep: `x${secret}y` } }]);
  fc.assert(
    fc.property(withSecret, (value) => {
      const read = readAnswer(Buffer.from(JSON.stringify(value)), redactionOf([secret]));
      expect(JSON.stringify(read)).not.toContain(secret);
    }),
  );
});
