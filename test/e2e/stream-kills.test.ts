import { setTimeout as sleep } from 'node:timers/promises';
import { buildClientTool, buildHttpTool, saying, workspace } from '../support/builders';
import { apiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { DONE, delta, idOf, lines, openStream } from '../support/stream';
import type { OpenedStream } from '../support/stream';

/** Longer than a held model is held in the tests of a stop. */
const DRAIN_SECONDS = 6;
/** A process's own queue misses a sign of life, or somebody who takes a step, for so long; then comes the common queue. */
const OWN_QUEUE_MS = 5_000;

const service = useLocal({ apis: 2, env: { DRAIN_SECONDS: String(DRAIN_SECONDS) } });
let receiver: Receiver;
let runs: Runs;
let token: string;

beforeAll(async () => {
  receiver = await startReceiver();
  token = await service.signIn('streams@people.test');
  const api = apiClient(service.local.baseUrl, token);
  const project = await api.post('/v1/projects', { name: 'streams' });
  runs = new Runs(service, await workspace(api, project.body.id as string, service.modelServer.url));
});

afterAll(() => receiver.close());

/** The API that streams and dies; the other one, `OTHER`, lives and is asked for everything else. */
const DYING = 1;
const OTHER = 0;

const urlAt = (api: number, path: string): string => `${service.local.baseUrls[api] ?? ''}${runs.at(path)}`;

const stream = (agentId: string, api = DYING): Promise<OpenedStream> =>
  openStream(urlAt(api, `/agents/${agentId}/generate`), { token, body: saying('go', { stream: true }) });

const pickUp = (id: string, api: number, lastEventId?: string): Promise<OpenedStream> =>
  openStream(urlAt(api, `/generations/${id}/stream`), {
    token,
    ...(lastEventId === undefined ? {} : { lastEventId }),
  });

/** What a test killed is there again for the next one. */
afterEach(async () => {
  const up = service.local.processes().map(({ name }) => name);
  if (!up.includes('worker-0')) await service.local.start('worker');
  if (!up.includes(`api-${String(DYING)}`)) await service.local.start('api');
}, 30_000);

/** What a stream still says, without the ids of its frames and without its signs of life. */
const saidBy = async (open: OpenedStream): Promise<string[]> =>
  (await open.rest()).filter((frame) => !frame.startsWith(':')).map((frame) => frame.replace(/^id: .*\n/, ''));

/** A stream that its process takes with it is cut off: it ends without a sign of completeness. */
const cutOff = (open: OpenedStream): Promise<void> => expect(open.rest()).rejects.toThrow();

const queuesAsked = async (id: string): Promise<string[]> => {
  const { events } = await service.engine.workflow.getHandle(id).fetchHistory();
  return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
    scheduled?.activityType?.name === 'runModelStep'
      ? [(scheduled.taskQueue?.name ?? '').replace(/^api-.*/, 'own')]
      : [],
  );
};

/** Asks a process to stop, as an orchestrator does. @returns how long it took until it was gone, in milliseconds */
function stopApi(api: number): Promise<number> {
  const begun = performance.now();
  service.local.kill('api', api, 'SIGTERM');
  return eventually(
    () => {
      if (service.local.processes().some(({ name }) => name === `api-${String(api)}`)) throw new Error('still up');
      return performance.now() - begun;
    },
    { timeoutMs: (DRAIN_SECONDS + 10) * 1_000 },
  );
}

/** What a stream is in the midst of; what comes back runs after the kill, and says what has to hold. */
type Prepared = () => Promise<() => Promise<void>>;

/** Brings streams to where they are to be met, in turn, kills once, and waits for all of them at the same time. */
function killedOnce(prepared: Prepared[], kill: () => Promise<void>): (which: Prepared) => void {
  const ends: PromiseSettledResult<void>[] = [];
  beforeAll(async () => {
    const afters: (() => Promise<void>)[] = [];
    for (const prepare of prepared) afters.push(await prepare());
    await kill();
    ends.push(...(await Promise.allSettled(afters.map((after) => after()))));
  }, 90_000);
  return (which) => {
    const end = ends[prepared.indexOf(which)];
    if (end === undefined) throw new Error('The kill did not happen.');
    if (end.status === 'rejected') throw end.reason;
  };
}

