import {
  DONE_FRAME,
  START,
  deltaFrame,
  digestOf,
  errorFrame,
  idLine,
  pauseFrame,
  positionOf,
} from '../../src/api/generations/frames';

test('a frame is one data line and a blank line, whatever the text holds', () => {
  const text = 'a "quote",\na line, \u2028 and 🦊';
  const frames = [deltaFrame(text), errorFrame(text), pauseFrame({ id: text }), DONE_FRAME];
  for (const frame of frames) expect(frame).toMatch(/^data: [^\n]+\n\n$/);
  expect(JSON.parse(deltaFrame(text).slice(6))).toEqual({ choices: [{ delta: { content: text } }] });
  expect(JSON.parse(errorFrame(text).slice(6))).toEqual({ error: text });
  expect(DONE_FRAME).toBe('data: [DONE]\n\n');
});

test.each([
  [START, undefined, null],
  [{ step: 3, offset: 12, digest: digestOf('hello, world') }, undefined, null],
  [{ step: 2, offset: 5, digest: digestOf('hello') }, 'p1', 'p1'],
  [{ step: 2, offset: 5, digest: digestOf('hello') }, 'done', 'done'],
] as const)('the id of a frame is read back as the place it names: %j %s', (position, closing, read) => {
  const line = idLine(position, closing);
  expect(line).toMatch(/^id: \S+\n$/);
  expect(positionOf(line.slice(4, -1))).toEqual({ position, closing: read });
});

test.each([undefined, ''])('without an id a stream begins at its start: %j', (header) => {
  expect(positionOf(header)).toEqual({ position: START, closing: null });
});

test.each([
  'nonsense',
  '1:2',
  '1:2:00000000/',
  '1:2:00000000/p',
  '1:2:00000000/q1',
  '1:2:0000000g',
  '-1:2:00000000',
  '1:2:00000000 ',
  '1:2:00000000\n',
  '1:99999999999:00000000',
  '1:2:00000000/done/done',
])('what is no id of a stream is refused: %j', (header) => {
  expect(() => positionOf(header)).toThrow(
    expect.objectContaining({
      code: 'VALIDATION_FAILED',
      extra: { details: [{ path: 'header.Last-Event-ID', message: 'is no id of this stream' }] },
    }),
  );
});

test('texts that differ have names that differ, and no name shows its text', () => {
  const names = ['', 'a', 'b', 'ab', 'ba', 'secret'].map(digestOf);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^[0-9a-f]{8}$/);
});
