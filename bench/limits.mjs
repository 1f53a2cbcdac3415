import { Agent, request } from 'undici';
import { inLanes } from './measure.mjs';
import { openDatabase, openStage } from './stage.mjs';

const LIMIT = 3_000;
const LANES = 20;
const SETTLE_MS = 2_000;

const figure = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return { median: sorted[Math.floor(sorted.length / 2)], least: sorted[0], greatest: sorted.at(-1) };
};

/** The limit of requests of an address, over two API processes at once: how far it errs, and what it asks of the database. */
export async function limits({ rounds, count = LIMIT * 2 }) {
  const stage = await openStage({
    production: false,
    apis: 2,
    workers: 1,
    env: { RATE_IP_LIMIT: String(LIMIT), TRUST_PROXY: '1' },
  });
  const agent = new Agent({ connections: LANES });
  stage.opened.push(() => agent.close());
  try {
    const database = await openDatabase(stage);
    const { baseUrls } = stage.local;
    const statements = async () =>
      Number(
        (await database.query(`select xact_commit from pg_stat_database where datname = current_database()`)).rows[0]
          .xact_commit,
      );
    const errors = [];
    const shares = [];
    for (let round = 0; round < rounds; round++) {
      const idle = await statementsOf(statements, () => Promise.resolve());
      let accepted = 0;
      const made = await statementsOf(statements, () =>
        inLanes(LANES, count, async (index) => {
          const { statusCode, body } = await request(`${baseUrls[index % baseUrls.length]}/v1/nothing`, {
            dispatcher: agent,
            headers: { 'x-forwarded-for': `198.51.100.${round + 1}` },
          });
          await body.dump();
          if (statusCode === 404) accepted += 1;
          else if (statusCode !== 429) throw new Error(`status ${statusCode}`);
        }),
      );
      errors.push((Math.abs(accepted - LIMIT) / LIMIT) * 100);
      shares.push(Math.max(0, made.count - (idle.count * made.ms) / idle.ms) / (count / 1_000));
    }
    return [
      {
        figure: 'requests of an address, two APIs at once: error',
        ours: `limit ${LIMIT}`,
        baseline: '—',
        value: figure(errors),
        bar: { most: 5, unit: '%' },
      },
      {
        figure: 'transactions a thousand limited requests',
        ours: `${count} requests`,
        baseline: '—',
        value: figure(shares),
        bar: { most: 100, unit: 'a thousand' },
      },
    ];
  } finally {
    await stage.end();
  }
}

/** Transactions that the database committed during `work` and shortly after, when counts are flushed and told. */
async function statementsOf(statements, work) {
  const [before, begun] = [await statements(), performance.now()];
  await work();
  await new Promise((resolve) => {
    setTimeout(resolve, SETTLE_MS);
  });
  return { count: (await statements()) - before, ms: performance.now() - begun };
}
