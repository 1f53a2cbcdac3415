import { randomUUID } from 'node:crypto';
import { inTurn, median, ratioOf, samples } from './measure.mjs';
import { openBareEngine, openStage } from './stage.mjs';

const STEPS = 20;

/** `wait=true` beside a bare workflow of one activity; and what one more model step costs beside one more activity. */
export async function wait({ rounds, count = 40 }) {
  const stage = await openStage();
  try {
    const plain = await stage.makeAgent('plain');
    const stepper = await stage.makeAgent('stepper');
    stage.local.modelServer.script('plain', [{ text: 'Fine.' }]);
    const unknown = { toolCalls: [{ name: 'not_there', args: {} }] };
    stage.local.modelServer.script('stepper', [...Array.from({ length: STEPS }, () => unknown), { text: 'Done.' }]);
    const engine = await openBareEngine(stage);
    const bare = (activities) =>
      engine.workflow.execute('activities', { taskQueue: 'bare', workflowId: randomUUID(), args: [activities] });
    const waited = (agent) => stage.generate(agent, {}, '?wait=true');
    const of = (times, work) => async () => median(await samples(times, work));
    const figures = await inTurn(rounds, {
      one: of(count, () => waited(plain)),
      bareOne: of(count, () => bare(1)),
      many: of(4, () => waited(stepper)),
      bareMany: of(4, () => bare(STEPS + 1)),
    });
    const perStep = (many, one) => many.map((value, index) => (value - one[index]) / STEPS);
    const step = perStep(figures.many, figures.one);
    const activity = perStep(figures.bareMany, figures.bareOne);
    return [
      {
        figure: 'wait=true, model of 0 ms, p50',
        ours: `${median(figures.one).toFixed(1)} ms`,
        baseline: `${median(figures.bareOne).toFixed(1)} ms`,
        ratio: ratioOf(figures.one, figures.bareOne),
        bar: { most: 1.5 },
      },
      {
        figure: 'one more model step',
        ours: `${median(step).toFixed(1)} ms`,
        baseline: `${median(activity).toFixed(1)} ms`,
        ratio: ratioOf(step, activity),
        bar: { most: 2 },
      },
    ];
  } finally {
    await stage.end();
  }
}
