import fc from 'fast-check';
import {
  FillError,
  TemplateError,
  climbs,
  MissingContextError,
  fillCredential,
  fillHeader,
  fillPreset,
  fillUrl,
  parseCredential,
  parseHeader,
  parsePreset,
  parseUrl,
  piecesOf,
  secretIdsOf,
} from '../../src/api/tools/templates';

const SECRET = 'sec_V1StGXR8Z5jdHi6B';
const TOKEN = `{{secret:${SECRET}}}`;

const reasonOf = (parse: () => unknown): string => {
  try {
    parse();
  } catch (error) {
    if (error instanceof TemplateError) return error.reason;
    throw error;
  }
  return 'accepted';
};

const filled = (template: string, args: Record<string, unknown> = {}, secret = 'value') =>
  fillUrl(parseUrl(template), { args, secrets: new Map([[SECRET, secret]]) });

test.each([
  ['https://api.example.com/orders/{order_id}', 'accepted'],
  ['http://api.example.com:8080/?q={q}', 'accepted'],
  ['https://api.example.com?q={q}', 'accepted'],
  [`https://${TOKEN}/hook`, 'accepted'],
  [`https://api.example.com/${TOKEN}?key=${TOKEN}`, 'accepted'],
  ['https://{host}/', 'token'],
  ['https://api.{host}.com/x', 'token'],
  ['https://api.example.com:{port}/x', 'token'],
  ['https://api.example.com{path}', 'token'],
  ['{url}', 'token'],
  ['https://api.example.com/{{context:tenant}}', 'token'],
  ['https://api.example.com/{{other}}', 'token'],
  ['https://api.example.com/{{ secret:sec_V1StGXR8Z5jdHi6B }}', 'token'],
  ['https://api.example.com/{{{order}}}', 'token'],
  ['https://api.example.com/{}', 'token'],
  ['https://api.example.com/{open', 'token'],
  ['https://api.example.com/close}', 'token'],
  ['ftp://api.example.com/', 'malformed'],
  ['/relative', 'malformed'],
  ['https:///no-host', 'malformed'],
  ['https:api.example.com/', 'malformed'],
  ['https://user:word@api.example.com/', 'malformed'],
  ['https://api.example.com/#part', 'malformed'],
  ['https://api.example.com\\@evil.example/', 'malformed'],
  ['https://api.example.com/a b', 'malformed'],
  ['https://api.example.com/\ta', 'malformed'],
  [`https://api.example.com:${TOKEN}/`, 'malformed'],
])('the URL template %s is %s', (url, expected) => {
  expect(reasonOf(() => parseUrl(url))).toBe(expected);
});

test.each([
  ['Bearer abc', 'accepted'],
  [`Bearer ${TOKEN}`, 'accepted'],
  ['{"filter":{"a":1}}', 'accepted'],
  ['{{context:tenant}}', 'accepted'],
  ['{{context:a b}}', 'token'],
  ['{{context:}}', 'token'],
  ['{{anything}}', 'token'],
  ['{{secret:whk_V1StGXR8Z5jdHi6B}}', 'token'],
  ['{{open', 'token'],
])('the header template %s is %s', (value, expected) => {
  expect(reasonOf(() => parseHeader(value))).toBe(expected);
});

test('the secrets of a template are named once each', () => {
  const named = secretIdsOf(piecesOf(parseUrl(`https://a.example/${TOKEN}/{{secret:sec_2}}?again=${TOKEN}`)));
  expect(named).toEqual([SECRET, 'sec_2']);
});

test('arguments are URL-encoded in path and query, and leave the rest', () => {
  expect(filled('https://a.example/orders/{order_id}?q={q}', { order_id: 'a b/c?d#e', q: 'x&y=z', page: 2 })).toEqual({
    url: 'https://a.example/orders/a%20b%2Fc%3Fd%23e?q=x%26y%3Dz',
    rest: { page: 2 },
  });
});

test('numbers, booleans and objects go into the URL as text', () => {
  expect(filled('https://a.example/{n}/{b}?o={o}', { n: 7, b: false, o: { a: [1] } }).url).toBe(
    'https://a.example/7/false?o=%7B%22a%22%3A%5B1%5D%7D',
  );
});

test('half of a character pair does not break the call', () => {
  expect(filled('https://a.example/{x}', { x: '\ud800' }).url).toBe('https://a.example/%EF%BF%BD');
});

test.each([[{}], [{ id: null }], [Object.create({ id: 'inherited' }) as Record<string, unknown>]])(
  'a placeholder without an argument is named: %j',
  (args) => {
    expect(() => filled('https://a.example/{id}', args)).toThrow(new FillError('the argument id is missing'));
  },
);

test('an argument named like a member of every object is not found there', () => {
  expect(() => filled('https://a.example/{constructor}')).toThrow(FillError);
});

test.each([
  ['{id}', '..'],
  ['{id}', '.'],
  ['{id}', '%2e%2e'],
  ['{id}', '%252E%252e'],
  ['{id}', '../secret'],
  ['{id}', 'a/../b'],
  ['{id}', '..\\b'],
  ['{id}', '..;x'],
  ['.{id}', '.'],
  ['{id}', '%2e%2e%2f'],
])('the path segment %s refuses the argument %s', (segment, id) => {
  expect(() => filled(`https://a.example/base/${segment}/end`, { id })).toThrow(
    new FillError('the argument id makes a path segment of dots'),
  );
});

