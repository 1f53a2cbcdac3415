import { once } from 'node:events';
import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { MockActivityEnvironment } from '@temporalio/testing';
import { projectActivities } from '../../src/activities/projects.activities';
import { areas } from '../../src/api/areas';
import { inTransaction, query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { closedWhileArchived } from '../../src/api/core/route';
import { engine, runEnded, startRun } from '../../src/api/core/temporal';
import { markChanged } from '../../src/api/projects/pausing';
import { reconcile } from '../../src/reconcile';
import type { PausePageResult } from '../../src/workflows/projects.contract';
import { buildAgent, buildClientTool, buildHttpTool, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { describeGuard } from '../support/guarded-routes';
import { useWorkspace } from '../support/workspace';

const used = useWorkspace({ project: 'test', receiver: 'test' });
const { service, owner, space, at, agentSaying, receiver } = used;

const codeOf = ({ status, body }: Reply): unknown[] => [status, body.error?.code];
const patch = (body: object): Promise<Reply> => space.api.patch(space.at, body);
const pause = (reason?: string): Promise<Reply> =>
  space.api.post(at('/pause'), reason === undefined ? undefined : { reason });
const resume = (): Promise<Reply> => space.api.post(at('/resume'));
const as = async (role: 'admin' | 'member') => {
  const person = await service.signedIn();
  await service.member(space.projectId, person, role);
  return service.client(person.token);
};
const marker = () =>
  queryOne<{ run_seen_at: Date | null }>('select run_seen_at from project_pauses where project_id = $1', [
    space.projectId,
  ]);
const settledMarker = (): Promise<void> =>
  eventually(
    async () => {
      expect(await marker()).toBeNull();
    },
    { timeoutMs: 10_000 },
  );
const events = (): Promise<{ type: string; data: object }[]> =>
  query(
    `select type, body::json -> 'data' as data from events where project_id = $1 and type like 'project.%'
     order by created_at, id`,
    [space.projectId],
  );
const listening = (): Promise<Reply> =>
  space.api.post(at('/webhooks'), { url: `${receiver.url}/hook`, events: ['project.*'] });

describeGuard(service, [
  ['patch', ''],
  ['delete', ''],
  ['post', '/pause'],
  ['post', '/resume'],
]);

describe('PATCH /v1/projects/{project_id}', () => {
  test('changes what is given and nothing else', async () => {
    const before = (await space.api.get(space.at)).body;
    const change = {
      name: 'renamed',
      guardrail_ids: [],
      default_model_route_id: null,
      max_concurrent_runs: 5,
      max_chain_generations: 20,
      max_orchestration_run_depth: 3,
      audit_reads_enabled: true,
      managed_conversion: false,
      require_priced_model: true,
      trace_content_mode: 'none',
      trace_content_retention_days: 7,
    };
    const changed = await patch(change);
    expect(changed.status).toBe(200);
    const updated = changed.body.updated_at as string;
    expect(changed.body).toEqual({ ...before, ...change, updated_at: updated });
    expect(updated > before.updated_at).toBe(true);
    expect((await space.api.get(space.at)).body).toEqual(changed.body);
    const cleared = await patch({ max_concurrent_runs: null });
    expect(cleared.body).toMatchObject({ max_concurrent_runs: null, max_chain_generations: 20, name: 'renamed' });
    expect((await patch({})).body).toMatchObject({ name: 'renamed', max_chain_generations: 20 });
  });

  test.each([
    ['an empty name', { name: '' }, 'name', 'bad_request'],
    ['a long name', { name: 'x'.repeat(256) }, 'name', 'bad_request'],
    ['an unknown property', { nmae: 'y' }, 'nmae', 'bad_request'],
    ['an idempotency key', { idempotency_key: 'k' }, 'idempotency_key', 'bad_request'],
    ['a pause', { paused_at: null }, 'paused_at', 'bad_request'],
    ['an unknown status', { status: 'paused' }, 'status', 'bad_request'],
    ['no runs at all', { max_concurrent_runs: 0 }, 'max_concurrent_runs', 'bad_request'],
    ['half a chain', { max_chain_generations: 1.5 }, 'max_chain_generations', 'bad_request'],
    [
      'a depth beyond the deployment',
      { max_orchestration_run_depth: 11 },
      'max_orchestration_run_depth',
      'bad_request',
    ],
    ['a flag that is null', { managed_conversion: null }, 'managed_conversion', 'bad_request'],
    ['no days', { trace_content_retention_days: 0 }, 'trace_content_retention_days', 'bad_request'],
    ['a foreign guardrail', { guardrail_ids: ['grd_0000000000000000'] }, 'guardrail_ids.0', 'GUARDRAIL_NOT_FOUND'],
    [
      'a foreign route',
      { default_model_route_id: 'route_0000000000000000' },
      'default_model_route_id',
      'MODEL_ROUTE_NOT_FOUND',
    ],
  ])('refuses %s and changes nothing', async (_case, body, path, code) => {
    const before = (await space.api.get(space.at)).body;
    expect(await patch(body)).toMatchObject({ status: 400, body: { error: { code, details: [{ path }] } } });
    expect((await space.api.get(space.at)).body).toEqual(before);
  });

  test('settings need an admin, the status the owner', async () => {
    const [admin, member] = [await as('admin'), await as('member')];
    const refused = (role: string) => ({
      status: 403,
      body: { error: { code: 'access_denied', details: { required_role: role } } },
    });
    expect(await member.patch(space.at, { name: 'x' })).toMatchObject(refused('admin'));
    expect(await admin.patch(space.at, { name: 'by an admin' })).toMatchObject({
      status: 200,
      body: { name: 'by an admin', role: 'admin' },
    });
    expect(await admin.patch(space.at, { name: 'y', status: 'archived' })).toMatchObject(refused('owner'));
    expect((await space.api.get(space.at)).body).toMatchObject({ name: 'by an admin', status: 'active' });
  });
});

describe('an archived project', () => {
  test('refuses every change by its routes, but to be made active or deleted', async () => {
    expect((await patch({ status: 'archived' })).body).toMatchObject({ status: 'archived', paused_at: null });
    const ofProject = areas.filter(({ needs, method }) => needs.kind === 'project' && method !== 'get');
    const open = ofProject.filter((route) => !closedWhileArchived(route));
    expect(open.map(({ id }) => id).sort()).toEqual(['deleteProject', 'updateProject']);
    for (const { id, method, path, fails, body } of ofProject.filter((route) => !open.includes(route))) {
      expect([id, fails]).toEqual([id, expect.arrayContaining(['PROJECT_ARCHIVED'])]);
      if (body !== undefined && !body.safeParse({}).success) continue; // Its input would be refused first.
      const full = path
        .replace(':project_id', space.projectId)
        .replaceAll('\\:', '\0')
        .replace(/:version\b/, '1')
        .replace(/:([a-z_]+)/g, (_all, name: string) => idFor(name))
        .replaceAll('\0', ':');
      expect([id, ...codeOf(await space.api[method as 'delete'](full))]).toEqual([id, 409, 'PROJECT_ARCHIVED']);
    }
    expect(codeOf(await space.api.post(at('/agents'), { name: 'x', ai_provider_id: space.providerId }))).toEqual([
      409,
      'PROJECT_ARCHIVED',
    ]);
    expect(codeOf(await space.api.post(at('/agents'), { name: 1 }))).toEqual([400, 'VALIDATION_FAILED']);
    expect(codeOf(await patch({ name: 'x' }))).toEqual([409, 'PROJECT_ARCHIVED']);
    expect(codeOf(await patch({ status: 'archived' }))).toEqual([409, 'PROJECT_ARCHIVED']);
  });

  test('is read, and made active by its owner with other changes at once', async () => {
    await buildAgent(space);
    await patch({ status: 'archived' });
    await settledMarker();
    expect((await space.api.get(at('/agents'))).body.total).toBe(1);
    expect((await space.api.get('/v1/projects?status=archived&limit=1')).body.data).toMatchObject([
      { id: space.projectId },
    ]);
    expect((await patch({ status: 'active', name: 'again' })).body).toMatchObject({ status: 'active', name: 'again' });
    await settledMarker();
    expect(await runEnded(`pause/${space.projectId}`, 5_000)).toBe(true);
    await expect(buildAgent(space)).resolves.toBeDefined();
  });

  test('a settings change that comes with an archiving sees it or is before it', async () => {
    const answers = await Promise.all([patch({ status: 'archived' }), patch({ name: 'one' }), patch({ name: 'two' })]);
    expect(answers[0].status).toBe(200);
    for (const answer of answers.slice(1)) {
      expect([200, 409]).toContain(answer.status);
      if (answer.status === 409) expect(answer.body.error.code).toBe('PROJECT_ARCHIVED');
    }
    expect((await space.api.get(space.at)).body.status).toBe('archived');
    await patch({ status: 'active' });
  });
});

/** An identifier of the right form for a path parameter, so that its own check is passed. */
function idFor(name: string): string {
  const kinds: Record<string, Parameters<typeof newId>[0]> = {
    agent_id: 'agent',
    tool_id: 'tool',
    secret_id: 'secret',
    ai_provider_id: 'aiProvider',
    generation_id: 'generation',
    trace_id: 'trace',
    webhook_id: 'webhook',
    delivery_id: 'delivery',
    webhook_delivery_id: 'delivery',
    member_id: 'member',
  };
  const kind = kinds[name];
  if (kind === undefined) throw new Error(`name the kind of id of :${name}`);
  return newId(kind);
}

describe('pause and resume', () => {
  test('[projects 5] [events 5] the first pause counts, with one event; resume clears both, a second one is refused', async () => {
    await listening();
    const first = await pause('budget spent');
    expect(first).toMatchObject({
      status: 200,
      body: { pause_reason: 'budget spent', status: 'active', role: 'owner' },
    });
    const pausedAt = first.body.paused_at as string;
    expect(Math.abs(Date.parse(pausedAt) - Date.now())).toBeLessThan(10_000);
    const again = await pause('another');
    expect(again).toMatchObject({ status: 200, body: first.body });
    const told = { project_id: space.projectId, paused_at: pausedAt, pause_reason: 'budget spent' };
    expect(await events()).toEqual([{ type: 'project.paused', data: told }]);
    await settledMarker();

    expect(await resume()).toMatchObject({ status: 200, body: { paused_at: null, pause_reason: null } });
    const cleared = { project_id: space.projectId, paused_at: null, pause_reason: null };
    expect(await events()).toEqual([
      { type: 'project.paused', data: told },
      { type: 'project.resumed', data: cleared },
    ]);
    expect(codeOf(await resume())).toEqual([409, 'PROJECT_NOT_PAUSED']);
    expect(await events()).toHaveLength(2);
    await eventually(() => {
      const sent = receiver.requests.map(({ body }) => JSON.parse(body) as { type: string; resource_id: string });
      expect(sent.map(({ type }) => type).sort()).toEqual(['project.paused', 'project.resumed']);
      expect(sent[0]!.resource_id).toBe(space.projectId);
    });
    await settledMarker();
  });

  test('pauses at once make one event, and resumes at once one', async () => {
    await listening();
    const paused = await Promise.all(['a', 'b', 'c', 'd'].map((reason) => pause(reason)));
    expect(
      new Set(paused.map(({ status, body }) => JSON.stringify([status, body.pause_reason, body.paused_at]))).size,
    ).toBe(1);
    expect(await events()).toHaveLength(1);
    const resumed = await Promise.all([resume(), resume(), resume()]);
    expect(resumed.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    expect(await events()).toHaveLength(2);
    await settledMarker();
  });

  test('need an admin; take a reason of up to 256 characters, or none', async () => {
    const [admin, member] = [await as('admin'), await as('member')];
    for (const path of ['/pause', '/resume']) {
      expect(await member.post(at(path))).toMatchObject({
        status: 403,
        body: { error: { code: 'access_denied', details: { required_role: 'admin' } } },
      });
    }
    for (const [body, path] of [
      [{ reason: 'x'.repeat(257) }, 'reason'],
      [{ reason: 1 }, 'reason'],
      [{ why: 'x' }, 'why'],
    ] as const) {
      expect(await admin.post(at('/pause'), body)).toMatchObject({
        status: 400,
        body: { error: { code: 'bad_request', details: [{ path }] } },
      });
    }
    expect((await admin.post(at('/pause'))).body).toMatchObject({ pause_reason: null, role: 'admin' });
    expect((await admin.post(at('/resume'))).body).toMatchObject({ paused_at: null });
    const long = await admin.post(at('/pause'), { reason: 'x'.repeat(256) });
    expect(long.body.pause_reason).toHaveLength(256);
    expect(codeOf(await admin.post(at('/resume'), { reason: 'x' }))).toEqual([400, 'bad_request']);
  });

  test('[projects 4] nothing starts meanwhile: runs in every mode, outputs, direct calls; all of it again afterwards', async () => {
    const ask = await buildClientTool(space, { name: 'ask' });
    const http = await buildHttpTool(space, `${receiver.url}/thing`);
    const asking = { toolCalls: [{ id: 'c1', name: 'ask', args: { order_id: '1' } }] };
    const agent = await agentSaying([asking, { text: 'done' }, { text: 'more' }], {
      tool_bindings: [{ tool_id: ask.id }],
    });
    const path = at(`/agents/${agent.id}/generate`);
    const waiting = await space.api.post(`${path}?wait=true`, saying('go', { idempotency_key: 'known' }));
    expect(waiting.body.status).toBe('requires_action');
    await pause('spent');

    const outputs = { tool_outputs: [{ tool_call_id: 'c1', output: 1 }] };
    const submission = at(`/agents/${agent.id}/generate/${waiting.body.id as string}/tool-outputs`);
    const starts = [
      () => space.api.post(path, saying('x')),
      () => space.api.post(`${path}?wait=true`, saying('x')),
      () => space.api.post(path, { ...saying('x'), stream: true }),
      () => space.api.post(submission, outputs),
      () => space.api.post(at(`/tools/${http.id}/call`), { input: { order_id: '1' } }),
    ];
    for (const start of starts) {
      expect(await start()).toMatchObject({
        status: 409,
        body: { error: { code: 'PROJECT_PAUSED', meta: { pause_reason: 'spent' } } },
      });
    }
    expect((await space.api.get(at('/generations'))).body.total).toBe(1);
    expect(await query('select id from generation_submissions where generation_id = $1', [waiting.body.id])).toEqual(
      [],
    );
    expect(receiver.requests).toEqual([]);
    // What is no start goes on: reads, configuration, and the answer that a key already has.
    expect((await space.api.patch(at(`/agents/${agent.id}`), { name: 'renamed' })).status).toBe(200);
    expect((await space.api.post(path, saying('go', { idempotency_key: 'known' }))).status).toBe(202);

    await resume();
    expect((await space.api.post(submission, outputs)).body).toMatchObject({ status: 'completed' });
    expect((await space.api.post(`${path}?wait=true`, saying('x'))).status).toBe(200);
    expect((await space.api.post(at(`/tools/${http.id}/call`), { input: { order_id: '1' } })).status).toBe(200);
  });

  test('a start whose body comes after the pause is refused too', async () => {
    const agent = await agentSaying([]);
    const body = JSON.stringify(saying('go'));
    const sent = request(`${service.baseUrl}${at(`/agents/${agent.id}/generate`)}`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${owner.token}`,
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
      },
    });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    sent.write(body.slice(0, 5));
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await pause('spent');
    sent.end(body.slice(5));
    const [answer] = await answered;
    answer.resume();
    expect(answer.statusCode).toBe(409);
    expect((await space.api.get(at('/generations'))).body.total).toBe(0);
  });

  test('work that executes finishes', async () => {
    const agent = await agentSaying([{ text: 'late', hold: 'paused-meanwhile' }]);
    const begun = await space.api.post(at(`/agents/${agent.id}/generate`), saying('go'));
    await used.server.waitForCall({ generationId: begun.body.id as string });
    await pause();
    used.server.release('paused-meanwhile');
    await eventually(async () => {
      expect((await space.api.get(at(`/generations/${begun.body.id as string}`))).body.status).toBe('completed');
    });
  });
});

describe('the run of a pause', () => {
  const held = (rows: Record<string, string[]>, seen: string[]) =>
    Object.entries(rows).map(([name, ids]) => ({
      name,
      bring: ({ runs }: { runs: boolean }, after: string | null, limit: number): Promise<string[]> => {
        const page = ids.filter((id) => after === null || id > after).slice(0, Math.min(limit, 2));
        seen.push(...page.map((id) => `${id} ${runs ? 'on' : 'off'}`));
        return Promise.resolve(page);
      },
    }));
  const committed = (change: string): Promise<void> =>
    inTransaction(async (tx) => {
      await query(`update projects set ${change} where id = $1`, [space.projectId], tx);
      await markChanged(space.projectId, tx);
    });

  test('goes through every kind page by page, and begins again when the row changes meanwhile', async () => {
    const seen: string[] = [];
    const { pausePage } = projectActivities({ held: held({ runs: ['a1', 'a2', 'a3'], schedules: ['b1'] }, seen) });
    const page = (place: PausePageResult['place']): Promise<PausePageResult> =>
      new MockActivityEnvironment().run(pausePage, { projectId: space.projectId, place });
    await committed('paused_at = now()');
    const first = await page(null);
    expect(first).toMatchObject({ changed: 2, place: { after: { kind: 'runs', id: 'a2' } } });
    expect(await page(first.place)).toEqual(await page(first.place)); // Repeated, it comes to the same.
    expect((await marker())!.run_seen_at).not.toBeNull();
    await committed('paused_at = null');
    expect((await marker())!.run_seen_at).toBeNull();
    seen.length = 0;
    let at = first.place;
    for (let pages = 0; at !== null && pages < 9; pages += 1) ({ place: at } = await page(at));
    expect(seen).toEqual(['a1 on', 'a2 on', 'a3 on', 'b1 on']);
    expect(await marker()).toBeNull();
    expect(await page(null)).toEqual({ changed: 0, place: null });
  });

  test('[engine 2] a start that was lost is made by the sweep, one lost in its midst by the comparison', async () => {
    await committed('paused_at = now()');
    await query(`update project_pauses set changed_at = now() - interval '1 hour' where project_id = $1`, [
      space.projectId,
    ]);
    const id = `sweep/tests/${newId('event')}`;
    const labels = { resourceType: 'sweep', resourceId: id };
    const args = [{ kinds: ['project_pauses'] }];
    await startRun({ type: 'sweepStarts', id, args, labels, memo: { trigger: 'test' } });
    await engine().workflow.getHandle(id).result();
    await settledMarker();
    await committed('paused_at = null');
    await query('update project_pauses set run_seen_at = now() where project_id = $1', [space.projectId]);
    await reconcile();
    await settledMarker();
  });
});

describe('require_priced_model', () => {
  test('refuses a model without a price that counts now, and runs one that has some', async () => {
    await patch({ require_priced_model: true });
    const agent = await agentSaying([{ text: 'paid' }, { text: 'paid' }]);
    const model = (await space.api.get(at(`/agents/${agent.id}`))).body.model as string;
    const path = at(`/agents/${agent.id}/generate`);
    const refused = {
      status: 409,
      body: { error: { code: 'MODEL_NOT_PRICED', meta: { ai_provider_id: space.providerId, model } } },
    };
    const price = (given: object): Promise<Reply> =>
      space.api.put(at(`/ai-providers/${space.providerId}/prices`), {
        prices: [{ model, component: 'input_tokens', unit: 'token', unit_price: 0.000001, ...given }],
      });
    for (const body of [saying('x'), { ...saying('x'), stream: true }]) {
      expect(await space.api.post(path, body)).toMatchObject(refused);
    }
    expect(await space.api.post(`${path}?wait=true`, saying('x'))).toMatchObject(refused);
    expect((await price({ model: 'another' })).status).toBe(200);
    expect((await price({ component: 'reasoning_tokens' })).status).toBe(200);
    expect((await price({ effective_from: new Date(Date.now() + 3_600_000).toISOString() })).status).toBe(200);
    expect(await space.api.post(path, saying('x'))).toMatchObject(refused);
    expect((await space.api.get(at('/generations'))).body.total).toBe(0);
    await price({ component: 'output_tokens' });
    const ran = await space.api.post(`${path}?wait=true`, saying('x', { idempotency_key: 'priced' }));
    expect(ran).toMatchObject({ status: 200, body: { status: 'completed' } });
  });

  test('a price of the project or of the platform for the vendor counts too, that of another project does not', async () => {
    await patch({ require_priced_model: true });
    const elsewhere = await service.project(owner);
    const priced = (projectId: string | null, provider: string, model: string) =>
      query(
        `insert into prices (id, project_id, meter_type, provider, model, component, unit, unit_price, effective_from, created_at)
         values ($1, $2, 'llm_tokens', $3, $4, 'input_tokens', 'token', 0, now(), now())`,
        [newId('price'), projectId, provider, model],
      );
    const asks = async (model: string): Promise<number> => {
      used.server.script(model, [{ text: 'ok' }]);
      const agent = await buildAgent(space, { model });
      return (await space.api.post(at(`/agents/${agent.id}/generate?wait=true`), saying('x'))).status;
    };
    const [own, platform, foreign, vendor] = ['own', 'platform', 'foreign', 'vendor'].map(
      (name) => `${space.model}-${name}`,
    );
    await priced(space.projectId, 'custom', own!);
    await priced(null, 'custom', platform!);
    await priced(elsewhere.id, 'custom', foreign!);
    await priced(null, 'openai', vendor!);
    expect([await asks(own!), await asks(platform!), await asks(foreign!), await asks(vendor!)]).toEqual([
      200, 200, 409, 409,
    ]);
  });
});
