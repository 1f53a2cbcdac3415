import { closePrograms } from '../../src/api/core/tenant-programs';
import { applyMapping, assertMapping } from '../../src/api/tools/mapping';
import { assertPipeline } from '../../src/api/tools/pipeline';
import { stepsNamed } from '../../src/api/tools/pipeline-references';
import type { PipelineFields } from '../../src/api/tools/fields';

afterAll(closePrograms);

const step = (id: string, input: Record<string, unknown> = {}, more: object = {}): PipelineFields['steps'][number] => ({
  id,
  tool_id: 'tool_0000000000000000',
  input,
  ...more,
});
const http = { type: 'http', execute: { url: 'https://example.com/' } };
const pipeline = (...steps: object[]): PipelineFields => ({ steps }) as PipelineFields;

test.each<[string, PipelineFields]>([
  ['one step', pipeline(step('a'))],
  ['twenty steps', pipeline(...Array.from({ length: 20 }, (_, index) => step(`s${String(index)}`)))],
  ['an earlier step', pipeline(step('a'), step('b', { x: { var: 'steps.a.id' } }))],
  ['an argument named like an operator', pipeline(step('a', { var: 'steps.later' }))],
  ['a literal that looks like an expression', pipeline(step('a', { x: { preserve: { var: 'steps.later' } } }))],
  ['an element that has steps of its own', pipeline(step('a', { x: { map: [{ var: 'input' }, { var: 'steps.b' }] } }))],
  ['an inline tool', pipeline(step('a', {}, { tool_id: undefined, tool: http }))],
  ['an output over all steps', { ...pipeline(step('a'), step('b')), output: { x: { var: 'steps.b' } } }],
])('a pipeline may have %s', async (_name, given) => {
  await expect(assertPipeline(given)).resolves.toBeUndefined();
});

const inline = (tool: object, more: object = {}): PipelineFields =>
  pipeline(step('a', {}, { tool_id: undefined, tool, ...more }));

test.each<[string, string, PipelineFields]>([
  ['no step', 'pipeline.steps', pipeline()],
  ['21 steps', 'pipeline.steps', pipeline(...Array.from({ length: 21 }, (_, index) => step(`s${String(index)}`)))],
  ['an id that stands twice', 'pipeline.steps.1.id', pipeline(step('a'), step('a'))],
  ['neither tool', 'pipeline.steps.0', pipeline({ id: 'a', input: {} })],
  ['both tools', 'pipeline.steps.0', pipeline(step('a', {}, { tool: http }))],
  ['an inline pipeline', 'pipeline.steps.0.tool.type', inline({ type: 'pipeline' })],
  ['an inline client tool', 'pipeline.steps.0.tool.type', inline({ type: 'client' })],
  ['an inline mcp tool without action', 'pipeline.steps.0.action', inline({ type: 'mcp' })],
  ['an action of an http tool', 'pipeline.steps.0.action', inline(http, { action: 'x' })],
  ['a later step', 'pipeline.steps.0.input', pipeline(step('a', { x: { var: 'steps.b.id' } }), step('b'))],
  ['itself', 'pipeline.steps.0.input', pipeline(step('a', { x: [{ deep: { var: 'steps.a' } }] }))],
  ['a later step by val', 'pipeline.steps.0.input', pipeline(step('a', { x: { val: ['steps', 'b'] } }), step('b'))],
  [
    'a later step out of an iteration',
    'pipeline.steps.0.input',
    pipeline(step('a', { x: { map: [{ var: 'input' }, { var: '../../steps.b' }] } }), step('b')),
  ],
  ['an unusable input', 'pipeline.steps.0.input', pipeline(step('a', { x: { map: 'no list' } }))],
  ['an unknown step in the output', 'pipeline.output', { ...pipeline(step('a')), output: { var: 'steps.b' } }],
])('PIPELINE_INVALID_STEP: %s', async (_name, path, given) => {
  await expect(assertPipeline(given)).rejects.toMatchObject({
    code: 'PIPELINE_INVALID_STEP',
    extra: { details: [{ path, message: expect.any(String) }] },
  });
});

test('the refused step is named', async () => {
  const refused = assertPipeline(pipeline(step('find'), step('send', { x: { var: 'steps.none' } })));
  await expect(refused).rejects.toMatchObject({
    extra: {
      meta: { step_id: 'send' },
      details: [{ path: 'pipeline.steps.1.input', message: 'names none, which is no earlier step' }],
    },
  });
});

test.each<[unknown, string[]]>([
  [{ missing: ['steps.a.x', 'input.y'] }, ['a']],
  [{ missing_some: [1, ['steps.a', 'steps.b']] }, ['a', 'b']],
  [{ exists: ['steps', 'a'] }, ['a']],
  [{ if: [{ var: ['steps.a', 1] }, { cat: [{ var: 'steps.b.x' }] }] }, ['a', 'b']],
  [{ reduce: [{ var: 'steps.a' }, { var: 'steps.no' }, { var: 'steps.b' }] }, ['a', 'b']],
  [{ val: [[2], 'steps', 'a'] }, ['a']],
  [{ var: 'steps' }, []],
])('%j names the steps %j', (logic, ids) => {
  expect(stepsNamed(logic)).toEqual(ids);
});

describe('mapping', () => {
  test('sees output and input', async () => {
    const logic = { id: { var: 'output.data.id' }, asked: { var: 'input.q' } };
    await expect(applyMapping(logic, { output: { data: { id: 7 } }, input: { q: 'x' } })).resolves.toEqual({
      ok: true,
      value: { id: 7, asked: 'x' },
    });
  });

  test('what fails, and what goes over a limit, is a problem with a text', async () => {
    const data = { output: 'a', input: {} };
    await expect(applyMapping({ '+': [{ var: 'output' }, 1] }, data)).resolves.toEqual({
      ok: false,
      problem: 'an operand is not a number',
    });
    const many = { preserve: Array.from({ length: 300 }, () => 1) };
    const loop = { map: [many, { map: [many, { map: [many, { map: [many, 1] }] }] }] };
    await expect(applyMapping(loop, data)).resolves.toMatchObject({
      ok: false,
      problem: expect.stringMatching(/limit of time|limit of memory/),
    });
  });

  test('a mapping that cannot be used is VALIDATION_FAILED at its path', async () => {
    await expect(assertMapping('output_mapping', { var: 'output.a' })).resolves.toBeUndefined();
    await expect(assertMapping('output_mapping', { filter: 1 })).rejects.toMatchObject({
      code: 'VALIDATION_FAILED',
      extra: { details: [{ path: 'output_mapping', message: 'filter takes a list' }] },
    });
    await expect(assertMapping('output_mapping', 'x'.repeat(70_000))).rejects.toMatchObject({
      code: 'VALIDATION_FAILED',
      message: expect.stringContaining('64 KiB'),
    });
  });
});