async function midStream(): Promise<() => Promise<void>> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/orders/{order_id}`);
  const agent = await runs.agent(
    [
      { chunks: ['Looking. '], toolCalls: [{ name: 'get_order', args: { order_id: '1' } }] },
      { chunks: ['It was', ' sent.'], holdAfterChunk: { n: 1, gate: 'mid-stream' } },
    ],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const open = await stream(agent.id);
  const id = idOf(open);
  expect([await open.next(), await open.next()]).toEqual([delta('Looking. '), delta('It was')]);
  expect(await runs.storedSteps(id)).toEqual([1]);
  return async () => {
    await cutOff(open);

    const picked = await pickUp(id, OTHER);
    expect(lines((await picked.next()) ?? '')[1]).toBe(delta('Looking. '));
    expect((await runs.row(id)).status).toBe('in_progress');
    service.modelServer.release('mid-stream');
    expect(await saidBy(picked)).toEqual([delta('It was sent.'), DONE]);

    expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 2, error: null });
    expect((await runs.transcript(id)).steps).toMatchObject([{ text: 'Looking. ' }, { text: 'It was sent.' }]);
    expect(runs.calls(id)).toMatchObject([
      { step: 1, answered: true },
      { step: 2, answered: false, aborted: true },
      { step: 2, answered: true },
    ]);
    expect(receiver.requests.filter(({ path }) => path === '/orders/1')).toHaveLength(1);
    expect(await queuesAsked(id)).toEqual(['own', 'own', 'calls']);
    const tries = await service.row(
      'select retries, provider_failures from generation_steps where generation_id = $1 and step = 2',
      [id],
    );
    expect(tries).toEqual({ retries: 1, provider_failures: 0 });
  };
}

async function betweenSteps(): Promise<() => Promise<void>> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/between/{order_id}`, { name: 'between' });
  const agent = await runs.agent(
    [{ chunks: ['One moment. '], toolCalls: [{ name: 'between', args: { order_id: '2' } }] }, { text: 'Sent.' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  receiver.respond({ hold: 'between' }, '/between/2');
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('One moment. '));
  await receiver.waitFor(({ path }) => path === '/between/2');
  expect(await runs.storedSteps(id)).toEqual([1]);
  return async () => {
    await cutOff(open);
    receiver.release('between');

    expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 2 });
    expect(runs.calls(id)).toMatchObject([
      { step: 1, answered: true },
      { step: 2, answered: true },
    ]);
    expect(await queuesAsked(id)).toEqual(['own', 'own', 'calls']);
    expect(receiver.requests.filter(({ path }) => path === '/between/2')).toHaveLength(1);
    expect(await saidBy(await pickUp(id, OTHER))).toEqual([delta('One moment. '), delta('Sent.'), DONE]);
  };
}

async function madeAgain(): Promise<() => Promise<void>> {
  const agent = await runs.agent([
    {
      times: 1,
      chunks: ['The first', ' answer.'],
      holdAfterChunk: { n: 1, gate: 'first-answer' },
      then: { text: 'Another answer.' },
    },
  ]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('The first'));
  const there = await pickUp(id, DYING);
  const [lastEventId, first] = lines((await there.next()) ?? '');
  expect(first).toBe(delta('The first'));
  return async () => {
    await Promise.all([cutOff(open), cutOff(there)]);

    const made =
      'A part of this step had been sent before it was made again; read the generation for the whole answer.';
    const running = await pickUp(id, OTHER, lastEventId);
    expect(await saidBy(running)).toEqual([`data: ${JSON.stringify({ error: made })}`]);
    expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 1, error: null });
    expect(await saidBy(await pickUp(id, OTHER, lastEventId))).toEqual([`data: ${JSON.stringify({ error: made })}`]);
    // The record is whole, and so is the stream from its start.
    expect((await runs.transcript(id)).output.content).toBe('Another answer.');
    expect(await saidBy(await pickUp(id, OTHER))).toEqual([delta('Another answer.'), DONE]);
  };
}

