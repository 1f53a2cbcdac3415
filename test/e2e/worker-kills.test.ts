import fc from 'fast-check';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import { buildClientTool, buildHttpTool, workspace } from '../support/builders';
import { apiClient } from '../support/client';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';
import { Kills } from '../support/loop-kills';
import { LoopRun, loopTools } from '../support/loop-runs';
import type { LoopStage } from '../support/loop-runs';
import { scripts } from '../support/loop-scripts';

const service = useLocal();
let receiver: Receiver;
let runs: Runs;

beforeAll(async () => {
  receiver = await startReceiver();
  runs = new Runs(service, await service.workspace());
});

afterAll(() => receiver.close());

const sentTo = (path: string) => receiver.requests.filter((request) => request.path === path);
const order = (id: string): { name: string; args: object } => ({ name: 'get_order', args: { order_id: id } });

/** A run in the moment of the kill, and what has to hold of it after the next worker came. */
interface Scene {
  id: string;
  after: () => Promise<void>;
}

async function duringModelCall(): Promise<Scene> {
  const agent = await runs.agent([{ text: 'There you are.', hold: 'in-call' }]);
  const id = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: id, step: 1 });
  expect(await runs.storedSteps(id)).toEqual([]);
  return {
    id,
    after: async () => {
      await service.modelServer.waitForCall({ generationId: id, step: 1 });
      service.modelServer.release('in-call');
      expect(await runs.reached(id, 'completed')).toMatchObject({ stop_reason: 'stop', step_count: 1 });
      expect(runs.calls(id)).toMatchObject([
        { step: 1, answered: false },
        { step: 1, answered: true },
      ]);
      const tries = 'select retries, provider_failures from generation_steps where generation_id = $1';
      expect(await service.row(tries, [id])).toEqual({ retries: 1, provider_failures: 0 });
    },
  };
}

async function betweenTwoSteps(): Promise<Scene> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/between/{order_id}`, { name: 'between' });
  const agent = await runs.agent([{ toolCalls: [{ name: 'between', args: { order_id: '7' } }] }, { text: 'Sent.' }], {
    tool_bindings: [{ tool_id: tool.id }],
  });
  service.hold('step-stored');
  const id = await runs.begin(agent.id);
  await service.held('step-stored');
  expect(await runs.storedSteps(id)).toEqual([1]);
  expect(runs.calls(id)).toMatchObject([{ step: 1, answered: true }]);
  expect(sentTo('/between/7')).toHaveLength(0);
  return {
    id,
    after: async () => {
      await runs.reached(id, 'completed');
      expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
      expect(await runs.storedSteps(id)).toEqual([1, 2]);
      expect(sentTo('/between/7')).toHaveLength(1);
      const { steps } = await runs.transcript(id);
      expect(steps).toMatchObject([
        { index: 0, tool_results: [{ tool_name: 'between', result: { ok: true }, error: null }] },
        { index: 1, text: 'Sent.' },
      ]);
    },
  };
}

async function betweenAnswerAndStep(): Promise<Scene> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/answered/{order_id}`, { name: 'answered' });
  const agent = await runs.agent([{ toolCalls: [{ name: 'answered', args: { order_id: '8' } }] }, { text: 'Done.' }], {
    tool_bindings: [{ tool_id: tool.id }],
  });
  service.hold('call-stored');
  const id = await runs.begin(agent.id);
  await service.held('call-stored');
  const stored = await service.row('select result, error from generation_calls where generation_id = $1', [id]);
  expect(stored).toEqual({ result: { ok: true }, error: null });
  expect(runs.calls(id)).toHaveLength(1);
  return {
    id,
    after: async () => {
      await runs.reached(id, 'completed');
      expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
      expect(sentTo('/answered/8')).toHaveLength(1);
      const { steps } = await runs.transcript(id);
      expect(steps[0].tool_results).toMatchObject([{ result: { ok: true }, error: null }]);
    },
  };
}

