import type { LanguageModelV3Content } from '@ai-sdk/provider';
import fc from 'fast-check';
import { callsOf, outputOf, promptOf, responseMessages, stopReasonOf, textOf } from '../../src/api/generations/turn';
import type { StoredCall, StoredStep, Turn } from '../../src/api/generations/turn';

const turn = (given: Partial<Turn> = {}): Turn => ({
  instructions: 'Be brief.',
  aiProviderId: 'aip_1',
  model: 'm',
  temperature: null,
  maxSteps: 20,
  maxContextMessages: null,
  tools: [
    {
      id: 'tool_1',
      name: 'look',
      type: 'http',
      description: null,
      parameters: {},
      method: 'GET',
      timeoutMs: 1,
      execute: null,
    },
    {
      id: 'tool_2',
      name: 'ask',
      type: 'client',
      description: null,
      parameters: {},
      method: null,
      timeoutMs: null,
      execute: null,
    },
  ],
  unavailable: [],
  ...given,
});

const called = (toolName: string, input: string, toolCallId = 'c'): LanguageModelV3Content => ({
  type: 'tool-call',
  toolCallId,
  toolName,
  input,
});
const stored = (given: Partial<StoredCall>): StoredCall => ({
  step: 1,
  call: 0,
  callId: 'c',
  toolName: 'look',
  kind: 'http',
  args: {},
  result: null,
  error: null,
  answered: true,
  ...given,
});

describe('calls of an answer', () => {
  test('arguments are parsed; none at all are an empty object', () => {
    const calls = callsOf(turn().tools, [called('look', '{"a":1}', 'x'), called('ask', '', 'y')]);
    expect(calls).toMatchObject([
      { call: 0, callId: 'x', toolId: 'tool_1', kind: 'http', args: { a: 1 }, error: null },
      { call: 1, callId: 'y', toolId: 'tool_2', kind: 'client', args: {}, error: null },
    ]);
  });

  test.each([
    ['{broken', 'InvalidArguments'],
    ['[1]', 'InvalidArguments'],
    ['null', 'InvalidArguments'],
    ['"text"', 'InvalidArguments'],
  ])('%s is refused', (input, name) => {
    expect(callsOf(turn().tools, [called('look', input)])[0]).toMatchObject({ kind: 'none', error: { name } });
  });

  test('a tool that is not there is refused', () => {
    expect(callsOf(turn().tools, [called('nope', '{}')])[0]).toMatchObject({
      kind: 'none',
      toolId: null,
      error: { name: 'ToolNotFound' },
    });
  });

  test('ids are made unique, whatever the provider gives, also among those of the steps before', () => {
    const given = fc.array(fc.constantFrom('', 'a', 'b', 'a-1', 'a-2', '-0'), { maxLength: 8 });
    fc.assert(
      fc.property(given, given, (earlier, later) => {
        const idsOf = (ids: string[], taken: string[]): string[] =>
          callsOf(
            turn().tools,
            ids.map((id) => called('look', '{}', id)),
            taken,
          ).map(({ callId }) => callId);
        const before = idsOf(earlier, []);
        const all = [...before, ...idsOf(later, before)];
        expect(new Set(all).size).toBe(earlier.length + later.length);
        expect(all.every((id) => id !== '')).toBe(true);
      }),
    );
  });
});

const nothingSaid = { input: [], steps: [], calls: [], streamed: false };

describe('what is sent to the model', () => {
  test('instructions first, then the last messages, then the steps of the turn', () => {
    const input = [
      { role: 'user' as const, content: 'one' },
      { role: 'assistant' as const, content: 'two' },
      { role: 'user' as const, content: 'three' },
    ];
    const steps: StoredStep[] = [
      { step: 1, parts: [{ type: 'text', text: 'let me look' }], finishReason: 'tool-calls' },
    ];
    const prompt = promptOf({
      turn: turn({ maxContextMessages: 2 }),
      input,
      steps,
      calls: [stored({ result: { x: 1 } })],
      streamed: false,
    });
    expect(prompt).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'assistant', content: [{ type: 'text', text: 'two' }] },
      { role: 'user', content: [{ type: 'text', text: 'three' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'let me look' },
          { type: 'tool-call', toolCallId: 'c', toolName: 'look', input: {} },
        ],
      },
      {
        role: 'tool',
        content: [
          { type: 'tool-result', toolCallId: 'c', toolName: 'look', output: { type: 'json', value: { x: 1 } } },
        ],
      },
    ]);
  });

  test('a schema of the output is told to the model, except where the answer is streamed', () => {
    const shaped = turn({ instructions: null, outputSchema: { type: 'object' } });
    expect(promptOf({ turn: shaped, ...nothingSaid })[0]).toMatchObject({
      role: 'system',
      content: expect.stringContaining('{"type":"object"}'),
    });
    expect(promptOf({ turn: shaped, ...nothingSaid, streamed: true })).toEqual([]);
  });

  test('without instructions there is no system message; unavailable tools are told in one', () => {
    expect(promptOf({ turn: turn({ instructions: null }), ...nothingSaid })).toEqual([]);
    expect(promptOf({ turn: turn({ instructions: null, unavailable: ['look'] }), ...nothingSaid })[0]).toEqual({
      role: 'system',
      content: 'These tools are unavailable for now: look.',
    });
  });

  test('every call that is sent stands with its result', () => {
    const oneStep = fc.array(fc.boolean(), { maxLength: 4 });
    fc.assert(
      fc.property(fc.array(oneStep, { maxLength: 5 }), (script) => {
        const steps = script.map((_calls, index) => ({ step: index + 1, parts: [], finishReason: null }));
        const calls = script.flatMap((failed, index) =>
          failed.map((isError, call) =>
            stored({
              step: index + 1,
              call,
              callId: `${String(index)}-${String(call)}`,
              ...(isError ? { error: { name: 'X', message: 'bad' } } : { result: 'ok' }),
            }),
          ),
        );
        const sent = responseMessages(steps, calls).flatMap(({ content }) => content);
        const asked = sent.flatMap((part) => (part.type === 'tool-call' ? [part.toolCallId] : []));
        const answered = sent.flatMap((part) => (part.type === 'tool-result' ? [part.toolCallId] : []));
        expect(answered).toEqual(asked);
      }),
    );
  });
});

test('results are text, JSON or error text', () => {
  expect(outputOf(stored({ result: 'plain' }))).toEqual({ type: 'text', value: 'plain' });
  expect(outputOf(stored({ result: null }))).toEqual({ type: 'json', value: null });
  expect(outputOf(stored({ error: { name: 'HttpToolError', message: 'said 404', body: 'gone' } }))).toEqual({
    type: 'error-text',
    value: 'said 404\ngone',
  });
});

test('the text of a step is all of its text, and nothing else', () => {
  expect(textOf([{ type: 'text', text: 'a' }, called('look', '{}'), { type: 'text', text: 'b' }])).toBe('ab');
});

test.each([
  ['stop', 'stop'],
  ['tool-calls', 'stop'],
  ['length', 'length'],
  ['content-filter', 'content-filter'],
  ['other', 'other'],
])('a last step that finished by %s gives the stop reason %s', (finish, stop) => {
  expect(stopReasonOf(finish)).toBe(stop);
});
