import { eventTypes } from '../../src/api/core/events';
import { entriesMatching, isSubscribable, withoutDuplicates } from '../../src/api/webhooks/patterns';

test.each([...eventTypes, 'conversation.*', 'message.*', 'generation.*', 'usage.*', 'project.*', 'decision.*', '*'])(
  '%s may be subscribed to',
  (entry) => {
    expect(isSubscribable(entry)).toBe(true);
  },
);

test.each([
  'generation',
  'generation.',
  'generation.started',
  'generations.*',
  'foo.*',
  'gen*',
  '*.completed',
  'generation.**',
  'Generation.*',
  ' generation.*',
  '.*',
  '',
  'orchestration_run.*',
  'orchestration_run.succeeded',
  'constructor',
])('%p may not', (entry) => {
  expect(isSubscribable(entry)).toBe(false);
});

test('an event is matched by its name, its resource and the star', () => {
  expect(entriesMatching('usage.threshold_crossed')).toEqual(['usage.threshold_crossed', 'usage.*', '*']);
});

test('whatever matches an event may be subscribed to', () => {
  for (const type of eventTypes) for (const entry of entriesMatching(type)) expect(isSubscribable(entry)).toBe(true);
});

test('duplicates are dropped and the order is kept', () => {
  expect(withoutDuplicates(['project.*', '*', 'project.*', 'message.received', '*'])).toEqual([
    'project.*',
    '*',
    'message.received',
  ]);
});
