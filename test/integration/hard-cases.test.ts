import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Client, Connection } from '@temporalio/client';
import { query, queryOne } from '../../src/api/core/db';
import { buildClientTool, buildHttpTool, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';

const RESULT_BYTES_MAX = 5_000_000;
/** More than a worker keeps cached (500); `.ci/run` asks for more, and `npm run bench -- paused` measures ten thousand. */
const PAUSED = Number(process.env.PAUSED_RUNS ?? '600');
const SETTLED_MS = 90_000;
const TEST_MS = 120_000;

const { space, server, receiver, at, agentSaying } = useWorkspace();
let lookUp: { id: string };

beforeAll(async () => {
  lookUp = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`);
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes in use once the garbage is gone, since what nobody holds any more says nothing. */
function heapInUse(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

const look = (order: string): object => ({ name: 'get_order', args: { order_id: order } });
const row = async (id: string) => (await space.api.get(at(`/generations/${id}`))).body;
const transcript = async (id: string) => (await space.api.get(at(`/generations/${id}/transcript`))).body;

/** An agent with a model of its own that plays these replies. */
async function agentThat(replies: object[], given: object = {}): Promise<{ id: string }> {
  return agentSaying(replies, { tool_bindings: [{ tool_id: lookUp.id }], ...given });
}

/** Starts a run and answers its record and transcript once it is settled. */
async function settled(agentId: string, given: object = saying('go')) {
  const { status, body } = await space.api.post(at(`/agents/${agentId}/generate`), given);
  expect(status).toBe(202);
  const record = await eventually(
    async () => {
      const found = await row(body.id as string);
      if (found.completed_at === null) throw new Error(`still at step ${String(found.step_count)}`);
      return found;
    },
    { timeoutMs: SETTLED_MS, intervalMs: 100 },
  );
  return { id: body.id as string, record, transcript: await transcript(body.id as string) };
}

const steps = (count: number, calls: number): object[] =>
  Array.from({ length: count }, (_, step) => ({
    toolCalls: Array.from({ length: calls }, (_none, call) =>
      look(`${String(step)}-${String(call)}-of-${String(calls)}`),
    ),
  }));

test(
  'a run of forty steps completes, and the last request holds every call with its result',
  async () => {
    const agent = await agentThat([...steps(39, 1), { text: 'All seen.' }], { max_steps: 40 });
    const { id, record, transcript: told } = await settled(agent.id);
    expect(record).toMatchObject({ status: 'completed', step_count: 40, stop_reason: 'stop', error: null });
    expect([told.steps.length, told.output.content]).toEqual([40, 'All seen.']);
    const calls = server.calls({ generationId: id });
    expect(calls.map(({ step }) => step)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
    const { messages } = calls.at(-1)!.body as { messages: { role: string }[] };
    expect(messages.filter(({ role }) => role === 'tool')).toHaveLength(39);
  },
  TEST_MS,
);

test(
  'the history of a run of twenty steps with two calls each stays under 100 KB',
  async () => {
    const agent = await agentThat([...steps(19, 2), { text: 'All seen.' }]);
    const { id, record } = await settled(agent.id);
    expect(record).toMatchObject({ status: 'completed', step_count: 20 });
    const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? '' });
    try {
      const client = new Client({ connection, namespace: process.env.TEMPORAL_NAMESPACE ?? '' });
      const size = await eventually(async () => {
        const { status, historySize } = await client.workflow.getHandle(id).describe();
        expect(status.name).toBe('COMPLETED');
        return historySize ?? Infinity;
      });
      expect(size).toBeGreaterThan(1_000);
      expect(size).toBeLessThan(100_000);
    } finally {
      await connection.close();
    }
  },
  TEST_MS,
);

test(
  'a tool result of five million bytes reaches the model whole; one more byte makes it a tool error',
  async () => {
    const text = 'x'.repeat(RESULT_BYTES_MAX);
    receiver.respond({ body: text }, '/orders/large');
    receiver.respond({ body: `${text}x` }, '/orders/larger');
    const agent = await agentThat([{ toolCalls: [look('large'), look('larger')] }, { text: 'Read.' }]);
    const { id, record, transcript: told } = await settled(agent.id);
    expect([record.status, told.output.content]).toEqual(['completed', 'Read.']);
    const [{ tool_results: results }] = told.steps;
    expect(results[0].result === text).toBe(true);
    expect(results[0].error).toBeNull();
    expect(results[1].result).toBeNull();
    expect(results[1].error.message).toContain(String(RESULT_BYTES_MAX));
    const [, second] = server.calls({ generationId: id });
    const sent = (second!.body as { messages: { role: string; content: unknown }[] }).messages.filter(
      ({ role }) => role === 'tool',
    );
    expect(JSON.stringify(sent[0]!.content).length).toBeGreaterThanOrEqual(RESULT_BYTES_MAX);
    expect(JSON.stringify(sent[1]!.content).length).toBeLessThan(1_000);
  },
  TEST_MS,
);

test(
  'a thousand messages are sent in their order; one more is refused',
  async () => {
    const messages = Array.from({ length: 1_000 }, (_, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content: `message ${String(index)}`,
    }));
    const agent = await agentThat([{ text: 'Read.' }]);
    const { id, record, transcript: told } = await settled(agent.id, { messages });
    expect(record.status).toBe('completed');
    const sent = (server.calls({ generationId: id })[0]!.body as { messages: { content: unknown }[] }).messages;
    expect(sent).toHaveLength(1_000);
    expect(JSON.stringify(sent.at(-1))).toContain('message 999');
    expect(told.input).toEqual(messages);
    const tooMany = { messages: [...messages, { role: 'user', content: 'one more' }] };
    const refused = await space.api.post(at(`/agents/${agent.id}/generate`), tooMany);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
  },
  TEST_MS,
);

test(
  'sixty-four calls of one step are all made, and the model gets their results in order',
  async () => {
    receiver.respond(({ path }) => ({ body: { path } }));
    const agent = await agentThat([...steps(1, 64), { text: 'All made.' }]);
    const { record, transcript: told } = await settled(agent.id);
    expect([record.status, told.output.content]).toEqual(['completed', 'All made.']);
    const [{ tool_results: results }] = told.steps;
    expect(results.map(({ result }: { result: { path: string } }) => result.path)).toEqual(
      Array.from({ length: 64 }, (_, call) => `/orders/0-${String(call)}-of-64`),
    );
  },
  TEST_MS,
);

test(
  'sixty-five calls of one step fail the run, and none of them is made',
  async () => {
    const agent = await agentThat([...steps(1, 65), { text: 'never said' }]);
    const { id, record } = await settled(agent.id);
    expect(record).toMatchObject({ status: 'failed', stop_reason: 'error', step_count: 1 });
    expect(record.error.code).toBe('GENERATION_FAILED');
    expect(server.calls({ generationId: id })).toHaveLength(1);
    expect(receiver.requests.filter(({ path }) => path.endsWith('-of-65'))).toEqual([]);
  },
  TEST_MS,
);

test('many runs pause, more than a worker keeps cached, take little memory, and each of them still takes its outputs', async () => {
  const person = await buildClientTool(space);
  const agent = await agentThat(
    [{ toolCalls: [{ id: 'ask', name: 'approve_refund', args: { order_id: '1' } }] }, { text: 'Agreed.' }],
    { tool_bindings: [{ tool_id: person.id }] },
  );
  const heapBefore = heapInUse();
  const ids: string[] = [];
  const startSome = async (): Promise<void> => {
    while (ids.length < PAUSED) {
      const index = ids.push('') - 1;
      const { status, body } = await space.api.post(at(`/agents/${agent.id}/generate`), saying('go'));
      expect(status).toBe(202);
      ids[index] = body.id as string;
    }
  };
  await Promise.all(Array.from({ length: 20 }, startSome));
  await eventually(
    async () => {
      const found = await queryOne<{ paused: number }>(
        `select count(*)::int as paused from generations where agent_id = $1 and status = 'requires_action'`,
        [agent.id],
      );
      expect(found?.paused).toBe(PAUSED);
    },
    { timeoutMs: 240_000, intervalMs: 500 },
  );
  expect(heapInUse() - heapBefore).toBeLessThan(220 * 1024 * 1024);
  // Of the oldest the worker keeps no state any more: they are replayed.
  const chosen = [...ids.slice(0, 5), ...ids.slice(-5)];
  const outputs = { tool_outputs: [{ tool_call_id: 'ask', output: true }] };
  const replies = await Promise.all(
    chosen.map((id) => space.api.post(at(`/agents/${agent.id}/generate/${id}/tool-outputs`), outputs)),
  );
  expect(replies.map(({ status, body }) => [status, body.status])).toEqual(chosen.map(() => [200, 'completed']));
  const left = await query<{ status: string }>(
    'select status, count(*)::int as count from generations where agent_id = $1 group by status order by status',
    [agent.id],
  );
  expect(left).toEqual([
    { status: 'completed', count: 10 },
    { status: 'requires_action', count: PAUSED - 10 },
  ]);
}, 360_000);
