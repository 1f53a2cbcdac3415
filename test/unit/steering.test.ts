import { choiceAt, offeredTools } from '../../src/api/generations/steering';
import type { Steering } from '../../src/api/generations/steering';
import type { Turn } from '../../src/api/generations/turn';

const tool = (name: string) => ({
  id: `tool_${name}`,
  name,
  type: 'client' as const,
  description: null,
  parameters: {},
  method: null,
  timeoutMs: null,
  execute: null,
});

const turn = (steering?: Partial<Steering>): Turn => ({
  instructions: null,
  aiProviderId: 'aip_1',
  model: 'm',
  temperature: null,
  maxSteps: 20,
  maxContextMessages: null,
  tools: [tool('look'), tool('ask')],
  unavailable: [],
  ...(steering === undefined
    ? {}
    : { steering: { toolChoice: null, stopTools: [], stepRules: [], activeToolIds: [], ...steering } }),
});

const names = (given: Turn, step: number): string[] => offeredTools(given, step).map(({ name }) => name);

test('a turn without steering, as earlier builds stored it, offers all tools and chooses freely', () => {
  expect(names(turn(), 1)).toEqual(['look', 'ask']);
  expect(choiceAt(turn(), 1)).toEqual({ toolChoice: { type: 'auto' } });
});

test('active tools narrow every step; a rule of a step stands in their place, an empty one for all', () => {
  const narrowed = turn({
    activeToolIds: ['tool_ask'],
    stepRules: [
      { step: 2, active_tool_ids: ['tool_look'] },
      { step: 3, active_tool_ids: [] },
    ],
  });
  expect([1, 2, 3].map((step) => names(narrowed, step))).toEqual([['ask'], ['look'], ['look', 'ask']]);
});

test('the choice of a step goes before that of the agent', () => {
  const steered = turn({ toolChoice: 'required', stepRules: [{ step: 2, tool_choice: 'auto' }] });
  expect([1, 2].map((step) => choiceAt(steered, step))).toEqual([
    { toolChoice: { type: 'required' } },
    { toolChoice: { type: 'auto' } },
  ]);
});

test('a forced tool is asked for by its name, and named as missing where it is not offered', () => {
  const forced = turn({
    toolChoice: { type: 'tool', tool_name: 'ask' },
    stepRules: [{ step: 2, active_tool_ids: ['tool_look'] }],
  });
  expect(choiceAt(forced, 1)).toEqual({ toolChoice: { type: 'tool', toolName: 'ask' } });
  expect(choiceAt(forced, 2)).toEqual({ missing: 'ask' });
});
