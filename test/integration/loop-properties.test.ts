import fc from 'fast-check';
import { buildAgent, buildClientTool, buildHttpTool, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { expectedOf } from '../support/loop-model';
import type { CallKind, Script } from '../support/loop-model';
import { openStream } from '../support/stream';
import { useWorkspace } from '../support/workspace';

const { service, owner, space, server, receiver } = useWorkspace();
let toolIds: string[];
let scripts = 0;

beforeAll(async () => {
  receiver.respond(({ path }) => {
    if (path.endsWith('/refused')) return { status: 404, body: { error: 'there is none' } };
    return path.endsWith('/broken') ? { disconnect: true } : { body: { found: true } };
  });
  const url = `${receiver.url}/orders/{order_id}`;
  const tools = await Promise.all([
    buildHttpTool(space, url, { name: 'order' }),
    // A read would be tried three times, with pauses.
    buildHttpTool(space, '', { name: 'write', execute: { url, method: 'POST' } }),
    buildClientTool(space, { name: 'person' }),
  ]);
  toolIds = tools.map(({ id }) => id);
});

const CALLS: Record<CallKind, { name: string; args: unknown }> = {
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
const step = fc.record({
  calls: fc.array(call, { minLength: 0, maxLength: 5 }),
  failures: fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 3 }) },
  ),
  refused: rare(4),
  cancelled: rare(6),
  atPause: fc.oneof(
    { weight: 8, arbitrary: fc.constant('submit' as const) },
    { weight: 1, arbitrary: fc.constant('cancel' as const) },
  ),
});
const script: fc.Arbitrary<Script> = fc.record({
  mode: fc.constantFrom('background', 'stream'),
  maxSteps: fc.integer({ min: 1, max: 6 }),
  steps: fc.array(step, { minLength: 1, maxLength: 6 }),
});

/** The script as the model server plays it; a cancelled step is held under a gate of its own. */
const repliesOf = ({ steps }: Script, model: string): object[] => [
  ...steps.map(({ calls, failures, refused, cancelled }, index) => {
    const toolCalls = calls.map(({ kind, id }) => ({ ...CALLS[kind], ...(id === '' ? {} : { id }) }));
    const answer = calls.length === 0 ? { text: 'Done.' } : { toolCalls };
    if (cancelled) return { ...answer, hold: `${model} ${String(index)}` };
    if (refused) return { status: 400 };
    if (failures === 0) return answer;
    return { times: failures, status: 503, headers: { 'retry-after': '0' }, then: answer };
  }),
  { text: 'The end.' },
];

interface Begun {
  id: string;
  agentId: string;
  close: () => void;
}

async function begin({ mode, maxSteps, ...rest }: Script): Promise<Begun> {
  scripts += 1;
  const model = `${space.model}-${String(scripts)}`;
  server.script(model, repliesOf({ mode, maxSteps, ...rest }, model));
  const bindings = toolIds.map((id) => ({ tool_id: id }));
  const { id: agentId } = await buildAgent(space, { model, max_steps: maxSteps, tool_bindings: bindings });
  const path = `${space.at}/agents/${agentId}/generate`;
  if (mode === 'background') {
    const { status, body } = await space.api.post(path, saying('go'));
    expect(status).toBe(202);
    return { id: body.id as string, agentId, close: () => undefined };
  }
  const open = await openStream(`${service.baseUrl}${path}`, {
    token: owner.token,
    body: { ...saying('go'), stream: true },
  });
  const reading = open.rest();
  reading.catch(() => undefined); // A reader that is closed has read enough.
  return { id: open.headers.get('x-svc-generation-id') ?? '', agentId, close: open.close };
}

const record = async (id: string) => (await space.api.get(`${space.at}/generations/${id}`)).body;
const cancel = async (id: string) => (await space.api.post(`${space.at}/generations/${id}/cancel`, {})).status;

const restOf = (id: string, before: number) =>
  eventually(
    async () => {
      const found = await record(id);
      if (found.status === 'in_progress' || (found.status === 'requires_action' && found.step_count <= before))
        throw new Error(`${id} is still ${String(found.status)} after ${String(found.step_count)} steps`);
      return found;
    },
    { timeoutMs: 20_000 },
  );

