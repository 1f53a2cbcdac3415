import { filledPresets, modelParameters, presetTexts } from '../../src/api/tools/presets';
import { MissingContextError } from '../../src/api/tools/templates';

const parameters = {
  type: 'object',
  properties: {
    account: { type: 'string' },
    limit: { type: 'integer' },
    ratio: { type: ['number', 'null'] },
    dry: { type: 'boolean' },
    either: { type: ['string', 'integer'] },
    filter: { type: 'object', properties: { depth: { type: 'integer' } } },
    ids: { type: 'array', items: { type: 'integer' } },
  },
  required: ['account', 'limit'],
  additionalProperties: false,
};

test('[tools 5] the model sees no pinned argument, neither as a property nor as a required one', () => {
  const shown = modelParameters(parameters, { account: 'A' });
  expect(shown).toEqual({
    ...parameters,
    properties: Object.fromEntries(Object.entries(parameters.properties).filter(([key]) => key !== 'account')),
    required: ['limit'],
  });
  expect(parameters.required).toEqual(['account', 'limit']);
});

test('required goes when nothing of it is left, and branches lose the argument too', () => {
  const branched = { ...parameters, anyOf: [{ required: ['account'] }, { required: ['limit', 'dry'] }, true] };
  const shown = modelParameters(branched, { account: 'A', limit: 1 });
  expect(shown).not.toHaveProperty('required');
  expect(shown.anyOf).toEqual([{}, { required: ['dry'] }, true]);
});

test.each([[null], [undefined], [{}]])('without presets the schema is the same object: %j', (presets) => {
  expect(modelParameters(parameters, presets)).toBe(parameters);
});

test('a context value is retyped to what the schema declares, in objects and lists too', () => {
  const presets = {
    account: '{{context:n}}',
    limit: '{{context:n}}',
    ratio: '{{context:r}}',
    dry: '{{context:t}}',
    either: '{{context:n}}',
    filter: { depth: '{{context:n}}', note: 'v{{context:n}}' },
    ids: ['{{context:n}}', 7],
    undeclared: '{{context:n}}',
  };
  expect(filledPresets(presets, { n: '42', r: '-1.5e2', t: 'true' }, parameters)).toEqual({
    account: '42',
    limit: 42,
    ratio: -150,
    dry: true,
    either: '42',
    filter: { depth: 42, note: 'v42' },
    ids: [42, 7],
    undeclared: '42',
  });
});

test.each([['4.5'], ['0x10'], [''], [' 1'], ['9'.repeat(20)]])('%j is no integer and stays a text', (n) => {
  expect(filledPresets({ limit: '{{context:n}}' }, { n }, parameters)).toEqual({ limit: n });
});

test('a text without a token is never retyped, and what was put in is not looked at again', () => {
  expect(filledPresets({ limit: '42', account: '{{context:a}}' }, { a: '{{context:b}}' }, parameters)).toEqual({
    limit: '42',
    account: '{{context:b}}',
  });
});

test('a missing key names itself and its place', () => {
  expect(() => filledPresets({ filter: { depth: '{{context:n}}' } }, {}, parameters)).toThrow(
    new MissingContextError('n', 'preset_parameters.filter.depth'),
  );
});

test('a preset named __proto__ stays a member', () => {
  const presets = JSON.parse('{"__proto__":"{{context:n}}"}') as Record<string, unknown>;
  expect(Object.entries(filledPresets(presets, { n: 'x' }, parameters))).toEqual([['__proto__', 'x']]);
});

test('the texts of presets are found wherever they stand', () => {
  expect(presetTexts({ a: 'x', b: [{ c: 'y' }, 1] }, 'p')).toEqual([
    { place: 'p.a', text: 'x' },
    { place: 'p.b.0.c', text: 'y' },
  ]);
});
