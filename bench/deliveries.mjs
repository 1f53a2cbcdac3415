import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { createRequire } from 'node:module';
import pg from 'pg';
import { Pool as HttpPool } from 'undici';
import { inLanes, inTurn, median, percentile, ratioOf, until } from './measure.mjs';
import { startReceiver } from './receiver.mjs';
import { openDatabase, openStage } from './stage.mjs';

const require = createRequire(import.meta.url);

/** Fewer than the places of one endpoint, so that every first attempt is made at once. */
const LANES = 8;
const ENDPOINTS = 100;
const DATA = { id: 'gen_0000000000000000', status: 'completed', usage: { input_tokens: 12, output_tokens: 34 } };

/** The service's own code in this process, with the settings of the stage: the event commits, then its first attempt. */
function ownCode(stage) {
  const { localDefaults } = require('../dist/local/local-settings.js');
  Object.assign(process.env, localDefaults(stage.dataDir), {
    DATABASE_URL: stage.local.databaseUrl,
    TEMPORAL_ADDRESS: stage.local.temporalAddress,
    PUBLIC_BASE_URL: stage.local.baseUrl,
    DATABASE_POOL_MAX: '20',
    LOG_LEVEL: 'warn',
  });
  process.argv.push('--local');
  const { closeDatabase } = require('../dist/api/core/db.js');
  const { recordEvent } = require('../dist/api/webhooks/deliveries.js');
  const { attemptOnce } = require('../dist/api/webhooks/attempt.js');
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const underWay = new Set();
  stage.opened.push(async () => {
    stop.abort();
    await Promise.all(underWay);
    await require('../dist/api/core/temporal.js').closeEngine();
    await closeDatabase();
  });
  return (projectId) =>
    // No other change goes with it, so its one statement commits by itself, as the bare insert does.
    recordEvent(undefined, {
      projectId,
      type: 'generation.completed',
      resourceType: 'generation',
      resourceId: DATA.id,
      data: DATA,
    }).then((deliveries) => {
      const committedAt = performance.timeOrigin + performance.now();
      // What the process does with what it committed, but that whoever measures sees its end.
      const attempts = deliveries.map((delivery) => attemptOnce(delivery, stop.signal));
      const done = Promise.all(attempts).finally(() => underWay.delete(done));
      underWay.add(done);
      return { ids: deliveries.map(({ id }) => id), committedAt, done };
    });
}

/** A bare loop in the same process and with as many connections: insert, POST, update. */
async function bareLoop(stage, receiver) {
  const pool = new pg.Pool({ connectionString: stage.local.databaseUrl, max: 20 });
  const http = new HttpPool(receiver.url, { connections: LANES });
  stage.opened.push(async () => {
    await http.destroy();
    await pool.end();
  });
  await pool.query(
    'create table bare_deliveries (id text primary key, body text, status text, created_at timestamptz)',
  );
  const body = JSON.stringify(DATA);
  return async () => {
    const id = randomUUID();
    await pool.query({
      name: 'i',
      text: 'insert into bare_deliveries values ($1, $2, $3, now())',
      values: [id, body, 'pending'],
    });
    const committedAt = performance.timeOrigin + performance.now();
    const arrived = receiver.arrived(id);
    const headers = { 'x-svc-delivery': id, 'content-type': 'application/json' };
    const response = await http.request({ path: '/', method: 'POST', headers, body });
    await response.body.dump();
    await pool.query({
      name: 'u',
      text: 'update bare_deliveries set status = $2 where id = $1',
      values: [id, 'success'],
    });
    return (await arrived) - committedAt;
  };
}

/** One round of events in lanes: deliveries a second, and the milliseconds from commit to first byte. */
async function round(count, one) {
  const waits = [];
  const begun = performance.now();
  await inLanes(LANES, count, async (index) => waits.push(await one(index)));
  return { rate: (count * 1000) / (performance.now() - begun), p95: percentile(waits, 0.95) };
}

const webhook = (stage, projectId, url) =>
  stage.api.call('POST', `/v1/projects/${projectId}/webhooks`, { url, events: ['generation.*'] });

