import fc from 'fast-check';
import { DONE_WORDS, LAST_WORDS } from './loop-model';
import type { CallKind, Script, ScriptStep } from './loop-model';

/** What the model asks for, by kind of call. The tools are those of `LoopStage`. */
export const CALLS: Record<CallKind, { name: string; args: unknown }> = {
  found: { name: 'order', args: { order_id: 'found' } },
  refused: { name: 'order', args: { order_id: 'refused' } },
  broken: { name: 'write', args: { order_id: 'broken' } },
  client: { name: 'person', args: { order_id: '1' } },
  unknown: { name: 'nobody', args: {} },
  'bad-arguments': { name: 'order', args: {} },
  'bad-client-arguments': { name: 'person', args: { order_id: 7 } },
  'no-json': { name: 'order', args: '{"order_id":' },
};
const KINDS = Object.keys(CALLS) as CallKind[];

const call = fc.record({
  kind: fc.constantFrom(...KINDS),
  // Ids are the provider's: the same one twice, or one that looks like what we make of a doubled one.
  id: fc.constantFrom('', 'a', 'a-1', 'a-2', 'b', 'b-0'),
});
const rare = (weight: number) => fc.integer({ min: 1, max: 100 }).map((drawn) => drawn > 100 - weight);
const step: fc.Arbitrary<ScriptStep> = fc.record({
  calls: fc.array(call, { minLength: 0, maxLength: 5 }),
  says: fc.constantFrom('', '', 'Let me see. ', 'Wait: '),
  failures: fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 3 }) },
  ),
  refused: rare(4),
  cancelled: rare(6),
  atPause: fc.oneof(
    { weight: 8, arbitrary: fc.constant('submit' as const) },
    { weight: 1, arbitrary: fc.constantFrom('cancel' as const, 'leave' as const) },
  ),
});

/** Scripts that play in one of the modes. */
export const scripts = (modes: Script['mode'][] = ['background', 'wait', 'stream']): fc.Arbitrary<Script> =>
  fc.record({
    mode: fc.constantFrom(...modes),
    maxSteps: fc.integer({ min: 1, max: 6 }),
    steps: fc.array(step, { minLength: 1, maxLength: 6 }),
  });

/** The gate at which a model holds a step that is cancelled. */
const gateOf = (model: string, index: number): string => `${model} ${String(index)}`;

/**
 * The script as the model server plays it; a cancelled step is held under a gate of its own. Every answer takes `delayMs`.
 * A provider that fails for good fails however often it is asked: a try that a kill took with it counts here, and not there.
 */
export const repliesOf = ({ steps }: Script, model: string, delayMs = 0): object[] => [
  ...steps.map(({ calls, says, failures, refused, cancelled }, index) => {
    const toolCalls = calls.map(({ kind, id }) => ({ ...CALLS[kind], ...(id === '' ? {} : { id }) }));
    const said = calls.length === 0 ? DONE_WORDS : says;
    const answer = { delayMs, ...(said === '' ? {} : { text: said }), ...(calls.length === 0 ? {} : { toolCalls }) };
    if (cancelled) return { ...answer, hold: gateOf(model, index) };
    if (refused) return { delayMs, status: 400 };
    const failure = { delayMs, status: 503, headers: { 'retry-after': '0' } };
    if (failures >= 3) return failure;
    return failures === 0 ? answer : { ...failure, times: failures, then: answer };
  }),
  { delayMs, text: LAST_WORDS },
];

/** A message as it goes to a provider, as far as pairing looks at it. */
export interface SentMessage {
  role: string;
  tool_calls?: { id: string }[];
  tool_call_id?: string;
}

/** The results that stand right after a message. */
function resultsAfter(messages: SentMessage[], at: number): string[] {
  const rest = messages.slice(at + 1);
  const end = rest.findIndex(({ role }) => role !== 'tool');
  return rest.slice(0, end === -1 ? rest.length : end).map(({ tool_call_id: id }) => id ?? '');
}

/** Ids of calls and of the results that follow them, message by message: what a vendor checks. */
export const unpaired = (messages: SentMessage[]): string[] =>
  messages.flatMap(({ role, tool_calls: made = [] }, at) => {
    if (role === 'tool') return [];
    const calls = made.map(({ id }) => id).sort();
    const results = resultsAfter(messages, at).sort();
    const doubled = new Set(calls).size === calls.length ? [] : [`doubled calls: ${calls.join(' ')}`];
    const paired = calls.join(' ') === results.join(' ');
    return paired ? doubled : [...doubled, `calls ${calls.join(' ')} have results ${results.join(' ')}`];
  });