/** Plays the caller's part: answers or cancels pauses, and cancels a step under way. */
async function play({ steps, maxSteps }: Script, { id, agentId }: Begun): Promise<void> {
  const heldAt = steps.findIndex(({ cancelled }) => cancelled);
  if (heldAt >= 0 && heldAt < maxSteps)
    void server
      .waitForCall({ generationId: id, step: heldAt + 1 }, 20_000)
      .then(() => cancel(id))
      .catch(() => undefined); // Another end came before that step.
  for (let seen = 0; ;) {
    const found = await restOf(id, seen);
    if (found.status !== 'requires_action') return;
    seen = found.step_count as number;
    const calls = found.required_action.tool_calls as { id: string; tool_name: string }[];
    expect(new Set(calls.map((pending) => pending.id)).size).toBe(calls.length);
    if (steps[seen - 1]?.atPause === 'cancel') {
      expect(await cancel(id)).toBe(200);
      continue;
    }
    const outputs = calls.map((pending) => ({ tool_call_id: pending.id, output: { said: pending.id } }));
    const path = `${space.at}/agents/${agentId}/generate/${id}/tool-outputs`;
    const { status } = await space.api.post(path, { tool_outputs: outputs });
    expect([200, 500, 502]).toContain(status); // The failure of the run is the answer of whoever waits for it.
  }
}

interface ShownCall {
  id: string;
  tool_name: string;
}
interface ShownResult {
  tool_call_id: string;
  error: object | null;
}
interface ShownStep {
  tool_calls: ShownCall[];
  tool_results: ShownResult[];
}
/** A message as it goes to a provider, as far as pairing looks at it. */
interface SentMessage {
  role: string;
  tool_calls?: { id: string }[];
  tool_call_id?: string;
}

const outcomeOf = (results: ShownResult[], id: string): string => {
  const own = results.filter((result) => result.tool_call_id === id);
  if (own.length === 0) return 'none';
  expect(own).toHaveLength(1);
  return own[0]!.error === null ? 'result' : 'error';
};

async function check(given: Script): Promise<void> {
  const begun = await begin(given);
  await play(given, begun);
  begun.close();
  const found = await record(begun.id);
  const { body: transcript } = await space.api.get(`${space.at}/generations/${begun.id}/transcript`);
  const expected = expectedOf(given);
  expect({
    status: found.status,
    stop_reason: found.stop_reason,
    error: found.error?.code ?? null,
    step_count: found.step_count,
    steps: (transcript.steps as ShownStep[]).map(({ tool_calls: calls, tool_results: results }) =>
      calls.map(({ id, tool_name: name }) => ({ name, outcome: outcomeOf(results, id) })),
    ),
  }).toEqual({
    status: expected.status,
    stop_reason: expected.stopReason,
    error: expected.errorCode,
    step_count: expected.steps.length,
    steps: expected.steps.map((calls) => calls.map(({ kind, outcome }) => ({ name: CALLS[kind].name, outcome }))),
  });
}

/** The results that stand right after a message. */
function resultsAfter(messages: SentMessage[], at: number): string[] {
  const rest = messages.slice(at + 1);
  const end = rest.findIndex(({ role }) => role !== 'tool');
  return rest.slice(0, end === -1 ? rest.length : end).map(({ tool_call_id: id }) => id ?? '');
}

/** Ids of calls and of the results that follow them, message by message: what a vendor checks. */
const unpaired = (messages: SentMessage[]): string[] =>
  messages.flatMap(({ role, tool_calls: made = [] }, at) => {
    if (role === 'tool') return [];
    const calls = made.map(({ id }) => id).sort();
    const results = resultsAfter(messages, at).sort();
    const doubled = new Set(calls).size === calls.length ? [] : [`doubled calls: ${calls.join(' ')}`];
    const paired = calls.join(' ') === results.join(' ');
    return paired ? doubled : [...doubled, `calls ${calls.join(' ')} have results ${results.join(' ')}`];
  });

test('whatever the model, the tools, the provider and the caller do, the record says what the loop must have done', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(script, { minLength: 6, maxLength: 10 }), async (batch) => {
      const outcomes = await Promise.allSettled(batch.map(check));
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    }),
    { numRuns: 6, interruptAfterTimeLimit: 120_000 },
  );
}, 180_000);

test('every request that a provider ever got pairs each tool call with exactly one result', () => {
  const requests = server.calls();
  const withCalls = requests.filter(({ body }) => JSON.stringify(body).includes('tool_call_id'));
  expect(withCalls.length).toBeGreaterThan(20);
  const problems = requests.flatMap(({ key, body }) =>
    unpaired((body as { messages: SentMessage[] }).messages).map((problem) => `${String(key)}: ${problem}`),
  );
  expect(problems).toEqual([]);
});
