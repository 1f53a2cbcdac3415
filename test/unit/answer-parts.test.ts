import type { LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { AnswerParts } from '../../src/api/generations/parts';

const usage = {
  inputTokens: { total: 7, noCache: 5, cacheRead: 2, cacheWrite: 0 },
  outputTokens: { total: 3, text: 2, reasoning: 1 },
};
const finish: LanguageModelV3StreamPart = {
  type: 'finish',
  finishReason: { unified: 'stop', raw: 'stop' },
  usage,
};
const said = (type: 'text' | 'reasoning', id: string, delta: string): LanguageModelV3StreamPart => ({
  type: `${type}-delta`,
  id,
  delta,
});
const begun = (type: 'text' | 'reasoning', id: string): LanguageModelV3StreamPart => ({ type: `${type}-start`, id });
const call = (toolCallId: string): LanguageModelV3StreamPart => ({
  type: 'tool-call',
  toolCallId,
  toolName: 'get_order',
  input: '{"order_id":"1"}',
});

/** Takes parts one after the other. */
function taken(parts: LanguageModelV3StreamPart[]): { answer: AnswerParts; texts: string[] } {
  const answer = new AnswerParts();
  return { answer, texts: parts.map((part) => answer.add(part)) };
}

test('deltas of one text are put together, and each is said as it comes', () => {
  const { answer, texts } = taken([begun('text', '0'), said('text', '0', 'Hel'), said('text', '0', 'lo'), finish]);
  expect(texts).toEqual(['', 'Hel', 'lo', '']);
  expect(answer.answer()).toEqual({
    content: [{ type: 'text', text: 'Hello' }],
    finishReason: { unified: 'stop', raw: 'stop' },
    usage,
  });
});

test('texts, reasoning and calls that come mixed stand where each of them began', () => {
  const { answer, texts } = taken([
    begun('reasoning', '0'),
    said('reasoning', '0', 'Let me '),
    begun('text', '0'),
    said('text', '0', 'One '),
    begun('text', '1'),
    said('text', '1', 'Two '),
    call('c1'),
    said('reasoning', '0', 'see.'),
    said('text', '0', 'more'),
    call('c2'),
    said('text', '1', 'more'),
    finish,
  ]);
  expect(answer.answer().content).toEqual([
    { type: 'reasoning', text: 'Let me see.' },
    { type: 'text', text: 'One more' },
    { type: 'text', text: 'Two more' },
    call('c1'),
    call('c2'),
  ]);
  // Reasoning and calls are no text of the answer.
  expect(texts.filter((text) => text !== '')).toEqual(['One ', 'Two ', 'more', 'more']);
});

test('a text and a reasoning under one id are two parts', () => {
  const { answer } = taken([said('text', '0', 'said'), said('reasoning', '0', 'thought'), finish]);
  expect(answer.answer().content).toEqual([
    { type: 'text', text: 'said' },
    { type: 'reasoning', text: 'thought' },
  ]);
});

test('an answer that says nothing has an end all the same', () => {
  expect(taken([finish]).answer.answer().content).toEqual([]);
  expect(taken([begun('text', '0'), finish]).answer.answer().content).toEqual([{ type: 'text', text: '' }]);
});

test('what an error part holds is thrown as it is', () => {
  const error = new Error('overloaded');
  const answer = new AnswerParts();
  answer.add(said('text', '0', 'half'));
  expect(() => answer.add({ type: 'error', error })).toThrow(error);
});

test('a stream without its end is no answer', () => {
  const { answer } = taken([begun('text', '0'), said('text', '0', 'half')]);
  expect(() => answer.answer()).toThrow('the stream has no end');
});
