import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

const service = useLocal();
const BELOW = 200;
let runs: Runs;

beforeAll(async () => {
  runs = new Runs(service, await service.workspace());
});

/** A finished run with a tree of that many more traces below it, each with a turn of its own that is a copy of the first. */
async function bigTree(): Promise<{ generationId: string; traceId: string }> {
  const generationId = await runs.begin((await runs.agent([{ text: 'KANARIENVOGEL' }])).id);
  const { trace_id: traceId } = await runs.reached(generationId, 'completed');
  await service.rows(
    `insert into traces (id, project_id, agent_id, step_count, parent_trace_id, root_trace_id, created_at, updated_at)
     select 'trace_' || lpad(n::text, 16, '0'), project_id, agent_id, 1, id, id, now(), now()
     from traces, generate_series(1, ${String(BELOW)}) n where id = $1`,
    [traceId],
  );
  await service.rows(
    `insert into generations (id, project_id, agent_id, agent_version, trace_id, status, step_count, created_at, updated_at)
     select 'gen_' || lpad(n::text, 16, '0'), project_id, agent_id, 1, 'trace_' || lpad(n::text, 16, '0'), 'completed', 1, now(), now()
     from generations, generate_series(1, ${String(BELOW)}) n where id = $1`,
    [generationId],
  );
  await service.rows(
    `insert into generation_contents (generation_id, project_id, input)
     select 'gen_' || lpad(n::text, 16, '0'), project_id, input
     from generation_contents, generate_series(1, ${String(BELOW)}) n where generation_id = $1`,
    [generationId],
  );
  return { generationId, traceId: traceId as string };
}

const left = async (): Promise<{ traces: number; generations: number; contents: number }> =>
  service.row(
    `select (select count(*)::int from traces where project_id = $1 and content_redacted_at is null) as traces,
       (select count(*)::int from generations where project_id = $1 and content_redacted_at is null) as generations,
       (select count(*)::int from generation_contents where project_id = $1) as contents`,
    [runs.space.projectId],
  );

test('killed while the content of a big tree is removed: the waiting request ends with everything removed, once', async () => {
  const { traceId } = await bigTree();
  service.hold('trace-purged');
  const answered = runs.space.api.delete(runs.at(`/traces/${traceId}/content`));
  await service.held('trace-purged');
  expect(await left()).toEqual({ traces: BELOW, generations: BELOW, contents: BELOW });
  await service.kill('worker');
  service.letGo('trace-purged');
  const [first] = await service.rows<{ id: string; at: Date }>(
    'select id, content_redacted_at as at from traces where project_id = $1 and content_redacted_at is not null',
    [runs.space.projectId],
  );
  await service.local.start('worker');
  const reply = await answered;
  expect(reply.status).toBe(200);
  expect(reply.body).toMatchObject({ id: traceId, step_count: 1, content_redacted_by_principal_type: 'user' });
  expect(reply.body.content_redacted_at).not.toBeNull();
  expect(await left()).toEqual({ traces: 0, generations: 0, contents: 0 });
  const kept = await service.row<{ at: Date }>('select content_redacted_at as at from traces where id = $1', [
    first?.id,
  ]);
  expect(kept.at).toEqual(first?.at);
}, 120_000);

test('the API killed while a caller waits for the removal: it is done all the same', async () => {
  const generationId = await runs.begin((await runs.agent([{ text: 'KANARIENVOGEL' }])).id);
  const { trace_id: traceId } = await runs.reached(generationId, 'completed');
  service.hold('trace-purged');
  const waiting = runs.space.api.delete(runs.at(`/traces/${String(traceId)}/content`)).catch(() => null);
  await service.held('trace-purged');
  await service.kill('api');
  await waiting;
  service.letGo('trace-purged');
  await eventually(
    async () => {
      expect(await service.runStatus(`purge/${String(traceId)}`)).toBe('COMPLETED');
    },
    { timeoutMs: 20_000 },
  );
  expect(await left()).toEqual({ traces: 0, generations: 0, contents: 0 });
  await service.local.start('api');
  const again = await runs.space.api.delete(runs.at(`/traces/${String(traceId)}/content`));
  expect([again.status, again.body.content_redacted_by_principal_type]).toEqual([200, 'user']);
}, 120_000);

/** Accounts on a higher plan that a lower one waits for since the turn of the last month; the service is as old as that. */
async function lowerable(count: number): Promise<void> {
  await service.rows(
    `with made as (
       insert into users (id, email, email_verified, created_at, updated_at, plan, next_plan, next_plan_at, next_plan_reason)
       select 'user_turn' || lpad(n::text, 12, '0'), 'turn-' || n || '@people.test', true,
         date_trunc('month', now(), 'UTC') - interval '2 days', now(), 'pro', 'free',
         date_trunc('month', now(), 'UTC'), 'less' from generate_series(1, $1::int) as n returning id)
     insert into plan_lines (id, user_id, plan, reason, effective_at, created_at)
     select 'pln_' || substr(id, 6), id, 'pro', 'more', now() - interval '2 days', now() - interval '2 days' from made`,
    [count],
  );
}

const turned = (): Promise<object> =>
  service.row(
    `select count(*) filter (where u.plan = 'free')::int as lowered, count(*) filter (where u.next_plan is not null)::int as waiting,
       coalesce(sum((select count(*) from plan_lines l where l.user_id = u.id and l.plan = 'free')), 0)::int as lines,
       (select count(*)::int from month_turns) as months
     from users u where u.email like 'turn-%'`,
  );

test('killed in the middle of the turn of a month: every account is turned once, and the month is noted', async () => {
  const ACCOUNTS = 250;
  await service.kill('worker');
  await lowerable(ACCOUNTS);
  const point = 'account-turned';
  service.hold(point);
  await service.local.start('worker');
  await service.held(point, 20_000);
  await eventually(async () => {
    expect(((await turned()) as { lowered: number }).lowered).toBeGreaterThan(0);
  });
  expect(await turned()).toMatchObject({ months: 0 });
  await service.kill('worker');
  service.letGo(point);
  await service.local.start('worker');
  await eventually(
    async () => {
      expect(await turned()).toEqual({ lowered: ACCOUNTS, waiting: 0, lines: ACCOUNTS, months: 1 });
    },
    { timeoutMs: 90_000, intervalMs: 250 },
  );
}, 150_000);