async function paused(): Promise<() => Promise<void>> {
  const tool = await buildClientTool(runs.space);
  const agent = await runs.agent(
    [
      { text: 'May I? ', toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '4' } }] },
      { text: 'Refunded.' },
    ],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const open = await stream(agent.id);
  const id = idOf(open);
  expect((await saidBy(open)).at(-1)).toBe(DONE);
  const paused = await runs.reached(id, 'requires_action');
  return async () => {
    const reply = await runs.outputs(agent.id, id, paused.required_action.tool_calls[0].id as string);
    expect([reply.status, reply.body.output.content]).toEqual([200, 'Refunded.']);
    // What follows a pause does not wait for a process that is gone.
    expect(await queuesAsked(id)).toEqual(['own', 'calls']);
    expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
  };
}

/** Its process lives: it is only long under way. */
async function longCall(): Promise<() => Promise<void>> {
  const agent = await runs.agent([{ chunks: ['a', 'b'], holdAfterChunk: { n: 1, gate: 'long' } }]);
  const open = await stream(agent.id, OTHER);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('a'));
  return async () => {
    await sleep(OWN_QUEUE_MS + 2_500);
    expect((await runs.row(id)).status).toBe('in_progress');
    service.modelServer.release('long');
    expect(await saidBy(open)).toEqual([delta('b'), DONE]);
    expect(await runs.reached(id, 'completed')).toMatchObject({ step_count: 1 });
    expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true, aborted: false }]);
    expect(await queuesAsked(id)).toEqual(['own']);
  };
}

async function unstarted(): Promise<() => Promise<void>> {
  const agent = await runs.agent([{ text: 'Swept.' }]);
  service.hold('generation-committed');
  const cut = expect(stream(agent.id)).rejects.toThrow();
  await service.held('generation-committed');
  const { id } = await service.row<{ id: string }>('select id from generations where agent_id = $1', [agent.id]);
  expect(await service.runStatus(id)).toBeNull();
  return async () => {
    await cut;
    expect(await saidBy(await pickUp(id, OTHER))).toEqual([delta('Swept.'), DONE]);
    expect(await runs.reached(id, 'completed')).toMatchObject({ step_count: 1 });
    expect(runs.calls(id)).toHaveLength(1);
    expect(await queuesAsked(id)).toEqual(['calls']);
  };
}

describe('the API is killed once', () => {
  // The last one holds whoever accepts a run.
  const kept = killedOnce([midStream, betweenSteps, madeAgain, paused, longCall, unstarted], async () => {
    await service.kill('api', DYING);
    service.letGo('generation-committed');
  });

  test('[durable 2] the API is killed in mid-stream: the run is recorded whole, no more is bought than was under way, and another API goes on with the stream', () => {
    kept(midStream);
  });

  test('[durable 2] the API is killed between two steps of a stream: the finished step is bought once, and the run completes on the common queue', () => {
    kept(betweenSteps);
  });

  test('a step that was made again elsewhere with other words ends the picked-up stream with an error frame, without [DONE]', () => {
    kept(madeAgain);
  });

  test('[durable 2] [engine 2] killed between commit and start of a streamed run: the sweep starts it, and it can be read as a stream', () => {
    kept(unstarted);
  });

  test('[durable 2] the API is killed while a streamed run is paused: outputs sent to another API complete it', () => {
    kept(paused);
  });

  test('a streamed model call that takes longer than the time without a sign of life is made once', () => {
    kept(longCall);
  });
});

/** What has to be seen while there is no worker. */
let noWorker = (): Promise<void> => Promise.resolve();

/** Its words are read while there is no worker. */
async function wordsAlone(): Promise<() => Promise<void>> {
  const agent = await runs.agent([
    { chunks: ['before', ' and', ' after'], holdAfterChunk: { n: 1, gate: 'no-worker' } },
  ]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('before'));
  noWorker = async () => {
    service.modelServer.release('no-worker');
    expect([await open.next(), await open.next()]).toEqual([delta(' and'), delta(' after')]);
  };
  return async () => {
    expect(await saidBy(open)).toEqual([DONE]);
    expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 1 });
    expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true }]);
  };
}

