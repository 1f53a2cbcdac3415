import type { EventSink } from '../../src/api/core/event-stream';
import { DONE_FRAME, START, deltaFrame, digestOf } from '../../src/api/generations/frames';
import type { Position } from '../../src/api/generations/frames';
import { Diverged, StreamReader } from '../../src/api/generations/stream-reader';
import type { SaidStep } from '../../src/api/generations/stream-reader';
import { LiveRun } from '../../src/api/generations/streams';

/** A reader that takes a frame in its own time. */
class Taken implements EventSink {
  readonly frames: string[] = [];
  readonly closed = new AbortController().signal;
  /** What a frame waits for before it is taken. */
  pace: () => Promise<void> = () => Promise.resolve();
  atOnce = 0;
  most = 0;

  send = async (frame: string): Promise<boolean> => {
    this.most = Math.max(this.most, ++this.atOnce);
    await this.pace();
    this.frames.push(frame);
    this.atOnce -= 1;
    return true;
  };

  /** The texts of the deltas, and other frames as they are. */
  get said(): string[] {
    return this.frames.map((frame) => {
      const data = frame.replace(/^id: .*\n/, '');
      return data.startsWith('data: {"choices"')
        ? (JSON.parse(data.slice(6)) as { choices: [{ delta: { content: string } }] }).choices[0].delta.content
        : data;
    });
  }

  get ids(): string[] {
    return this.frames.map((frame) => /^id: (.*)\n/.exec(frame)?.[1] ?? '');
  }
}

interface Given {
  live?: LiveRun;
  rows?: SaidStep[];
  from?: Position;
}

function readerOf({ live, rows = [], from }: Given): { reader: StreamReader; sink: Taken; loads: () => number } {
  const sink = new Taken();
  let loads = 0;
  const load = (): Promise<SaidStep[]> => {
    loads += 1;
    return Promise.resolve(rows);
  };
  const reader = new StreamReader({ sink, live, load, ...(from === undefined ? {} : { from }) });
  return { reader, sink, loads: () => loads };
}

const saying = (texts: Record<number, string>): LiveRun => {
  const live = new LiveRun();
  for (const [step, text] of Object.entries(texts)) live.texts.set(Number(step), text);
  return live;
};
const after = (step: number, text: string): Position => ({ step, offset: text.length, digest: digestOf(text) });

describe('what is heard here', () => {
  test('goes out as it comes, each word once', async () => {
    const live = new LiveRun();
    const { reader, sink } = readerOf({ live });
    const leave = live.subscribe(() => reader.advance());
    live.begin(1);
    await live.say(1, 'a');
    await live.say(1, 'b');
    await reader.advance();
    live.begin(2);
    await live.say(2, 'c');
    leave();
    await live.say(2, 'unheard');
    expect(sink.said).toEqual(['a', 'b', 'c']);
  });

  test('is sent in the order of the steps, whatever came first', async () => {
    const { reader, sink } = readerOf({ live: saying({ 3: 'three', 1: 'one', 2: 'two' }) });
    await reader.advance();
    expect(sink.said).toEqual(['one', 'two', 'three']);
  });

  test('is not sent again from the rows', async () => {
    const { reader, sink } = readerOf({ live: saying({ 1: 'one' }) });
    await reader.advance();
    await reader.catchUp([
      { step: 1, text: 'one' },
      { step: 2, text: '' },
    ]);
    expect(sink.said).toEqual(['one']);
  });

  test('is completed by the rows where it was cut', async () => {
    const { reader, sink } = readerOf({ live: saying({ 1: 'one' }) });
    await reader.advance();
    await reader.catchUp([
      { step: 1, text: 'one more' },
      { step: 2, text: 'two' },
    ]);
    expect(sink.said).toEqual(['one', ' more', 'two']);
  });

  test('waits for a reader that is slow: the model is slowed down with it', async () => {
    const live = new LiveRun();
    const { reader, sink } = readerOf({ live });
    live.subscribe(() => reader.advance());
    let takes: () => void = () => undefined;
    sink.pace = () => new Promise((resolve) => (takes = resolve));
    live.begin(1);
    let said = false;
    const saying = live.say(1, 'a').then(() => (said = true));
    await new Promise(setImmediate);
    expect(said).toBe(false);
    takes();
    await saying;
    expect(sink.said).toEqual(['a']);
  });
});

describe('steps that were made elsewhere', () => {
  test('are read from the rows when what is heard here skips them', async () => {
    const { reader, sink, loads } = readerOf({
      live: saying({ 1: 'one', 4: 'four' }),
      rows: [
        { step: 1, text: 'one' },
        { step: 2, text: 'two' },
        { step: 3, text: '' },
      ],
    });
    await reader.advance();
    expect([sink.said, loads()]).toEqual([['one', 'two', 'four'], 1]);
    await reader.advance();
    expect([sink.said, loads()]).toEqual([['one', 'two', 'four'], 1]);
  });

  test('are not asked for when nothing is missing, empty steps included', async () => {
    const { reader, sink, loads } = readerOf({ live: saying({ 1: 'one', 2: '', 3: 'three' }) });
    await reader.advance();
    expect([sink.said, loads()]).toEqual([['one', 'three'], 0]);
  });

  test('end the stream when a part of them was out and they say something else now', async () => {
    const { reader, sink } = readerOf({ live: saying({ 1: 'The first' }) });
    await reader.advance();
    await expect(reader.catchUp([{ step: 1, text: 'Another answer' }])).rejects.toThrow(Diverged);
    expect(sink.said).toEqual(['The first']);
  });

  test('end the stream when they are shorter than what was out', async () => {
    const { reader } = readerOf({ live: saying({ 1: 'The first' }) });
    await reader.advance();
    await expect(reader.catchUp([{ step: 1, text: 'The' }])).rejects.toThrow(Diverged);
  });

  test('go on when nothing of them was out', async () => {
    const { reader, sink } = readerOf({ live: saying({ 1: '' }) });
    await reader.advance();
    await reader.catchUp([{ step: 1, text: 'Another answer' }]);
    expect(sink.said).toEqual(['Another answer']);
  });
});

