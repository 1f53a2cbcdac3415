import { writtenOutCall } from '../../src/api/generations/final-text';

const tools = ['get_order', 'refund'];

test.each([
  ['{"name":"get_order","arguments":{"id":1}}', 'get_order'],
  ['  {"tool":"refund","args":"x"}\n', 'refund'],
  ['{"tool_name":"refund","parameters":{},"id":"1","type":"function"}', 'refund'],
  ['{"type":"function","function":{"name":"get_order","arguments":"{}"}}', 'get_order'],
  ['{"function":"get_order","input":{}}', 'get_order'],
  ['```json\n{"name":"get_order","arguments":{}}\n```', 'get_order'],
  ['[{"name":"get_order"},{"name":"refund"}]', 'get_order'],
])('%s is a call written out', (text, tool) => {
  expect(writtenOutCall(text, tools)).toBe(tool);
});

test.each([
  ['The order is {"name":"get_order"}'],
  ['{"name":"get_order","arguments":{},"why":"because"}'],
  ['{"name":"someone_else","arguments":{}}'],
  ['{"name":5}'],
  ['[{"name":"get_order"},{"name":"someone_else"}]'],
  ['[]'],
  ['[1]'],
  ['"get_order"'],
  ['{broken'],
  [''],
  ['```json\n{"name":"get_order"}\n```\nThat is it.'],
])('%s is not', (text) => {
  expect(writtenOutCall(text, tools)).toBeNull();
});