async function nextStep(): Promise<() => Promise<void>> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/worker/{order_id}`, { name: 'via_worker' });
  const agent = await runs.agent(
    [{ chunks: ['Wait. '], toolCalls: [{ name: 'via_worker', args: { order_id: '3' } }] }, { chunks: ['No', 'w.'] }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  service.hold('call-stored');
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('Wait. '));
  await service.held('call-stored');
  return async () => {
    expect(await saidBy(open)).toEqual([delta('No'), delta('w.'), DONE]);
    expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
    expect(receiver.requests.filter(({ path }) => path === '/worker/3')).toHaveLength(1);
    expect(await queuesAsked(id)).toEqual(['own', 'own']);
  };
}

describe('the worker is killed once', () => {
  const kept = killedOnce([wordsAlone, nextStep], async () => {
    await service.kill('worker');
    await noWorker();
    service.letGo('call-stored');
    await service.local.start('worker');
  });

  test('[durable 1] the worker is killed in mid-stream: the words keep coming, and with another worker the stream ends whole', () => {
    kept(wordsAlone);
  });

  test('[durable 1] the worker is killed between two steps of a stream: the next worker asks the same API, and the stream ends whole', () => {
    kept(nextStep);
  });
});

test('an API that is asked to stop lets its streams end whole, and then exits', async () => {
  const agent = await runs.agent([{ chunks: ['slowly', ' said'], holdAfterChunk: { n: 1, gate: 'draining' } }]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('slowly'));
  const stopped = stopApi(DYING);
  await sleep(1_000);
  const refused = await stream(agent.id).catch(() => 'refused');
  expect(refused).toBe('refused');
  service.modelServer.release('draining');
  expect(await saidBy(open)).toEqual([delta(' said'), DONE]);
  // Not held up by the connection, which its reader keeps for a next request.
  expect(await stopped).toBeLessThan(4_000);
  expect(await runs.reached(id, 'completed')).toMatchObject({ step_count: 1 });
  expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true, aborted: false }]);
}, 60_000);

test('a model that outlasts the stop of its API is asked once more on the common queue; the run is not cancelled', async () => {
  const agent = await runs.agent([{ chunks: ['too', ' slow'], holdAfterChunk: { n: 1, gate: 'outlasts' } }]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('too'));
  const [stoppedAfterMs] = await Promise.all([stopApi(DYING), cutOff(open)]);
  expect(stoppedAfterMs).toBeGreaterThanOrEqual((DRAIN_SECONDS - 1) * 1_000);
  expect(stoppedAfterMs).toBeLessThan((DRAIN_SECONDS + 3) * 1_000);
  const again = await service.modelServer.waitForCall({ generationId: id });
  expect(again).toMatchObject({ step: 1 });
  service.modelServer.release('outlasts');
  expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 1 });
  expect(runs.calls(id)).toMatchObject([
    { step: 1, answered: false, aborted: true },
    { step: 1, answered: true },
  ]);
  expect(await saidBy(await pickUp(id, OTHER))).toEqual([delta('too slow'), DONE]);
}, 60_000);

test('[durable 3] the engine restarts in mid-stream: the reader gets the rest of the words and [DONE], and the model is called once', async () => {
  const agent = await runs.agent([{ chunks: ['before', ' after'], holdAfterChunk: { n: 1, gate: 'restart' } }]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('before'));
  await service.outage('temporal', 0);
  service.modelServer.release('restart');
  expect(await saidBy(open)).toEqual([delta(' after'), DONE]);
  expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 1, error: null });
  expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true, aborted: false }]);
  expect(await saidBy(await pickUp(id, OTHER))).toEqual([delta('before after'), DONE]);
}, 60_000);

test('[durable 3] the model ends while the engine is gone for longer than a sign of life may be missed: the words come without it, the run is recorded whole, and nothing is bought again', async () => {
  const agent = await runs.agent([{ chunks: ['before', ' after'], holdAfterChunk: { n: 1, gate: 'no-engine' } }]);
  const open = await stream(agent.id);
  const id = idOf(open);
  expect(await open.next()).toBe(delta('before'));
  await service.endEngine('temporal');
  service.modelServer.release('no-engine');
  expect(await open.next()).toBe(delta(' after'));
  await eventually(async () => {
    expect(await runs.row(id)).toMatchObject({ status: 'completed', step_count: 1 });
  });
  await sleep(OWN_QUEUE_MS + 1_000);
  await service.local.engines.restart('temporal');
  expect(await saidBy(open)).toEqual([DONE]);
  await eventually(
    async () => {
      expect(await service.runStatus(id)).toBe('COMPLETED');
    },
    { timeoutMs: 20_000 },
  );
  expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true, aborted: false }]);
}, 60_000);
