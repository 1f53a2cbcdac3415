import { headerProblems, hiddenHeaders, partHeaders } from '../../src/api/tools/headers';

const TOKEN = '{{secret:sec_V1StGXR8Z5jdHi6B}}';

test.each([
  ['Authorization'],
  ['authorization'],
  ['Cookie'],
  ['X-Api-Key'],
  ['X-Auth-Token'],
  ['Client-Secret'],
  ['X-PASSWORD-1'],
])('a credential written out in %s is hidden', (name) => {
  const { open, literals } = partHeaders({ [name]: 'Bearer abc' });
  expect(open).toEqual({ [name]: { no_echo: true } });
  expect(literals).toEqual({ [name]: 'Bearer abc' });
  expect(hiddenHeaders(open)).toEqual([name]);
});

test.each([
  ['Accept', 'application/json'],
  ['X-Authorization-Mode', 'strict'],
  ['Authorization', `Bearer ${TOKEN}`],
  ['Authorization', ''],
])('the header %s: %s stays in the open', (name, value) => {
  expect(partHeaders({ [name]: value })).toEqual({ open: { [name]: value }, literals: {} });
});

test.each([
  [{ 'bad name': 'x' }, 'bad name'],
  [{ Host: 'other.example' }, 'Host'],
  [{ 'Content-Length': '3' }, 'Content-Length'],
  [{ 'Transfer-Encoding': 'chunked' }, 'Transfer-Encoding'],
  [{ Accept: 'a', accept: 'b' }, 'accept'],
  [{ 'X-Line': 'a\r\nInjected: b' }, 'X-Line'],
  [{ 'X-Wide': '漢' }, 'X-Wide'],
  [{ 'X-Long': 'x'.repeat(8193) }, 'X-Long'],
  [Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`X-${String(index)}`, ''])), ''],
])('headers that cannot be sent are named %#', (headers, name) => {
  expect(headerProblems(headers).map((problem) => problem.name)).toEqual([name]);
});

test('headers that can be sent have no problems', () => {
  expect(headerProblems({ Accept: 'application/json', Authorization: `Bearer ${TOKEN}` })).toEqual([]);
});