describe('at the same time', () => {
  test('words and rows are sent one after the other, none twice and none mixed', async () => {
    const live = saying({ 1: 'one ' });
    const { reader, sink } = readerOf({ live, rows: [{ step: 1, text: 'one and a half ' }] });
    sink.pace = () => new Promise((resolve) => setTimeout(resolve, 1));
    const moves: Promise<void>[] = [];
    for (const word of ['and ', 'a ', 'half ']) {
      moves.push(reader.advance(), reader.catchUp([]));
      live.texts.set(1, (live.texts.get(1) ?? '') + word);
    }
    live.texts.set(2, 'two');
    moves.push(reader.catchUp([{ step: 1, text: 'one and a half ' }]), reader.advance(), reader.advance());
    await Promise.all(moves);
    await reader.close(DONE_FRAME);
    expect(sink.said.join('|')).toMatch(/^one [^]*two\|data: \[DONE\]\n\n$/);
    expect(sink.said.slice(0, -1).join('')).toBe('one and a half two');
    expect(sink.most).toBe(1);
  });

  test('a change that failed stops none of those after it, and closing waits for all', async () => {
    const { reader, sink } = readerOf({ live: saying({ 1: 'one' }) });
    sink.pace = () => new Promise((resolve) => setTimeout(resolve, 5));
    const first = reader.advance();
    const diverged = reader.catchUp([{ step: 1, text: 'other' }]);
    const closed = reader.close('data: closing\n\n');
    await expect(diverged).rejects.toThrow(Diverged);
    await Promise.all([first, closed]);
    expect(sink.said).toEqual(['one', 'data: closing\n\n']);
  });
});

describe('picked up', () => {
  const rows = [
    { step: 1, text: 'Looking.' },
    { step: 2, text: '' },
    { step: 3, text: 'Found it.' },
  ];

  test('from the start, each frame carries the id of where it ends', async () => {
    const { reader, sink } = readerOf({ from: START });
    await reader.catchUp(rows);
    await reader.close(DONE_FRAME, 'done');
    expect(sink.said).toEqual(['Looking.', 'Found it.', DONE_FRAME]);
    expect(sink.ids).toEqual([
      `1:8:${digestOf('Looking.')}`,
      `3:9:${digestOf('Found it.')}`,
      `3:9:${digestOf('Found it.')}/done`,
    ]);
  });

  test.each([
    ['in the midst of a step', after(3, 'Found'), [' it.']],
    ['at the end of a step', after(1, 'Looking.'), ['Found it.']],
    ['at the end of all', after(3, 'Found it.'), []],
  ])('%s, it goes on there', async (_where, from, said) => {
    const { reader, sink } = readerOf({ from });
    await reader.catchUp(rows);
    expect(sink.said).toEqual(said);
  });

  test('in a step that goes on here, it goes on in its words', async () => {
    const live = saying({ 1: 'Found it' });
    const { reader, sink } = readerOf({ live, from: after(1, 'Found') });
    await reader.advance();
    live.texts.set(1, 'Found it.');
    await reader.advance();
    expect(sink.said).toEqual([' it', '.']);
    expect(sink.ids.at(-1)).toBe(`1:9:${digestOf('Found it.')}`);
  });

  test.each([
    ['what it was sent', START],
    ['what it read elsewhere', after(1, 'Found it.')],
  ])('a step that goes on here and is behind %s waits for its row', async (_what, from) => {
    const live = saying({ 1: 'Found' });
    const { reader, sink } = readerOf({ live, from });
    if (from === START) await reader.catchUp([{ step: 1, text: 'Found it.' }]);
    await reader.advance();
    await reader.catchUp([{ step: 1, text: 'Found it.' }]);
    expect(sink.said).toEqual(from === START ? ['Found it.'] : []);
    live.texts.set(1, 'Found other things');
    await expect(reader.advance()).rejects.toThrow(Diverged);
  });

  test.each([
    ['other words', { step: 3, offset: 5, digest: digestOf('Other') }],
    ['more words than there are', after(3, 'Found it. And more')],
  ])('after %s of a step that was made again, it diverges', async (_what, from) => {
    const { reader, sink } = readerOf({ from });
    await expect(reader.catchUp(rows)).rejects.toThrow(Diverged);
    expect(sink.said).toEqual([]);
  });

  test('a stream that was never left carries no ids', async () => {
    const { reader, sink } = readerOf({});
    await reader.catchUp([{ step: 1, text: 'x' }]);
    await reader.close(DONE_FRAME, 'done');
    expect(sink.frames).toEqual([deltaFrame('x'), DONE_FRAME]);
  });
});
