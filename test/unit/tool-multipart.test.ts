import { multipartBody } from '../../src/api/tools/multipart';
import { FillError } from '../../src/api/tools/templates';

// A parser that is not ours; it is deprecated for servers, which this is not.
const parsed = async (args: Record<string, unknown>): Promise<FormData> => {
  const { body, contentType } = multipartBody(args);
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  return new Response(new Uint8Array(body), { headers: { 'Content-Type': contentType } }).formData();
};
const file = (given: object = {}) => ({
  content_type: 'image/png',
  filename: 'a.png',
  data_base64: Buffer.from([0, 255, 13, 10]).toString('base64'),
  ...given,
});

test('scalars become fields, other values fields of JSON text', async () => {
  const form = await parsed({ text: 'a\r\nb', n: 7, on: true, none: null, deep: { a: [1] } });
  expect([...form.entries()]).toEqual([
    ['text', 'a\r\nb'],
    ['n', '7'],
    ['on', 'true'],
    ['none', 'null'],
    ['deep', '{"a":[1]}'],
  ]);
});

test('a file becomes a part with its name, type and bytes', async () => {
  const sent = (await parsed({ upload: file() })).get('upload');
  if (sent === null || typeof sent === 'string') throw new Error('it is no file');
  expect([sent.name, sent.type]).toEqual(['a.png', 'image/png']);
  expect([...new Uint8Array(await sent.arrayBuffer())]).toEqual([0, 255, 13, 10]);
});

test('an object that has more or less than a file is no file', async () => {
  const form = await parsed({ more: { ...file(), extra: 1 }, less: { filename: 'a' } });
  expect(typeof form.get('more')).toBe('string');
  expect(form.get('less')).toBe('{"filename":"a"}');
});

test('names cannot end their header', () => {
  const { body } = multipartBody({ 'a"\r\nX: y': file({ filename: 'f"\r\nZ: 1' }) });
  const text = body.toString();
  expect(text).toContain('name="a%22%0D%0AX: y"; filename="f%22%0D%0AZ: 1"');
  expect(text).not.toMatch(/\r\n(X|Z):/);
});

test.each([
  [{ data_base64: 'not base64!' }, /data_base64/],
  [{ data_base64: 'QQQQQ' }, /data_base64/],
  [{ content_type: 'text/plain\r\nX: y' }, /content_type/],
  [{ content_type: '' }, /content_type/],
])('a file that cannot be written fails the call naming the argument: %j', (given, message) => {
  const make = (): unknown => multipartBody({ upload: file(given) });
  expect(make).toThrow(FillError);
  expect(make).toThrow(message);
  expect(make).toThrow(/upload/);
});

test('no arguments make an empty form', async () => {
  expect([...(await parsed({})).entries()]).toEqual([]);
});
