import { billingActivities } from '../../src/activities/billing.activities';
import { config } from '../../src/api/core/config';
import { monthBefore, monthOf, monthStart } from '../../src/api/core/cycle';
import { inTransaction, query, queryOne } from '../../src/api/core/db';
import { parseLadder } from '../../src/api/core/ladder';
import { engine, searchAttributeKeys, startRun } from '../../src/api/core/temporal';
import { grantPlan, lowerPlan } from '../../src/api/plans/service';
import { startMissedTurn, turnOf } from '../../src/api/plans/turns';
import { ensureSchedules } from '../../src/schedules';
import { monthTurnId } from '../../src/workflows/billing.contract';
import { buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';
import type { Person } from '../support/app';
import type { Reply } from '../support/client';

const { service, space, owner, receiver, at, agentSaying } = useWorkspace();
const DAY_MS = 86_400_000;

const refusal = ({ status, body }: Reply): unknown[] => [status, body.error?.code, body.error?.details];
const usePlans = (plans: object): unknown =>
  jest.replaceProperty(config(), 'PLANS', parseLadder(JSON.stringify(plans)));
const grant = (userId: string, plan: 'free' | 'pro' | 'business'): Promise<void> =>
  grantPlan({ userId, plan, reason: null, retentionDays: null, grantedByUserId: null });

afterEach(() => jest.restoreAllMocks());

describe('projects', () => {
  const create = (person: Person, body: object): Promise<Reply> =>
    service.client(person.token).post('/v1/projects', body);

  test('[projects 3] [billing 7] the ladder caps them: on free the fourth is refused, an archived one counts, a deleted one does not', async () => {
    usePlans({});
    const person = await service.signedIn();
    const made = [];
    for (const name of ['one', 'two', 'three']) made.push(created(await create(person, { name })) as { id: string });
    await query(`update projects set status = 'archived' where id = $1`, [made[0]?.id]);
    const limit = { plan: 'free', resource: 'project', limit: 3 };
    expect(refusal(await create(person, { name: 'four' }))).toEqual([403, 'plan_limit_reached', limit]);
    await query('update projects set deleted_at = now() where id = $1', [made[1]?.id]);
    expect((await create(person, { name: 'four' })).status).toBe(201);
    expect((await create(person, { name: 'five' })).status).toBe(403);
    await grant(person.userId, 'pro');
    expect((await create(person, { name: 'five' })).status).toBe(201);
  });

  test('of many made at once exactly as many succeed as the plan allows', async () => {
    usePlans({ free: { projects: 5 } });
    const person = await service.signedIn();
    const replies = await Promise.all(
      Array.from({ length: 12 }, (_, index) => create(person, { name: `project ${String(index)}` })),
    );
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(5);
    expect(replies.filter(({ status }) => status === 403)).toHaveLength(7);
  });

  test('a repeat by idempotency key is answered although the cap is reached', async () => {
    usePlans({ free: { projects: 1 } });
    const person = await service.signedIn();
    const body = { name: 'only', idempotency_key: 'key-1' };
    const first = created(await create(person, body)) as { id: string };
    const again = await create(person, body);
    expect([again.status, again.body.id]).toEqual([200, first.id]);
  });
});

describe('retention', () => {
  const create = async (person: Person, days?: number | null): Promise<Reply> =>
    service
      .client(person.token)
      .post('/v1/projects', { name: 'kept', ...(days === undefined ? {} : { trace_content_retention_days: days }) });

  test("is the plan's window unless less is asked for, and never more", async () => {
    usePlans({ free: { projects: null } });
    const person = await service.signedIn();
    expect(created(await create(person)).trace_content_retention_days).toBe(7);
    expect(created(await create(person, 3)).trace_content_retention_days).toBe(3);
    const limit = { plan: 'free', resource: 'retention', limit: 7 };
    expect(refusal(await create(person, 8))).toEqual([403, 'plan_limit_reached', limit]);
    expect(refusal(await create(person, null))).toEqual([403, 'plan_limit_reached', limit]);
    await grantPlan({
      userId: person.userId,
      plan: 'enterprise',
      reason: null,
      retentionDays: 400,
      grantedByUserId: null,
    });
    expect(created(await create(person)).trace_content_retention_days).toBe(400);
    expect((await create(person, 401)).status).toBe(403);
  });

  test('of a project that stands is held to the plan too', async () => {
    usePlans({});
    const person = await service.signedIn();
    const project = created(await create(person)) as { id: string };
    const change = (days: number | null): Promise<Reply> =>
      service.client(person.token).patch(`/v1/projects/${project.id}`, { trace_content_retention_days: days });
    const limit = { plan: 'free', resource: 'retention', limit: 7 };
    expect(refusal(await change(8))).toEqual([403, 'plan_limit_reached', limit]);
    expect(refusal(await change(null))).toEqual([403, 'plan_limit_reached', limit]);
    expect((await change(2)).body.trace_content_retention_days).toBe(2);
    await grant(person.userId, 'pro');
    expect((await change(30)).body.trace_content_retention_days).toBe(30);
    expect(refusal(await change(31))).toEqual([403, 'plan_limit_reached', { ...limit, plan: 'pro', limit: 30 }]);
  });

  test('is asked of a plan that is being lowered once that is done', async () => {
    usePlans({});
    const person = await service.signedIn();
    await grant(person.userId, 'pro');
    const project = created(await create(person, 5)) as { id: string };
    let answered: Promise<Reply> | undefined;
    await inTransaction(async (tx) => {
      await query(`update users set plan = 'free' where id = $1`, [person.userId], tx);
      const body = { trace_content_retention_days: 30 };
      answered = service.client(person.token).patch(`/v1/projects/${project.id}`, body);
      await eventually(async () => {
        const waiting = await query(`select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like 'select 1 from users%'`);
        expect(waiting).toHaveLength(1);
      });
    });
    const limit = { plan: 'free', resource: 'retention', limit: 7 };
    expect(refusal(await answered!)).toEqual([403, 'plan_limit_reached', limit]);
  });

  test('has no end only where the plan has none', async () => {
    usePlans({ free: { projects: null, retention_days: null } });
    const person = await service.signedIn();
    expect(created(await create(person)).trace_content_retention_days).toBeNull();
    expect(created(await create(person, null)).trace_content_retention_days).toBeNull();
    expect(created(await create(person, 9_000)).trace_content_retention_days).toBe(9_000);
  });
});

describe('runs', () => {
  const counted = async (): Promise<number> =>
    (await queryOne<{ runs: number }>(
      'select coalesce(sum(runs), 0)::int as runs from run_counts where user_id = $1 and project_id = $2 and month = $3',
      [owner.userId, space.projectId, monthOf(new Date())],
    ))!.runs;
  /** The plan leaves so many runs from here on. */
  const leave = async (left: number): Promise<number> => {
    const limit = (await counted()) + left;
    usePlans({ free: { runs: limit } });
    return limit;
  };
  const limitOf = (limit: number): unknown[] => [403, 'plan_limit_reached', { plan: 'free', resource: 'runs', limit }];
  const generations = async (): Promise<number> =>
    (await queryOne<{ count: number }>('select count(*)::int as count from generations where project_id = $1', [
      space.projectId,
    ]))!.count;

  test('a generation in every mode, a submission and a direct call count one each; repeats and refusals none', async () => {
    const person = await buildClientTool(space);
    const tool = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`, { name: 'look' });
    const agent = await agentSaying(
      [{ toolCalls: [{ id: 'ask', name: person.name, args: { order_id: '1' } }] }, { text: 'Done.' }],
      { tool_bindings: [{ tool_id: person.id }] },
    );
    const plain = await agentSaying([{ text: 'a' }, { text: 'b' }]);
    const before = await counted();
    const generate = at(`/agents/${agent.id}/generate`);
    const paused = await space.api.post(`${generate}?wait=true`, saying('go', { idempotency_key: 'run-1' }));
    expect(paused.body.status).toBe('requires_action');
    expect(await counted()).toBe(before + 1);
    const again = await space.api.post(`${generate}?wait=true`, saying('go', { idempotency_key: 'run-1' }));
    expect(again.body.id).toBe(paused.body.id);
    expect((await space.api.post(generate, { messages: [] })).status).toBe(400);
    expect(await counted()).toBe(before + 1);
    const outputs = {
      tool_outputs: [{ tool_call_id: 'ask', output: true }],
      idempotency_key: 'outputs-1',
    };
    const submit = `${generate}/${String(paused.body.id)}/tool-outputs`;
    expect((await space.api.post(submit, { tool_outputs: [] })).status).toBe(400);
    expect((await space.api.post(submit, outputs)).body.status).toBe('completed');
    expect((await space.api.post(submit, outputs)).status).toBe(200);
    expect(await counted()).toBe(before + 2);
    const streamed = await space.api.post(at(`/agents/${plain.id}/generate`), saying('go', { stream: true }));
    expect(streamed.status).toBe(200);
    expect((await space.api.post(at(`/agents/${plain.id}/generate`), saying('go'))).status).toBe(202);
    expect(await counted()).toBe(before + 4);
    receiver.respond(() => ({ body: { ok: true } }));
    expect((await space.api.post(at(`/tools/${tool.id}/call`), { input: { order_id: '7' } })).status).toBe(200);
    expect(await counted()).toBe(before + 5);
    expect((await space.api.post(at(`/tools/${tool.id}/call`), { input: {} })).status).toBe(400);
    expect((await space.api.post(at(`/tools/${person.id}/call`), { input: { order_id: '7' } })).status).toBe(422);
    expect(await counted()).toBe(before + 5);
  });

  test('the last one is taken, and then each kind is refused and writes nothing', async () => {
    const person = await buildClientTool(space, { name: 'approve_again' });
    const tool = await buildHttpTool(space, `${receiver.url}/orders/{order_id}`, { name: 'look_again' });
    const agent = await agentSaying(
      [{ toolCalls: [{ id: 'ask', name: person.name, args: { order_id: '1' } }] }, { text: 'Done.' }],
      { tool_bindings: [{ tool_id: person.id }] },
    );
    const generate = at(`/agents/${agent.id}/generate`);
    const limit = await leave(1);
    const paused = await space.api.post(`${generate}?wait=true`, saying('go'));
    expect(paused.body.status).toBe('requires_action');
    const rows = await generations();
    for (const body of [saying('go'), saying('go', { stream: true })]) {
      expect(refusal(await space.api.post(generate, body))).toEqual(limitOf(limit));
    }
    expect(refusal(await space.api.post(`${generate}?wait=true`, saying('go')))).toEqual(limitOf(limit));
    expect(await generations()).toBe(rows);
    const called = receiver.requests.length;
    expect(refusal(await space.api.post(at(`/tools/${tool.id}/call`), { input: { order_id: '7' } }))).toEqual(
      limitOf(limit),
    );
    expect(receiver.requests).toHaveLength(called);
    const outputs = { tool_outputs: [{ tool_call_id: 'ask', output: true }] };
    const submit = `${generate}/${String(paused.body.id)}/tool-outputs`;
    expect(refusal(await space.api.post(submit, outputs))).toEqual(limitOf(limit));
    expect((await space.api.get(at(`/generations/${String(paused.body.id)}`))).body.status).toBe('requires_action');
    jest.restoreAllMocks();
    expect((await space.api.post(submit, outputs)).body.status).toBe('completed');
  });

  test('the plan is asked before the price of the model, and a run without a price takes no place', async () => {
    const agent = await agentSaying([]);
    const start = (): Promise<Reply> => space.api.post(at(`/agents/${agent.id}/generate`), saying('go'));
    await space.api.patch(space.at, { require_priced_model: true });
    await leave(1);
    for (let index = 0; index < 2; index += 1) {
      const reply = await start();
      expect([reply.status, reply.body.error.code]).toEqual([409, 'MODEL_NOT_PRICED']);
    }
    const limit = await leave(0);
    expect(refusal(await start())).toEqual(limitOf(limit));
    await space.api.patch(space.at, { require_priced_model: false });
  });

  test('a direct call counts once it was made, whatever becomes of what it gave; a refused one does not', async () => {
    const call = async (given: object, url = receiver.url): Promise<unknown[]> => {
      const body = { name: 'counted', parameters: { type: 'object' }, execute: { url }, ...given };
      const { id } = created(await space.api.post(at('/tools'), body));
      const before = await counted();
      const { body: answer } = await space.api.post(at(`/tools/${id as string}/call`), {});
      return [answer.error.code, answer.error.details?.[0].path, (await counted()) - before];
    };
    receiver.respond(() => ({ body: { ok: true } }));
    const never = { throw: 'no' };
    expect(await call({ output_mapping: never })).toEqual(['VALIDATION_FAILED', 'output_mapping', 1]);
    const tool = { parameters: { type: 'object' }, execute: { url: receiver.url } };
    const pipeline = { steps: [{ id: 'a', tool }], output: never };
    const chain = { type: 'pipeline', execute: null, pipeline };
    expect(await call(chain)).toEqual(['VALIDATION_FAILED', 'pipeline.output', 1]);
    const headers = { 'X-Tenant': '{{context:tenant}}' };
    expect(await call({ execute: { url: receiver.url, headers } })).toEqual(['MISSING_TOOL_CONTEXT_KEY', undefined, 0]);
    expect(await call({}, 'http://169.254.169.254/')).toEqual(['TOOL_EGRESS_BLOCKED', undefined, 0]);
  });

  test('of many started at once exactly as many are accepted as are left', async () => {
    const agent = await agentSaying([]);
    const limit = await leave(7);
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => space.api.post(at(`/agents/${agent.id}/generate`), saying('go'))),
    );
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(7);
    for (const reply of replies.filter(({ status }) => status !== 202)) expect(refusal(reply)).toEqual(limitOf(limit));
    expect(await counted()).toBe(limit);
  });

  /** Runs that wait for the output of one call each. */
  const pausedRuns = async (name: string, count: number): Promise<string[]> => {
    const tool = await buildClientTool(space, { name });
    const turn = [{ toolCalls: [{ id: 'ask', name, args: { order_id: '1' } }] }, { text: 'Done.' }];
    const bound = { tool_bindings: [{ tool_id: tool.id }] };
    return Promise.all(
      Array.from({ length: count }, async () => {
        const agent = await agentSaying(turn, bound);
        const paused = await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('go'));
        expect(paused.body.status).toBe('requires_action');
        return at(`/agents/${agent.id}/generate/${String(paused.body.id)}/tool-outputs`);
      }),
    );
  };
  const outputs = { tool_outputs: [{ tool_call_id: 'ask', output: true }] };
  const submissions = async (): Promise<number> =>
    (await queryOne<{ count: number }>(
      'select count(*)::int as count from generation_submissions where project_id = $1 and accepted_at is null',
      [space.projectId],
    ))!.count;

  test('[billing] of many submissions at once exactly as many are accepted as are left, and the rest wait on', async () => {
    const paths = await pausedRuns('approve_many', 10);
    const limit = await leave(3);
    const replies = await Promise.all(paths.map((path) => space.api.post(path, outputs)));
    expect(replies.filter(({ body }) => body.status === 'completed')).toHaveLength(3);
    const refused = replies.filter(({ status }) => status !== 200);
    for (const reply of refused) expect(refusal(reply)).toEqual(limitOf(limit));
    expect(refused).toHaveLength(7);
    expect(await counted()).toBe(limit);
    expect(await submissions()).toBe(0);
    await leave(7);
    const again = paths.filter((_, index) => replies[index]?.status === 403);
    const after = await Promise.all(again.map((path) => space.api.post(path, outputs)));
    expect(after.map(({ body }) => body.status)).toEqual(again.map(() => 'completed'));
  });

  test('[billing] submissions for one pause share its place: the last one is taken by one, the others come too late', async () => {
    const [path = ''] = await pausedRuns('approve_once', 1);
    const limit = await leave(1);
    const replies = await Promise.all(Array.from({ length: 6 }, () => space.api.post(path, outputs)));
    const codes = replies.map(({ status, body }) => body.error?.code ?? status).sort();
    expect(codes).toEqual([200, ...Array.from({ length: 5 }, () => 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS')]);
    expect(await counted()).toBe(limit);
  });

  test('a submission that was stored and never sent holds its place against other runs for a while, and counts nothing', async () => {
    const [path = '', other = ''] = await pausedRuns('approve_lost', 2);
    const limit = await leave(1);
    // As a process leaves it that ends between the row and the engine.
    const id = path.split('/').at(-2);
    await query(
      `insert into generation_submissions (id, project_id, generation_id, pause, body, created_at)
       values ('lost', $1, $2, 1, '[]', now())`,
      [space.projectId, id],
    );
    const agent = await agentSaying([]);
    const generate = (): Promise<Reply> => space.api.post(at(`/agents/${agent.id}/generate`), saying('go'));
    expect(refusal(await generate())).toEqual(limitOf(limit));
    expect(refusal(await space.api.post(other, outputs))).toEqual(limitOf(limit));
    expect(await counted()).toBe(limit - 1);
    await query(`update generation_submissions set created_at = now() - interval '601 seconds' where id = 'lost'`);
    expect((await generate()).status).toBe(202);
    expect(refusal(await space.api.post(path, outputs))).toEqual(limitOf(limit));
    await leave(1);
    expect((await space.api.post(path, outputs)).body.status).toBe('completed');
    expect(await submissions()).toBe(0);
  });

  test("a member's own plan does not help: the owner's counts", async () => {
    const member = await service.signedIn();
    await service.member(space.projectId, member, 'member');
    await grant(member.userId, 'business');
    const limit = await leave(0);
    const agent = await agentSaying([]);
    const reply = await service.client(member.token).post(at(`/agents/${agent.id}/generate`), saying('go'));
    expect(refusal(reply)).toEqual(limitOf(limit));
  });
});

describe('the turn of the month', () => {
  const turned = billingActivities();
  const past = (month: string): Date => new Date(monthStart(month).getTime() + 10 * DAY_MS);
  const last = monthBefore(monthOf(new Date()));
  const planOf = (userId: string) =>
    queryOne<{ plan: string; next_plan: string | null; lines: string[] }>(
      `select u.plan, u.next_plan, array(select plan || ' ' || coalesce(reason, '') from plan_lines l where l.user_id = u.id order by created_at) as lines
       from users u where u.id = $1`,
      [userId],
    );
  /** A pro account with a downgrade that was granted in a month. */
  const lowering = async (month: string): Promise<string> => {
    const { userId } = await service.signedIn();
    await grantPlan({ userId, plan: 'pro', reason: 'first', retentionDays: null, grantedByUserId: null });
    await grantPlan({ userId, plan: 'free', reason: 'less', retentionDays: null, grantedByUserId: null });
    await query('update users set next_plan_at = $2 where id = $1', [userId, turnOf(month)]);
    return userId;
  };

  beforeEach(async () => {
    await query('delete from month_turns');
    await query('update users set next_plan = null, next_plan_at = null where next_plan is not null');
    await query('update users set created_at = $1 where created_at < $1', [new Date()]);
  });

  test('lowers what waits, once, with a line of its own and the retention of the projects', async () => {
    usePlans({ free: { retention_days: 7 } });
    const userId = await lowering(last);
    const days = [5, 7, 20, null];
    for (const value of days) {
      await query(
        `insert into projects (id, owner_user_id, name, trace_content_retention_days, created_at, updated_at)
         values ('proj_' || substr(md5(random()::text), 1, 16), $1, 'kept', $2, now(), now())`,
        [userId, value],
      );
    }
    expect((await planOf(userId))?.plan).toBe('pro');
    const input = { userId, month: last, step: 'downgrade' as const };
    const moved = await Promise.all([turned.turnAccount(input), turned.turnAccount(input), turned.turnAccount(input)]);
    expect(moved.filter(Boolean)).toHaveLength(1);
    expect(await planOf(userId)).toEqual({ plan: 'free', next_plan: null, lines: ['pro first', 'free less'] });
    const line = await queryOne<{ effective_at: Date }>(
      `select effective_at from plan_lines where user_id = $1 and plan = 'free'`,
      [userId],
    );
    expect(line?.effective_at).toEqual(turnOf(last));
    const kept = await query<{ days: number }>(
      'select trace_content_retention_days as days from projects where owner_user_id = $1 order by 1',
      [userId],
    );
    expect(kept.map((row) => row.days)).toEqual([5, 7, 7, 7]);
  });

  test('leaves what was granted after its moment to the next turn', async () => {
    const userId = await lowering(monthOf(new Date()));
    expect(await lowerPlan(userId, turnOf(last))).toBe(false);
    expect((await planOf(userId))?.plan).toBe('pro');
    expect(await lowerPlan(userId, turnOf(monthOf(new Date())))).toBe(true);
  });

  test('a grant in the same moment either calls the downgrade off or comes after it', async () => {
    const userIds = await Promise.all(Array.from({ length: 8 }, () => lowering(last)));
    await Promise.all(
      userIds.flatMap((userId) => [
        turned.turnAccount({ userId, month: last, step: 'downgrade' }),
        grant(userId, 'business'),
      ]),
    );
    for (const userId of userIds) {
      const account = await planOf(userId);
      expect([account?.plan, account?.next_plan]).toEqual(['business', null]);
      expect([
        ['pro first', 'business '],
        ['pro first', 'free less', 'business '],
      ]).toContainEqual(account?.lines);
    }
  });

  test('a worker that starts makes up for every month that was missed, the oldest first, and a second run changes nothing', async () => {
    const older = monthBefore(last);
    await query('update users set created_at = $2 where id = $1', [owner.userId, past(older)]);
    const userIds = [await lowering(older), await lowering(last), await lowering(monthOf(new Date()))];
    await startMissedTurn();
    const handle = engine().workflow.getHandle(monthTurnId(older));
    await expect(handle.result()).resolves.toEqual({ months: 2, downgrades: 2 });
    const plans = await Promise.all(userIds.map(planOf));
    expect(plans.map((account) => account?.plan)).toEqual(['free', 'free', 'pro']);
    expect(await query('select month from month_turns order by month')).toEqual([{ month: older }, { month: last }]);
    await startMissedTurn();
    await startRun({
      type: 'monthTurn',
      id: 'month-turn/again',
      args: [{}],
      labels: { resourceType: 'month_turn', resourceId: last },
      memo: { trigger: 'tests' },
      mayRepeat: true,
    });
    await expect(engine().workflow.getHandle('month-turn/again').result()).resolves.toEqual({
      months: 0,
      downgrades: 0,
    });
  });

  test('an account after which no month has passed has nothing to turn', async () => {
    await expect(turned.nextTurn({ overAtMs: Date.now() })).resolves.toBeNull();
    // By the engine's clock the month is over already.
    await expect(turned.nextTurn({ overAtMs: turnOf(monthOf(new Date())).getTime() })).resolves.toEqual({
      month: monthOf(new Date()),
      after: '',
    });
  });

  test('the Schedule stands for the first moment of each month, and makes up for a month of absence', async () => {
    await ensureSchedules();
    const description = await eventually(() => engine().schedule.getHandle('month-turn').describe());
    expect(description.action).toMatchObject({ workflowType: 'monthTurn', workflowId: 'month-turn/turn' });
    expect(description.policies).toMatchObject({ overlap: 'SKIP', catchupWindow: 31 * DAY_MS });
    const [next] = description.info.nextActionTimes;
    expect(next).toEqual(turnOf(monthOf(new Date())));
    await engine().schedule.getHandle('month-turn').trigger('SKIP');
    const run = await eventually(async () => {
      for await (const found of engine().workflow.list({ query: 'WorkflowType = "monthTurn"' })) {
        if (found.workflowId.startsWith('month-turn/turn-')) return found;
      }
      throw new Error('not started yet');
    });
    expect(run.typedSearchAttributes.get(searchAttributeKeys.resourceType)).toBe('month_turn');
  });
});