/** Projects with one endpoint each, so that one event is one delivery. */
async function projectsWith(stage, urls) {
  const ids = [];
  const database = await openDatabase(stage);
  for (const [index, url] of urls.entries()) {
    // Projects beyond a plan's number are made where the account keeps them; the route is not what is measured.
    const id = `proj_bench${String(index).padStart(11, '0')}`;
    await database.query(
      `insert into projects (id, owner_user_id, name, created_at, updated_at) values ($1, $2, 'bench', now(), now())`,
      [id, stage.ownerId],
    );
    await database.query(
      `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at)
       select 'pmem_bench' || lpad($3::text, 11, '0'), $1, id, email, 'owner', now(), now() from users where id = $2`,
      [id, stage.ownerId, index],
    );
    await webhook(stage, id, url);
    ids.push(id);
  }
  return ids;
}

/** First attempts beside a bare loop, at one endpoint; and whether one endpoint of a hundred that hangs delays the others. */
export async function deliveries({ rounds, count = 1_000 }) {
  const stage = await openStage();
  const receiver = await startReceiver();
  stage.opened.push(() => receiver.close());
  try {
    const spread = await projectsWith(
      stage,
      Array.from({ length: ENDPOINTS }, () => `${receiver.url}/`),
    );
    const [hanging] = spread;
    await webhook(stage, stage.projectId, `${receiver.url}/`);
    const record = ownCode(stage);
    const bare = await bareLoop(stage, receiver);
    const database = await openDatabase(stage);
    const deliver = async (projectId) => {
      const { ids, committedAt, done } = await record(projectId);
      await done;
      const waits = await Promise.all(ids.map(async (id) => (await receiver.arrived(id)) - committedAt));
      return Math.max(...waits);
    };
    const others = (index) => deliver(spread[1 + (index % (ENDPOINTS - 1))]);
    const ours = [];
    const bareRounds = [];
    const quiet = [];
    const beside = [];
    await inTurn(rounds, {
      ours: async () => ours.push(await round(count, () => deliver(stage.projectId))),
      bare: async () => bareRounds.push(await round(count, () => bare())),
      quiet: async () => quiet.push(await round(count, others)),
    });
    await database.query('update webhooks set url = $2 where project_id = $1', [hanging, `${receiver.url}/hang`]);
    await inTurn(rounds, {
      beside: async () => {
        const held = await Promise.all(Array.from({ length: 5 }, () => record(hanging)));
        beside.push(await round(count, others));
        return held.length;
      },
      quiet: async () => quiet.push(await round(count, others)),
    });
    await until(
      async () =>
        (
          await database.query(
            `select 1 from webhook_deliveries where status = 'pending' and project_id <> $1 limit 1`,
            [hanging],
          )
        ).rowCount === 0,
      { timeoutMs: 60_000, goal: 'the last deliveries' },
    );
    const retried = await database.query(
      `select count(*)::int as n from webhook_deliveries where (attempts <> 1 or run_seen_at is not null) and project_id <> $1`,
      [hanging],
    );
    return rowsOf({ ours, bareRounds, quiet: quiet.slice(-beside.length), beside, handedOver: retried.rows[0].n });
  } finally {
    await stage.end();
  }
}

const of = (rounds, name) => rounds.slice(1).map((figures) => figures[name]);
const ms = (value) => `${value.toFixed(1)} ms`;

function rowsOf({ ours, bareRounds, quiet, beside, handedOver }) {
  return [
    {
      figure: 'first attempts a second, one endpoint',
      ours: `${median(of(ours, 'rate')).toFixed(0)}/s`,
      baseline: `${median(of(bareRounds, 'rate')).toFixed(0)}/s`,
      ratio: ratioOf(of(ours, 'rate'), of(bareRounds, 'rate')),
      bar: { least: 0.7 },
      note: `${handedOver} deliveries needed more than their first attempt`,
    },
    {
      figure: 'commit to first byte, p95, one endpoint',
      ours: ms(median(of(ours, 'p95'))),
      baseline: ms(median(of(bareRounds, 'p95'))),
      ratio: ratioOf(of(ours, 'p95'), of(bareRounds, 'p95')),
      bar: { most: 2 },
    },
    {
      figure: `p95 of ${ENDPOINTS - 1} endpoints beside one that hangs`,
      ours: ms(median(of(beside, 'p95'))),
      baseline: ms(median(of(quiet, 'p95'))),
      ratio: ratioOf(of(beside, 'p95'), of(quiet, 'p95')),
      bar: { most: 1.1 },
    },
  ];
}
