import { randomUUID } from 'node:crypto';
import { inTurn, median, ratioOf, samples } from './measure.mjs';
import { openBareEngine, openDatabase, openStage } from './stage.mjs';

/**
 * What it takes to accept a run (202), beside one committed INSERT and one start of a workflow that nobody runs. No worker
 * runs on either side, so that only the acceptance is measured.
 */
export async function accept({ rounds, count = 60 }) {
  const stage = await openStage();
  try {
    const agent = await stage.makeAgent('plain');
    await stage.generate(agent, {}, '?wait=true');
    stage.local.kill('worker', 0, 'SIGTERM');
    const database = await openDatabase(stage);
    const engine = await openBareEngine(stage, { worker: false });
    await database.query('create table bare_runs (id text primary key, body json, created_at timestamptz not null)');
    const insert = { name: 'insert', text: 'insert into bare_runs values ($1, $2, now())' };
    const figures = await inTurn(rounds, {
      ours: async () => median(await samples(count, () => stage.generate(agent))),
      bare: async () =>
        median(
          await samples(count, async () => {
            const id = randomUUID();
            await database.query({ ...insert, values: [id, JSON.stringify({ text: 'How are you?' })] });
            await engine.workflow.start('activities', { taskQueue: 'nobody', workflowId: id, args: [1] });
          }),
        ),
      reads: async () => median(await samples(count, () => database.query('select 1'))),
    });
    return [
      {
        figure: 'accept (202), p50',
        ours: `${median(figures.ours).toFixed(1)} ms`,
        baseline: `${median(figures.bare).toFixed(1)} ms`,
        ratio: ratioOf(figures.ours, figures.bare),
        bar: { most: 1.5 },
        note: `one bare statement round trip: ${median(figures.reads).toFixed(2)} ms`,
      },
    ];
  } finally {
    await stage.end();
  }
}