test.each(['...', '.x', 'a.b', '..x', '%2e', 'a%2eb'].filter((text) => !climbs(text)))(
  'dots beside other characters are let through: %s',
  (id) => {
    expect(filled('https://a.example/{id}', { id }).url).toBe(`https://a.example/${encodeURIComponent(id)}`);
  },
);

test('two arguments that make dots together are refused', () => {
  expect(() => filled('https://a.example/{a}{b}', { a: '.', b: '.' })).toThrow(FillError);
});

test('dots in the query are let through', () => {
  expect(filled('https://a.example/x?p={id}', { id: '..' }).url).toBe('https://a.example/x?p=..');
});

test('an endlessly encoded argument is refused, not decoded for ever', () => {
  expect(climbs(`%${'25'.repeat(50)}2e`)).toBe(true);
});

test('a filled URL never leaves the origin and the fixed part of the path', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (id) => {
      let url: string;
      try {
        ({ url } = filled('https://a.example/base/{id}/end?x=1', { id }));
      } catch (error) {
        expect(error).toBeInstanceOf(FillError);
        return;
      }
      const { origin, pathname, search } = new URL(url);
      expect([origin, search]).toEqual(['https://a.example', '?x=1']);
      expect(pathname).toMatch(/^\/base\/[^/]*\/end$/);
    }),
    { numRuns: 500 },
  );
});

test('a secret keeps its slashes in the path, is encoded whole in the query, and stands raw in the host', () => {
  expect(filled(`https://a.example/${TOKEN}?k=${TOKEN}`, {}, 'T0/B+1').url).toBe(
    'https://a.example/T0/B%2B1?k=T0%2FB%2B1',
  );
  expect(filled(`https://${TOKEN}/x`, {}, 'host.example:8443').url).toBe('https://host.example:8443/x');
});

test.each(['evil.example/', 'user@evil.example', 'a?b', 'a#b', 'a b'])('a secret cannot end the host: %s', (value) => {
  expect(() => filled(`https://${TOKEN}.example/x`, {}, value)).toThrow(FillError);
});

test('what a substitution put in is never substituted again', () => {
  expect(filled('https://a.example/{a}/{b}', { a: '{b}', b: TOKEN }).url).toBe(
    `https://a.example/%7Bb%7D/${encodeURIComponent(TOKEN)}`,
  );
  expect(fillHeader('X-Key', TOKEN, { secrets: new Map([[SECRET, TOKEN]]), context: {} })).toBe(TOKEN);
});

test('a secret that cannot stand in a header fails the call without being shown', () => {
  const fill = (): string =>
    fillHeader('X-Key', `Bearer ${TOKEN}`, { secrets: new Map([[SECRET, 'line\nInjected: yes']]), context: {} });
  expect(fill).toThrow(new FillError('the header X-Key would hold characters that no header may hold'));
});

describe('tokens of the tool context', () => {
  const none = new Map<string, string>();
  const header = (value: string, context: Record<string, string>): string =>
    fillHeader('X-Tenant', value, { secrets: none, context });

  test('take the value of their key, an empty one too', () => {
    expect(header('a-{{context:tenant}}-{{context:Tenant.2}}', { tenant: 'acme', 'Tenant.2': '' })).toBe('a-acme-');
  });

  test('without a key name key and place, and find nothing that every object has', () => {
    for (const key of ['tenant', 'constructor', '__proto__']) {
      expect(() => header(`{{context:${key}}}`, { Tenant: 'other case' })).toThrow(
        new MissingContextError(key, 'headers.X-Tenant'),
      );
    }
  });

  test('are replaced in one pass: a value that looks like a token stays as it is', () => {
    expect(header('{{context:a}}', { a: '{{context:b}}', b: 'no' })).toBe('{{context:b}}');
    expect(header('{{context:a}}', { a: TOKEN })).toBe(TOKEN);
  });

  test('stand neither in a URL nor in auth', () => {
    expect(reasonOf(() => parseUrl('https://a.example/?t={{context:t}}'))).toBe('token');
    expect(reasonOf(() => parseCredential('{{context:t}}'))).toBe('token');
    expect(reasonOf(() => parseCredential(TOKEN))).toBe('accepted');
    expect(fillCredential(`a${TOKEN}`, new Map([[SECRET, 'b']]))).toBe('ab');
  });

  test('stand in presets, where the token of a secret is text and any other token is refused', () => {
    expect(fillPreset('{{context:t}}!', { t: 'x' }, 'p')).toEqual({ text: 'x!', filled: true });
    expect(fillPreset(`k ${TOKEN}`, {}, 'p')).toEqual({ text: `k ${TOKEN}`, filled: false });
    expect(reasonOf(() => parsePreset('{{other}}'))).toBe('token');
    expect(() => fillPreset('{{context:t}}', {}, 'preset_parameters.a')).toThrow(
      new MissingContextError('t', 'preset_parameters.a'),
    );
  });
});
