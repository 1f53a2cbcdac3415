import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import { inTurn, median, percentile, ratioOf, samples } from './measure.mjs';
import { openDatabase, openStage } from './stage.mjs';

const CONNECTIONS = 10;
const SECONDS = 4;
const SMALL = 1_000;
const LARGE = 1_000_000;
const PAGES = 300;

/** Settled runs of a project, a second apart, as the service would have left them. */
async function fill(database, { projectId, agentId, count }) {
  await database.query(
    `with made as (
       insert into traces (id, project_id, agent_id, created_at, updated_at)
       select 'trace_' || $4 || lpad(i::text, 12, '0'), $1, $2, now() - i * interval '1 second', now()
       from generate_series(1, $3::int) as i returning id, created_at)
     insert into generations (id, project_id, agent_id, agent_version, trace_id, status, stop_reason, step_count, input_tokens,
       output_tokens, model, started_by_principal_type, run_seen_at, started_at, completed_at, last_activity_at, created_at, updated_at)
     select 'gen_' || substr(id, 7), $1, $2, 1, id, 'completed', 'stop', 1, 100, 20, 'any', 'api_key', created_at, created_at,
       created_at, created_at, created_at, created_at from made`,
    [projectId, agentId, count, projectId.slice(-4)],
  );
}

async function startBare(stage) {
  const child = fork(fileURLToPath(new URL('./bare-server.mjs', import.meta.url)), [stage.local.databaseUrl]);
  stage.opened.push(() => child.kill());
  const port = await new Promise((resolve) => child.once('message', resolve));
  return `http://127.0.0.1:${port}`;
}

/** Requests a second under a steady load. @throws Error when an answer was not 200 */
async function load(url, token) {
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration: SECONDS,
    headers: { authorization: `Bearer ${token}` },
  });
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} failed`);
  return result.requests.average;
}

/** One record and one page beside bare Express and pg; and what a million rows change about a page and its total. */
export async function reads({ rounds, count = LARGE }) {
  const stage = await openStage({ workers: 1 });
  try {
    const { api } = stage;
    const agentId = await stage.makeAgent('plain');
    const large = await api.call('POST', '/v1/projects', { name: 'large' });
    const database = await openDatabase(stage);
    await fill(database, { projectId: stage.projectId, agentId, count: SMALL });
    await database.query('alter table generations disable trigger all'); // The rows name an agent of the other project.
    await fill(database, { projectId: large.id, agentId, count });
    await database.query('alter table generations enable trigger all');
    await database.query('vacuum (analyze) generations');
    const bare = await startBare(stage);
    const small = `${stage.at}/generations`;
    const { data } = await api.call('GET', small);
    const one = `${small}/${data[10].id}`;
    const figures = await inTurn(rounds, {
      one: () => load(api.baseUrl + one, api.token),
      bareOne: () => load(bare + one, api.token),
      list: () => load(api.baseUrl + small, api.token),
      bareList: () => load(bare + small, api.token),
    });
    const p95 = async (sql, project) =>
      percentile(await samples(PAGES, () => database.query({ ...sql, values: [project] })), 0.95);
    const page = {
      name: 'page',
      text: 'select * from generations where project_id = $1 order by created_at desc, id desc limit 50',
    };
    const total = { name: 'total', text: 'select count(*) from generations where project_id = $1' };
    const pages = await inTurn(rounds, {
      large: () => p95(page, large.id),
      small: () => p95(page, stage.projectId),
      total: async () => median(await samples(5, () => database.query({ ...total, values: [large.id] }))),
    });
    const rate = (values) => `${median(values).toFixed(0)}/s`;
    const ms = (values) => `${median(values).toFixed(1)} ms`;
    return [
      {
        figure: 'GET generation',
        ours: rate(figures.one),
        baseline: rate(figures.bareOne),
        ratio: ratioOf(figures.one, figures.bareOne),
        bar: { least: 0.7 },
      },
      {
        figure: 'GET generations (50 of 1,000)',
        ours: rate(figures.list),
        baseline: rate(figures.bareList),
        ratio: ratioOf(figures.list, figures.bareList),
        bar: { least: 0.7 },
      },
      {
        figure: `page at ${count.toLocaleString('en')} rows, p95, beside 1,000`,
        ours: ms(pages.large),
        baseline: ms(pages.small),
        ratio: ratioOf(pages.large, pages.small),
        bar: { most: 1.5 },
      },
      {
        figure: `total at ${count.toLocaleString('en')} rows`,
        ours: ms(pages.total),
        baseline: '—',
        value: { median: median(pages.total), least: Math.min(...pages.total), greatest: Math.max(...pages.total) },
        bar: { most: 150, unit: 'ms' },
      },
    ];
  } finally {
    await stage.end();
  }
}
