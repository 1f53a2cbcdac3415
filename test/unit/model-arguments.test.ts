import type { JsonSchema } from '../../src/local/model-server/arguments';
import { synthesiseArguments } from '../../src/local/model-server/arguments';
import { defaultReply } from '../../src/local/model-server/default-reply';
import { findNames, Hints } from '../../src/local/model-server/hints';
import { parseChatRequest } from '../../src/local/model-server/wire';

function argumentsFor(message: string, property: JsonSchema, name = 'value'): unknown {
  const mentions = findNames(message, ['do_it']);
  const schema = { type: 'object', properties: { [name]: property }, required: [name] };
  const made = synthesiseArguments(schema, new Hints(message, mentions[0], mentions)) as Record<string, unknown>;
  return made[name];
}

test.each<[string, string, JsonSchema, string, unknown]>([
  ['a pattern', 'do it for ord_1042, please', { type: 'string', pattern: '^ord_\\d+$' }, 'value', 'ord_1042'],
  ['an email', 'do it: mail ann@example.org.', { type: 'string', format: 'email' }, 'value', 'ann@example.org'],
  ['a missing email', 'do it', { type: 'string', format: 'email' }, 'value', 'user@example.com'],
  ['an enum', 'do it in Celsius', { enum: ['fahrenheit', 'celsius'] }, 'value', 'celsius'],
  ['an enum not mentioned', 'do it', { enum: ['fahrenheit', 'celsius'] }, 'value', 'fahrenheit'],
  ['a constant', 'do it', { const: 7 }, 'value', 7],
  ['a quoted text', 'do it with "two words"', { type: 'string' }, 'value', 'two words'],
  ['a word after the name', 'the city is Paris, do it', { type: 'string' }, 'city', 'Paris'],
  ['a quoted text after the name', 'do it, title: "A b" and "C"', { type: 'string' }, 'title', 'A b'],
  ['an id by its short name', 'do it for order A-17', { type: 'string' }, 'orderId', 'A-17'],
  ['an id-like word', 'please fetch abc_9 and do it', { type: 'string' }, 'record_id', 'abc_9'],
  ['the rest of the sentence', 'do it for New York, please.', { type: 'string' }, 'place', 'New York'],
  ['the whole message', 'please do it', { type: 'string' }, 'place', 'please do it'],
  ['a number after the name', 'do it 3 times, limit = 25', { type: 'integer' }, 'limit', 25],
  ['the first number', 'do it with 2.5', { type: 'number' }, 'value', 2.5],
  ['a bounded number', 'do it 900 times', { type: 'integer', minimum: 1, maximum: 100 }, 'value', 100],
  ['a missing number', 'do it', { type: 'integer', minimum: 4 }, 'value', 4],
  ['an exclusive bound', 'do it', { type: 'integer', exclusiveMinimum: 0 }, 'value', 1],
  ['digits within a word', 'do it for ord_1042', { type: 'integer' }, 'value', 1],
  ['a boolean', 'do it, force is false', { type: 'boolean' }, 'force', false],
  ['a default', 'do it', { type: 'string', default: 'plain' }, 'mode', 'plain'],
  ['a union', 'do it 5', { anyOf: [{ type: 'null' }, { type: 'integer' }] }, 'value', 5],
  ['a nullable type', 'do it 5', { type: ['null', 'integer'] }, 'value', 5],
  ['a list', 'do it for "x" and "y"', { type: 'array', items: { type: 'string' }, minItems: 2 }, 'values', ['x', 'y']],
  ['a least length', 'do it for ab', { type: 'string', minLength: 4 }, 'value', 'abxx'],
  ['a greatest length', 'do it for abcdef', { type: 'string', maxLength: 3 }, 'value', 'abc'],
])('finds %s', (_title, ...[message, property, name, expected]) => {
  expect(argumentsFor(message, property, name)).toEqual(expected);
});

test('nested objects are filled with their required properties only, through references', () => {
  const schema = {
    type: 'object',
    properties: { customer: { $ref: '#/$defs/customer' }, comment: { type: 'string' } },
    required: ['customer'],
    $defs: {
      customer: {
        allOf: [
          {
            type: 'object',
            properties: { email: { type: 'string', format: 'email' }, age: { type: 'integer' } },
            required: ['email'],
          },
          { properties: { plan: { enum: ['free', 'pro'] } }, required: ['plan'] },
        ],
      },
    },
  };
  const made = synthesiseArguments(schema, new Hints('give bob@example.org the pro plan', undefined));
  expect(made).toEqual({ customer: { email: 'bob@example.org', plan: 'pro' } });
});

test('a schema that contains itself ends', () => {
  const schema = { type: 'object', properties: { child: { $ref: '#' } }, required: ['child'] };
  let depth = 0;
  let value: unknown = synthesiseArguments(schema, new Hints('x', undefined));
  while (typeof value === 'object' && value !== null && 'child' in value) {
    depth += 1;
    value = value.child;
  }
  expect(value).toEqual({});
  expect(depth).toBe(8);
});

function replyTo(more: object, content = 'please get order ord_7') {
  const parameters = { type: 'object', properties: { order_id: { type: 'string' } }, required: ['order_id'] };
  const tools = ['get_order', 'order', 'delete-order'].map((name) => ({
    type: 'function',
    function: { name, parameters },
  }));
  return defaultReply(parseChatRequest({ model: 'm', messages: [{ role: 'user', content }], tools, ...more }));
}

test('a name inside a longer mentioned name is not called', () => {
  expect(replyTo({}).toolCalls).toEqual([{ name: 'get_order', args: { order_id: 'ord_7' } }]);
});

test('tool_choice is obeyed', () => {
  expect(replyTo({ tool_choice: 'none' })).toEqual({ text: 'You said: please get order ord_7' });
  const forced = { type: 'function', function: { name: 'delete-order' } };
  expect(replyTo({ tool_choice: forced }).toolCalls?.map((call) => call.name)).toEqual(['delete-order']);
  expect(replyTo({ tool_choice: 'required' }, 'hello').toolCalls?.map((call) => call.name)).toEqual(['get_order']);
  expect(replyTo({}, 'hello')).toEqual({ text: 'You said: hello' });
});

test('a tool with a result since the last user message is not called again, an older result does not count', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'get_order', arguments: '{}' } };
  const user = { role: 'user', content: 'get order ord_7' };
  const turn = [
    user,
    { role: 'assistant', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', content: '{"total":9}' },
  ];
  expect(replyTo({ messages: turn })).toEqual({ text: 'get_order answered: {"total":9}' });
  expect(replyTo({ messages: [...turn, user] }).toolCalls).toHaveLength(1);
});

test('a wanted JSON schema is answered with JSON that fits', () => {
  const schema = { type: 'object', properties: { capital: { type: 'string' } }, required: ['capital'] };
  const format = { type: 'json_schema', json_schema: { name: 'answer', schema } };
  const { text } = replyTo({ response_format: format }, 'The capital is Rome');
  expect(JSON.parse(text ?? '')).toEqual({ capital: 'Rome' });
});

test('a token limit cuts the text', () => {
  expect(replyTo({ max_tokens: 2 }, 'hello')).toEqual({ text: 'You said', finishReason: 'length' });
});
