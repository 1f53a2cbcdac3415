import { poll } from './api-client';
import { holds } from './report';
import { completed, lookups, readRun, showSteps, startRun } from './runs';
import type { Scene } from './stage';

const HELD_MS = 30_000;
const DEAD_MS = 10_000;
const GATE = 'demo';
const WORKER = 'worker-0';

/** A point in the midst of a run at which it stands still until it is let go. */
interface Hold {
  /** What is under way while it holds. */
  what: string;
  reached(generationId: string): Promise<unknown>;
  /** Safe to repeat. */
  release(): void;
}

/** Holds the answer to the second model call. */
function holdModel({ local: { modelServer }, model }: Scene, order: string): Hold {
  modelServer.script(model, [
    { toolCalls: [{ name: 'get_order', args: { order_id: order } }] },
    { hold: GATE, text: `Order ${order} was delivered.` },
  ]);
  return {
    what: 'the model call of step 2',
    reached: (generationId) => modelServer.waitForCall({ generationId, step: 2 }, HELD_MS),
    release: () => {
      modelServer.release(GATE);
    },
  };
}

/** Holds the answer to the tool call that the first step asked for: a vendor cannot be held. */
function holdTool({ orders }: Scene, order: string): Hold {
  const path = `/orders/${order}`;
  orders.respond({ hold: GATE, body: { order_id: order, status: 'delivered' } }, path);
  return {
    what: 'the tool call of step 1',
    reached: () => orders.waitFor((request) => request.path === path, HELD_MS),
    release: () => {
      orders.release(GATE);
    },
  };
}

const workerPid = ({ local }: Scene): number | undefined => local.processes().find(({ name }) => name === WORKER)?.pid;

async function restartWorker(scene: Scene): Promise<void> {
  const { local, report } = scene;
  const before = workerPid(scene);
  holds(before !== undefined, 'no worker runs');
  local.kill('worker', 0, 'SIGKILL');
  const isGone = (): true | undefined => (workerPid(scene) === undefined ? true : undefined);
  await poll(isGone, { timeoutMs: DEAD_MS, goal: 'the end of the worker' });
  report.fact('killed', `${WORKER}, process ${String(before)}, by SIGKILL`);
  const begun = performance.now();
  await local.start('worker');
  const after = workerPid(scene);
  holds(after !== undefined && after !== before, 'no new worker runs');
  report.fact(
    'restarted',
    `${WORKER}, process ${String(after)}, up in ${String(Math.round(performance.now() - begun))} ms`,
  );
}

/** Compares what the local model server was asked for with what is stored: every stored step was answered once. */
function countCalls({ local: { modelServer }, report }: Scene, generationId: string, storedSteps: number): void {
  const calls = modelServer.calls({ generationId });
  const answered = calls.filter((call) => call.answered);
  const cutOff = calls.filter((call) => call.aborted);
  report.fact(
    'model server',
    `${String(calls.length)} calls: ${String(answered.length)} answered, ${String(cutOff.length)} cut off by the kill`,
  );
  const steps = answered.map(({ step }) => step ?? 0).sort((one, other) => one - other);
  const expected = Array.from({ length: storedSteps }, (_, index) => index + 1);
  holds(steps.join() === expected.join(), `answered steps ${steps.join()}, stored steps ${expected.join()}`);
  holds(cutOff.length === 1 && calls.length === storedSteps + 1, 'more than the call under way was made again');
  report.say(`${String(answered.length)} answers for ${String(storedSteps)} stored steps: no step was bought twice.`);
}

/** A run whose worker is killed in the midst of it, after step 1 is stored; another worker brings it to its end. */
export async function killedRun(scene: Scene): Promise<string> {
  const { report, vendor, heartbeatSeconds } = scene;
  const order = 'ord_1044';
  const hold = vendor === null ? holdModel(scene, order) : holdTool(scene, order);
  let id: string;
  try {
    id = await startRun(scene, `Call get_order with order_id ${order} and say how it stands.`);
    await hold.reached(id);
    const open = await readRun(scene, id);
    holds(open.status === 'in_progress' && open.step_count === 1, `${String(open.step_count)} steps are stored, not 1`);
    report.say(`Step 1 is stored, ${hold.what} is under way and held.`);
    await restartWorker(scene);
    const still = await readRun(scene, id);
    holds(still.status === 'in_progress' && still.step_count === 1, `the run is ${still.status} after the kill`);
  } finally {
    hold.release();
  }
  report.say(
    `Let go. The engine misses the dead worker's sign of life within ${String(heartbeatSeconds)} s, then goes on.`,
  );
  const record = await completed(scene, id);
  report.fact('completed', `${id}, ${String(record.step_count)} steps`);
  const storedSteps = await showSteps(scene, id);
  holds(
    storedSteps === record.step_count,
    `${String(storedSteps)} steps are stored, ${String(record.step_count)} counted`,
  );
  if (vendor === null) {
    holds(lookups(scene, order) === 1, 'the http tool was called more than once');
    countCalls(scene, id, storedSteps);
    // Later runs get the answers that their own messages call for.
    scene.local.modelServer.script(scene.model, []);
  }
  return id;
}