async function duringToolCall(): Promise<Scene> {
  const tool = await buildHttpTool(runs.space, '', {
    execute: { url: `${receiver.url}/orders/{order_id}`, method: 'POST' },
  });
  const agent = await runs.agent([{ toolCalls: [order('9')] }, { text: 'I do not know.' }], {
    tool_bindings: [{ tool_id: tool.id }],
  });
  receiver.respond({ hold: 'order-9' }, '/orders/9');
  const id = await runs.begin(agent.id);
  await receiver.waitFor(({ path }) => path === '/orders/9');
  expect(await runs.storedSteps(id)).toEqual([1]);
  const open = await service.row('select answered_at from generation_calls where generation_id = $1', [id]);
  expect(open).toEqual({ answered_at: null });
  return {
    id,
    after: async () => {
      expect(await runs.reached(id, 'completed')).toMatchObject({ error: null });
      expect(sentTo('/orders/9')).toHaveLength(1);
      expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
      const { steps } = await runs.transcript(id);
      expect(steps[0].tool_results).toMatchObject([{ result: null, error: { message: 'outcome unknown' } }]);
    },
  };
}

async function keepingNoContent(): Promise<Scene> {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/quiet/{order_id}`, { name: 'quiet' });
  const agent = await runs.agent(
    [{ text: 'canary-said', toolCalls: [{ name: 'quiet', args: { order_id: '7' } }] }, { text: 'Sent.' }],
    { tool_bindings: [{ tool_id: tool.id }], trace_content_mode: 'none' },
  );
  service.hold('step-stored');
  const id = await runs.begin(agent.id);
  await service.held('step-stored');
  const stored = await service.row('select content::text as text from generation_steps where generation_id = $1', [id]);
  expect(stored).toEqual({ text: expect.stringMatching(/^\{"sealed":/) });
  return {
    id,
    after: async () => {
      expect(await runs.reached(id, 'completed')).toMatchObject({ step_count: 2 });
      expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
      expect(JSON.stringify(runs.calls(id)[1])).not.toContain('sealed');
      expect(sentTo('/quiet/7')).toHaveLength(1);
      expect(await runs.transcript(id)).toMatchObject({ input: null, steps: [], output: null, step_count: 2 });
      const left = await service.row(
        `select (select count(*) from generation_contents where generation_id = $1)::int as contents,
           (select count(*) from generation_calls where generation_id = $1)::int as calls,
           (select count(content) from generation_steps where generation_id = $1)::int as steps`,
        [id],
      );
      expect(left).toEqual({ contents: 0, calls: 0, steps: 0 });
    },
  };
}

async function whilePaused(): Promise<Scene & { submit: () => Promise<void> }> {
  const tool = await buildClientTool(runs.space);
  const agent = await runs.agent(
    [{ toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '1' } }] }, { text: 'Approved.' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const id = await runs.begin(agent.id);
  const paused = await runs.reached(id, 'requires_action');
  expect(await runs.row(id)).toMatchObject({ status: 'requires_action', pause: 1 });
  let submitted: Promise<Reply>;
  return {
    id,
    submit: async () => {
      expect((await runs.reached(id, 'requires_action')).required_action).toEqual(paused.required_action);
      submitted = runs.outputs(agent.id, id, paused.required_action.tool_calls[0].id as string);
      submitted.catch(() => undefined); // Said by the test that waits for it.
    },
    after: async () => {
      const { status, body } = await submitted;
      expect([status, body.status]).toEqual([200, 'completed']);
      expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
    },
  };
}

/** One kill meets a run in each of these moments. Those that hold at a point come last: whoever comes there is held too. */
describe('killed once', () => {
  let paused: Awaited<ReturnType<typeof whilePaused>>;
  const scenes: Partial<Record<'call' | 'tool' | 'answer' | 'steps' | 'quiet', Scene>> = {};
  const holdsAfter = (name: keyof typeof scenes): Promise<void> => {
    const scene = scenes[name];
    if (scene === undefined) throw new Error(`There was no ${name} at the kill.`);
    return scene.after();
  };

  beforeAll(async () => {
    paused = await whilePaused();
    scenes.call = await duringModelCall();
    scenes.tool = await duringToolCall();
    scenes.answer = await betweenAnswerAndStep();
    scenes.steps = await betweenTwoSteps();
    scenes.quiet = await keepingNoContent();
    await service.kill('worker');
    const { id } = scenes.call;
    expect(await runs.row(id)).toMatchObject({ status: 'in_progress', step_count: 0 });
    await eventually(() => {
      expect(runs.calls(id)).toMatchObject([{ step: 1, aborted: true }]);
    });
    receiver.release('order-9');
    for (const point of ['step-stored', 'call-stored']) service.letGo(point);
    await paused.submit();
    await service.local.start('worker');
  }, 60_000);

  test(
    '[durable 1] during a model call: the call is made again, and the lost try is counted',
    () => holdsAfter('call'),
    30_000,
  );

  test(
    '[durable 1] [durable 4] [generations 7] between two steps: nothing is bought or called twice',
    () => holdsAfter('steps'),
    30_000,
  );

  test(
    '[durable 1] between two steps of a run that keeps no content: it completes, and leaves nothing',
    () => holdsAfter('quiet'),
    30_000,
  );

  test(
    '[durable 1] between an answered tool call and the next step: the answer stands, nothing is repeated',
    () => holdsAfter('answer'),
    30_000,
  );

  test(
    '[durable 1] during a tool call: the call was sent once, its outcome is unknown, and the model decides',
    () => holdsAfter('tool'),
    30_000,
  );

  test(
    '[durable 1] while paused: the pause stands, and outputs sent while no worker runs are taken by the next',
    () => paused.after(),
    30_000,
  );
});

test('[durable 4] kills at any moment of random scripts: every accepted run ends or stays paused as the loop says, and no more is bought than was under way', async () => {
  const seed = Number(process.env.LOOP_SEED ?? Date.now() % 1_000_000);
  process.stdout.write(`random scripts under kills: LOOP_SEED=${String(seed)}\n`);
  const stage = await loopStage();
  const prepared = fc.sample(scripts(), { seed, numRuns: 24 }).map((script) => new LoopRun(stage, script).prepare());
  const loops = await Promise.all(prepared);
  const kills = new Kills(service, stage);
  const playing = loops.map((run) => playOf(run, seed));
  await kills.whenBothAreAtWork();
  await kills.kill('api');
  await kills.kill('worker');
  await Promise.all([service.local.start('worker'), service.local.start('api')]);
  expect((await Promise.all(playing)).filter((failure) => failure !== null)).toEqual([]);
  const played = loops.map((run) => run.played);
  expect({ seed, problems: kills.problems(played) }).toEqual({ seed, problems: [] });
  expect(kills.lost(played)).toBeGreaterThan(0);
  // A write was sent at most once, whoever was killed under it.
  const keys = sentTo('/loop/broken').map(({ headers }) => headers['idempotency-key']);
  expect(new Set(keys).size).toBe(keys.length);
}, 180_000);

async function loopStage(): Promise<LoopStage> {
  const token = await service.signIn('loops@people.test');
  const api = apiClient(service.local.baseUrl, token);
  const project = await api.post('/v1/projects', { name: 'loops' });
  const { modelServer: server, local } = service;
  const space = await workspace(api, project.body.id as string, server.url);
  const toolIds = await loopTools(space, receiver);
  return { space, token, server, toolIds, baseUrl: local.baseUrl, kills: true, delayMs: 200 };
}

/** Plays a script. @returns the seed, the script and what went wrong; null when nothing did */
const playOf = (run: LoopRun, seed: number): Promise<string | null> =>
  run.play().then(
    () => null,
    (error: unknown) => `LOOP_SEED=${String(seed)} ${JSON.stringify(run.played)}: ${String(error)}`,
  );
