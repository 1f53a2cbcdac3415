import { callsOutcome, nextMove } from '../../src/api/generations/moves';
import { plain } from '../../src/api/generations/sealing';
import type { RunView } from '../../src/api/generations/steps';
import type { StoredCall } from '../../src/api/generations/turn';

const tool = (name: string, method: 'GET' | 'POST' | null) => ({
  id: `tool_${name}`,
  name,
  type: method === null ? ('client' as const) : ('http' as const),
  description: null,
  parameters: {},
  method,
  timeoutMs: method === null ? null : 7_000,
  execute: null,
});

const view = (given: Partial<RunView> = {}): RunView => ({
  generationId: 'gen_1',
  projectId: 'proj_1',
  traceId: 'trace_1',
  status: 'in_progress',
  streamed: false,
  maxCallDepth: 10,
  toolContext: {},
  pause: 0,
  contentBytes: 0,
  contentMode: 'full',
  seal: plain,
  turn: {
    instructions: null,
    aiProviderId: 'aip_1',
    model: 'm',
    temperature: null,
    maxSteps: 3,
    maxContextMessages: null,
    tools: [tool('read', 'GET'), tool('write', 'POST'), tool('ask', null)],
    unavailable: [],
  },
  input: [],
  steps: [],
  calls: [],
  retries: 0,
  providerFailures: 0,
  ...given,
});

const step = (number: number) => ({ step: number, parts: [], finishReason: 'tool-calls' });
const call = (given: Partial<StoredCall>): StoredCall => ({
  step: 1,
  call: 0,
  callId: 'c',
  toolName: 'read',
  kind: 'http',
  args: {},
  result: null,
  error: null,
  answered: false,
  ...given,
});

test.each(['completed', 'failed'])('a run that is %s is left alone', (status) => {
  expect(nextMove(view({ status }))).toEqual({ kind: 'settled' });
});

test('without steps the first one is asked for; with answered ones the next', () => {
  expect(nextMove(view())).toEqual({ kind: 'step', step: 1 });
  expect(nextMove(view({ steps: [step(1)], calls: [call({ answered: true })] }))).toEqual({ kind: 'step', step: 2 });
});

test('open calls come before another step; reads are marked, and client calls are counted', () => {
  const calls = [
    call({ call: 0, answered: true }),
    call({ call: 1, toolName: 'write' }),
    call({ call: 2 }),
    call({ call: 3, toolName: 'ask', kind: 'client' }),
  ];
  expect(nextMove(view({ steps: [step(1)], calls }))).toEqual({
    kind: 'calls',
    outcome: {
      kind: 'calls',
      step: 1,
      serverCalls: [
        { call: 1, timeoutMs: 7_000, read: false },
        { call: 2, timeoutMs: 7_000, read: true },
      ],
      clientCalls: 1,
      pause: 1,
    },
  });
});

test('a committed pause keeps its number, the next one takes the next', () => {
  const calls = [call({ toolName: 'ask', kind: 'client' })];
  const paused = nextMove(view({ status: 'requires_action', pause: 4, steps: [step(1)], calls }));
  expect(paused).toMatchObject({ outcome: { pause: 4 } });
  const before = nextMove(view({ status: 'in_progress', pause: 4, steps: [step(1)], calls }));
  expect(before).toMatchObject({ outcome: { pause: 5 } });
});

test('a spent budget completes with max_steps, after the last calls', () => {
  const steps = [step(1), step(2), step(3)];
  expect(nextMove(view({ steps }))).toEqual({ kind: 'end', ending: { status: 'completed', stopReason: 'max_steps' } });
  expect(nextMove(view({ steps, calls: [call({ step: 3 })] })).kind).toBe('calls');
});

test('the fifth lost try fails the run; failures of the provider are not lost tries', () => {
  expect(nextMove(view({ retries: 6, providerFailures: 2 })).kind).toBe('step');
  expect(nextMove(view({ retries: 5 }))).toEqual({
    kind: 'end',
    ending: {
      status: 'failed',
      stopReason: 'error',
      error: {
        code: 'GENERATION_FAILED',
        message: expect.any(String),
        meta: { lost_tries: 5, generation_id: 'gen_1', trace_id: 'trace_1' },
      },
    },
  });
});

test('too much content fails the run', () => {
  expect(nextMove(view({ contentBytes: 32 * 1024 * 1024 + 1 }))).toMatchObject({
    ending: { error: { code: 'GENERATION_FAILED' } },
  });
});

test('a refused call asks nobody', () => {
  const refused = {
    call: 0,
    callId: 'c',
    toolName: 'ask',
    toolId: null,
    kind: 'client' as const,
    args: {},
    error: { name: 'x', message: 'y' },
  };
  expect(callsOutcome(view(), 1, [refused], 1)).toMatchObject({ serverCalls: [], clientCalls: 0 });
});

test('a run that may not even run ends with the depth guard, before any model call', () => {
  expect(nextMove(view({ maxCallDepth: 0 }))).toEqual({
    kind: 'end',
    ending: { status: 'completed', stopReason: 'depth_guard' },
  });
});

test('a call of a tool that stops the turn ends it once the calls of its step are answered', () => {
  const steering = { toolChoice: null, stopTools: ['read'], stepRules: [], activeToolIds: [] };
  const { turn } = view();
  const step = { step: 1, parts: [], finishReason: 'tool-calls' };
  const call: StoredCall = {
    step: 1,
    call: 0,
    callId: 'c',
    toolName: 'read',
    kind: 'http',
    args: {},
    result: 1,
    error: null,
    answered: true,
  };
  const at = (given: Partial<RunView>) => nextMove(view({ turn: { ...turn, steering }, steps: [step], ...given }));
  expect(at({ calls: [{ ...call, answered: false }] }).kind).toBe('calls');
  expect(at({ calls: [call] })).toEqual({ kind: 'end', ending: { status: 'completed', stopReason: 'tool-calls' } });
  expect(at({ calls: [{ ...call, toolName: 'write' }] })).toEqual({ kind: 'step', step: 2 });
});
