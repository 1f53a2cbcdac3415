import { inTransaction, query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { engine, openRunsOf, runEnded, startRun } from '../../src/api/core/temporal';
import { reconcile } from '../../src/reconcile';
import { buildAgent, buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';

const used = useWorkspace({ project: 'test', receiver: 'test' });
const { service, owner, space, at, agentSaying, receiver, server } = used;

const codeOf = ({ status, body }: Reply): unknown[] => [status, body.error?.code];
const remove = (force = false): Promise<Reply> => space.api.delete(`${space.at}${force ? '?force=true' : ''}`);

/** Rows of a project in every table that names projects, or hangs from one that does; the tables with none are left out. */
async function leftOf(projectId: string): Promise<Record<string, number>> {
  const tables = await query<{ table: string; column: string }>(
    `select c.table_name as "table", c.column_name as "column" from information_schema.columns c
     join information_schema.tables t using (table_schema, table_name)
     where c.table_schema = current_schema() and c.column_name = 'project_id' and t.table_type = 'BASE TABLE'`,
  );
  expect(tables.map(({ table }) => table)).toEqual(expect.arrayContaining(['generations', 'run_counts', 'deletions']));
  const found: Record<string, number> = {};
  for (const { table, column } of [...tables, { table: 'projects', column: 'id' }]) {
    const row = await queryOne<{ n: number }>(`select count(*)::int as n from "${table}" where ${column} = $1`, [
      projectId,
    ]);
    if (row!.n > 0) found[table] = row!.n;
  }
  const attempts = await queryOne<{ n: number }>(
    `select count(*)::int as n from webhook_delivery_attempts a
     where not exists (select 1 from webhook_deliveries d where d.id = a.delivery_id)`,
  );
  if (attempts!.n > 0) found.webhook_delivery_attempts = attempts!.n;
  return found;
}

const gone = (projectId: string): Promise<void> =>
  eventually(
    async () => {
      expect(await leftOf(projectId)).toEqual({});
    },
    { timeoutMs: 20_000, intervalMs: 100 },
  );

/** Everything that a project of this build can hold: settled, paused and running generations, deliveries that wait. */
async function fill(gate: string): Promise<Record<'running' | 'paused' | 'settled', string>> {
  const secret = created(await space.api.post(at('/secrets'), { name: 's', value: 'v' })).id as string;
  created(
    await space.api.post(at('/ai-providers'), {
      name: 'other',
      provider: 'openai',
      default_model: 'm',
      secret_id: secret,
    }),
  );
  await space.api.put(at(`/ai-providers/${space.providerId}/prices`), {
    prices: [{ model: 'm', component: 'input_tokens', unit: 'token', unit_price: 1 }],
  });
  receiver.respond({ status: 500 });
  created(await space.api.post(at('/webhooks'), { url: `${receiver.url}/hook`, events: ['*'] }));
  const ask = await buildClientTool(space, { name: 'ask' });
  await buildHttpTool(space, `${receiver.url}/thing`);
  const asking = { toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] };
  const tool_bindings = [{ tool_id: ask.id }];
  const runOf = async (reply: object, wait: boolean): Promise<string> => {
    const agent = await agentSaying([reply], { tool_bindings });
    await space.api.patch(at(`/agents/${agent.id}`), { name: 'second version' });
    const answer = await space.api.post(at(`/agents/${agent.id}/generate?wait=${String(wait)}`), saying('x'));
    return answer.body.id as string;
  };
  const settled = await runOf({ text: 'done' }, true);
  const paused = await runOf(asking, true);
  const running = await runOf({ text: 'late', hold: gate }, false);
  await server.waitForCall({ generationId: running });
  return { running, paused, settled };
}

describe('DELETE /v1/projects/{project_id}', () => {
  test('[projects 6] is for the owner, and counts what is in the project unless forced', async () => {
    const admin = await service.signedIn();
    await service.member(space.projectId, admin, 'admin');
    expect(await service.client(admin.token).delete(space.at)).toMatchObject({
      status: 403,
      body: { error: { code: 'access_denied', details: { required_role: 'owner' } } },
    });
    await buildAgent(space);
    const refused = await remove();
    expect(codeOf(refused)).toEqual([409, 'PROJECT_HAS_DEPENDENTS']);
    expect(refused.body.error.meta).toEqual({
      agent_count: 1,
      ai_provider_count: 1,
      tool_count: 0,
      secret_count: 0,
      generation_count: 0,
      trace_count: 0,
    });
    expect((await space.api.get(space.at)).status).toBe(200);
    expect(await space.api.delete(`${space.at}?force=yes`)).toMatchObject({
      status: 400,
      body: { error: { code: 'bad_request', details: [{ path: 'query.force' }] } },
    });
    expect((await remove(true)).status).toBe(204);
    await gone(space.projectId);
  });

  test.each(['secrets', 'tools'])('%s alone count as well', async (kind) => {
    const { id } = await service.project(owner);
    const path = `/v1/projects/${id}`;
    const body =
      kind === 'secrets' ? { name: 's', value: 'v' } : { name: 'ask', type: 'client', parameters: { type: 'object' } };
    created(await space.api.post(`${path}/${kind}`, body));
    expect(codeOf(await space.api.delete(path))).toEqual([409, 'PROJECT_HAS_DEPENDENTS']);
  });

  test('what does not count goes without force: members, keys, webhooks, prices', async () => {
    const { id } = await service.project(owner);
    const path = `/v1/projects/${id}`;
    created(await space.api.post(`${path}/webhooks`, { url: `${receiver.url}/hook`, events: ['*'] }));
    await service.apiKey(owner, { projectId: id });
    await service.member(id, await service.signedIn(), 'member');
    expect(await space.api.delete(path)).toMatchObject({ status: 204, body: {} });
    await gone(id);
    expect(await runEnded(`delete/${id}`, 5_000)).toBe(true);
  });

  test('[projects 6] every route under it is 404 at once, to everybody, and its keys are no credentials any more', async () => {
    const [member, invited] = [await service.signedIn(), await service.signedIn()];
    await service.member(space.projectId, member, 'member');
    await query(
      `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at)
       values ($1, $2, null, $3, 'member', now(), now())`,
      [newId('member'), space.projectId, `waiting-${invited.email}`],
    );
    const key = await service.apiKey(owner, { projectId: space.projectId });
    const agent = await buildAgent(space);
    await service.stopWorkers(); // Nothing is removed meanwhile: what counts is the one transaction.
    try {
      expect((await remove(true)).status).toBe(204);
      for (const { token } of [owner, member]) {
        const { get, post, patch, delete: drop } = service.client(token);
        for (const answer of [
          await get(space.at),
          await get(at('/agents')),
          await post(at('/pause')),
          await post(at(`/agents/${agent.id}/generate`), saying('x')),
          await patch(space.at, { name: 'x' }),
          await drop(`${space.at}?force=true`),
        ]) {
          expect({ status: answer.status, body: answer.body }).toEqual({
            status: 404,
            body: { error: { code: 'not_found', message: 'Not found.' } },
          });
        }
        const listed = (await get('/v1/projects')).body.data as { id: string }[];
        expect(listed.map(({ id }) => id)).not.toContain(space.projectId);
      }
      expect(codeOf(await service.client(key).get('/v1/projects'))).toEqual([401, 'unauthorized']);
      const scoped = { name: 'k', project_id: space.projectId };
      expect(codeOf(await service.client(owner.token).post('/v1/api-keys', scoped))).toEqual([404, 'not_found']);
      expect(await leftOf(space.projectId)).toMatchObject({ projects: 1, deletions: 1, agents: 1 });
    } finally {
      await service.startWorkers();
    }
    await gone(space.projectId);
  });

  test('works in an archived and in a paused project', async () => {
    for (const change of [`status = 'archived'`, 'paused_at = now()']) {
      const { id } = await service.project(owner);
      await query(`update projects set ${change} where id = $1`, [id]);
      expect((await space.api.delete(`/v1/projects/${id}`)).status).toBe(204);
      await gone(id);
    }
  });

  test('of several at once one deletes', async () => {
    const answers = await Promise.all([remove(true), remove(true), remove(true)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 404, 404]);
    await gone(space.projectId);
  });

  test('frees the idempotency key that made it', async () => {
    const body = { name: 'once', idempotency_key: newId('event') };
    const first = await space.api.post('/v1/projects', body);
    expect((await space.api.delete(`/v1/projects/${first.body.id as string}`)).status).toBe(204);
    const again = await space.api.post('/v1/projects', body);
    expect(again.status).toBe(201);
    expect(again.body.id).not.toBe(first.body.id);
    await gone(first.body.id as string);
  });
});

describe('the deletion of a project that is in use', () => {
  test('[projects 7] leaves no row and no running workflow; pending deliveries are dropped, the account keeps what it owes', async () => {
    const filled = await fill('deleted-meanwhile');
    await query('update users set balance_usd = 12.5 where id = $1', [owner.userId]);
    const counted = (shard: number, project: string, runs: number) =>
      query(`insert into run_counts (user_id, month, project_id, shard, runs) values ($1, '2020-01', $2, $3, $4)`, [
        owner.userId,
        project,
        shard,
        runs,
      ]);
    const runsOf = async (project: string) =>
      (
        await queryOne<{ runs: number }>(
          `select coalesce(sum(runs), 0)::int as runs from run_counts where user_id = $1 and project_id = $2 and month <> '2020-01'`,
          [owner.userId, project],
        )
      )?.runs;
    const spent = await runsOf(space.projectId);
    expect(spent).toBeGreaterThan(0);
    await counted(0, space.projectId, 5);
    await counted(1, space.projectId, 7);
    await counted(1, '', 2);
    expect(await leftOf(space.projectId)).toMatchObject({
      generations: 3,
      webhook_deliveries: 1,
      prices: 1,
      agents: 3,
    });
    await eventually(() => {
      expect(receiver.requests.length).toBeGreaterThan(0);
    });
    expect(codeOf(await remove())).toEqual([409, 'PROJECT_HAS_DEPENDENTS']);
    expect((await remove(true)).status).toBe(204);
    const sent = receiver.requests.length;
    await gone(space.projectId);
    expect(await runEnded(`delete/${space.projectId}`, 10_000)).toBe(true);
    await eventually(async () => {
      expect(await openRunsOf(space.projectId, 10)).toEqual([]);
    });
    for (const id of [filled.running, filled.paused]) {
      expect((await engine().workflow.getHandle(id).describe()).status.name).toBe('CANCELLED');
    }
    expect(receiver.requests).toHaveLength(sent); // The cancelled runs are told to nobody.
    const kept = await query(
      `select month, project_id, shard, runs from run_counts where user_id = $1 and month = '2020-01' order by shard`,
      [owner.userId],
    );
    expect(kept).toEqual([
      { month: '2020-01', project_id: '', shard: 0, runs: 5 },
      { month: '2020-01', project_id: '', shard: 1, runs: 9 },
    ]);
    expect(await runsOf('')).toBe(spent);
    expect(await queryOne('select balance_usd::float as balance from users where id = $1', [owner.userId])).toEqual({
      balance: 12.5,
    });
    server.release('deleted-meanwhile');
  });

  test('takes along what a request wrote that was admitted before, and refuses what comes after the end', async () => {
    const { id } = await service.project(owner);
    const write = (tx?: Parameters<Parameters<typeof inTransaction>[0]>[0]) =>
      query(
        `insert into traces (id, project_id, agent_id, created_at, updated_at) values ($1, $2, 'agent_x', now(), now())`,
        [newId('trace'), id],
        tx,
      );
    let answered: Promise<Reply> | undefined;
    await inTransaction(async (tx) => {
      await write(tx);
      // The count waits for the row that is being written, and then finds it.
      answered = space.api.delete(`/v1/projects/${id}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    });
    expect(codeOf(await answered!)).toEqual([409, 'PROJECT_HAS_DEPENDENTS']);
    await service.stopWorkers();
    await space.api.delete(`/v1/projects/${id}?force=true`);
    await write(); // Committed after the end of the project, before its rows are gone.
    await service.startWorkers();
    await gone(id);
    await expect(write()).rejects.toMatchObject({ code: '23503' });
  });

  test('a write that meets the last step waits for it and is 404', async () => {
    const { id } = await service.project(owner);
    await query('update projects set deleted_at = null where id = $1', [id]);
    let answered: Promise<Reply> | undefined;
    await inTransaction(async (tx) => {
      await query('select id from projects where id = $1 for update', [id], tx);
      answered = space.api.post(`/v1/projects/${id}/secrets`, { name: 's', value: 'v' });
      await eventually(async () => {
        const waiting = await query(`select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like 'INSERT INTO "secrets"%'`);
        expect(waiting).toHaveLength(1);
      });
      await query('delete from projects where id = $1', [id], tx);
    });
    expect(codeOf(await answered!)).toEqual([404, 'not_found']);
  });
});

describe('a deletion whose run is lost', () => {
  /** The rows as the request leaves them, without a run. */
  const committed = async (ageMs: number): Promise<string> => {
    const { id } = await service.project(owner);
    await query('update projects set deleted_at = now() where id = $1', [id]);
    await query(`insert into deletions (id, project_id, kind, created_at) values ($1, $1, 'project', $2)`, [
      id,
      new Date(Date.now() - ageMs),
    ]);
    return id;
  };

  test('[engine 2] before its start is started by the sweep, in its midst by the comparison', async () => {
    const [old, young] = [await committed(60_000), await committed(0)];
    await query('update deletions set run_seen_at = now() where id = $1', [young]);
    const id = `sweep/tests/${newId('event')}`;
    const labels = { resourceType: 'sweep', resourceId: id };
    const args = [{ kinds: ['project_deletions'] }];
    await startRun({ type: 'sweepStarts', id, args, labels, memo: { trigger: 'test' } });
    await engine().workflow.getHandle(id).result();
    await gone(old);
    expect(await leftOf(young)).toEqual({ projects: 1, deletions: 1, project_members: 1 });
    await reconcile();
    await gone(young);
    expect(await runEnded(`delete/${young}`, 5_000)).toBe(true);
  });
});
