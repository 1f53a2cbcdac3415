import { config } from '../../src/api/core/config';
import { inTransaction, query } from '../../src/api/core/db';
import { engine, runEnded, startRun } from '../../src/api/core/temporal';
import { newId } from '../../src/api/core/ids';
import { purgeGeneration } from '../../src/api/generations/purge';
import { firstAttempts } from '../../src/api/webhooks/first-attempts';
import { CONTENT_TABLES } from '../../src/workflows/sweeps.contract';
import { buildClientTool, buildHttpTool, saying } from '../support/builders';
import type { Reply } from '../support/client';
import { eventually } from '../support/eventually';
import { describeGuard } from '../support/guarded-routes';
import { age, hang, layTrace, tablesHolding } from '../support/traces';
import { useWorkspace } from '../support/workspace';

// Before the service's own ending, which closes the database and the engine.
afterAll(() => firstAttempts.drain(1_000));

const { service, owner, space, server, receiver, at, agentSaying } = useWorkspace({ project: 'test' });

beforeEach(() => {
  Object.assign(config(), { WEBHOOK_BACKOFF_BASE_SECONDS: 0.3 });
});

const get = (path: string): Promise<Reply> => space.api.get(at(path));
const purge = (path: string): Promise<Reply> => space.api.delete(at(`${path}/content`));
const STAMP = {
  content_redacted_at: expect.stringMatching(/Z$/) as string,
  content_redacted_by_principal_type: 'user',
};
const UNSTAMPED = { content_redacted_at: null, content_redacted_by_principal_type: null };

const generate = (agentId: string, message = 'go', more: object = {}): Promise<Reply> =>
  space.api.post(at(`/agents/${agentId}/generate?wait=true`), saying(message, more));

const ran = async (text = 'done', more: object = {}): Promise<{ id: string; trace_id: string }> =>
  (await generate((await agentSaying([{ text }])).id, 'go', more)).body;

/** A run that stands at a call of its caller's. */
const paused = async (): Promise<{ id: string; trace_id: string; agentId: string; submit: () => Promise<Reply> }> => {
  const tool = await buildClientTool(space, { name: `ask_${newId('tool').slice(5, 12)}` });
  const agent = await agentSaying(
    [{ toolCalls: [{ id: 'c1', name: tool.name, args: { order_id: '7' } }] }, { text: 'end' }],
    { tool_bindings: [{ tool_id: tool.id }] },
  );
  const { body } = await generate(agent.id);
  expect(body.status).toBe('requires_action');
  const path = at(`/agents/${agent.id}/generate/${String(body.id)}/tool-outputs`);
  const submit = () => space.api.post(path, { tool_outputs: [{ tool_call_id: 'c1', output: 1 }] });
  return { ...body, agentId: agent.id, submit };
};

const GENERATION = '/generations/gen_0000000000000000';
describeGuard(service, [
  ['patch', GENERATION, { metadata: {} }],
  ['delete', `${GENERATION}/content`],
]);

describe('metadata', () => {
  test('is merged name by name; a value is replaced as a whole', async () => {
    const { id } = await ran('x', { metadata: { a: { deep: 1 }, b: 2 } });
    const changed = await space.api.patch(at(`/generations/${id}`), { metadata: { a: { other: true }, c: null } });
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({ id, metadata: { a: { other: true }, b: 2, c: null }, status: 'completed' });
    expect(changed.body.metadata.a).toEqual({ other: true });
    expect((await get(`/generations/${id}`)).body).toEqual(changed.body);
  });

  test('may be given to a run that had none, while it waits too', async () => {
    const { id, submit } = await paused();
    const changed = await space.api.patch(at(`/generations/${id}`), { metadata: { note: 'x' } });
    expect(changed.body).toMatchObject({ metadata: { note: 'x' }, status: 'requires_action' });
    expect(changed.body.required_action.tool_calls).toHaveLength(1);
    await submit();
    expect((await get(`/generations/${id}`)).body.metadata).toEqual({ note: 'x' });
  });

  test('of two changes at once neither is lost', async () => {
    const { id } = await ran();
    const names = ['a', 'b', 'c', 'd', 'e'];
    await Promise.all(names.map((name) => space.api.patch(at(`/generations/${id}`), { metadata: { [name]: 1 } })));
    expect(Object.keys((await get(`/generations/${id}`)).body.metadata).sort()).toEqual(names);
  });

  test.each([
    ['none', {}, 'metadata'],
    ['no object', { metadata: 'x' }, 'metadata'],
    ['null', { metadata: null }, 'metadata'],
    ['an unknown property', { metadata: {}, status: 'failed' }, 'status'],
  ])('%s is refused, naming the field', async (_name, body, path) => {
    const { id } = await ran();
    const reply = await space.api.patch(at(`/generations/${id}`), body);
    expect([reply.status, reply.body.error.code]).toEqual([400, 'VALIDATION_FAILED']);
    expect(reply.body.error.details[0].path).toBe(path);
  });

  test('does not grow beyond what one request may carry', async () => {
    const { id } = await ran();
    const half = 'x'.repeat(600_000);
    expect((await space.api.patch(at(`/generations/${id}`), { metadata: { a: half } })).status).toBe(200);
    const reply = await space.api.patch(at(`/generations/${id}`), { metadata: { b: half } });
    expect([reply.status, reply.body.error.details[0].path]).toEqual([400, 'metadata']);
  });

  test('of an unknown generation is not found', async () => {
    expect((await space.api.patch(at(GENERATION), { metadata: {} })).status).toBe(404);
    expect((await space.api.patch(at('/generations/x'), { metadata: {} })).status).toBe(404);
  });
});

describe('filters', () => {
  test('a list names the runs that one started; what no run belongs to yet finds none', async () => {
    const caller = await ran();
    const called = await ran();
    await query('update generations set initiator_generation_id = $2 where id = $1', [called.id, caller.id]);
    const { body } = await get(`/generations?initiator_generation_id=${caller.id}`);
    expect(body.total).toBe(1);
    expect(body.data[0]).toMatchObject({ id: called.id, initiator_generation_id: caller.id });
    for (const name of ['session_id', 'actor_id', 'chain_id', 'orchestration_run_id', 'node_id']) {
      const none = await get(`/generations?${name}=x`);
      expect([name, none.status, none.body.total, none.body.data]).toEqual([name, 200, 0, []]);
    }
  });
});

describe('the purge of a generation', () => {
  const CANARY = 'KANARIENVOGEL';

  test('leaves its record and counts, and its content in no table', async () => {
    const lookup = await buildHttpTool(space, `${receiver.url}/purged/{order_id}`, { name: 'lookup' });
    const ask = await buildClientTool(space, { name: 'ask' });
    receiver.respond({ status: 200, body: { found: `${CANARY}-result` } }, `/purged/${CANARY}`);
    const agent = await agentSaying(
      [
        { toolCalls: [{ id: 'c1', name: 'lookup', args: { order_id: CANARY } }] },
        { text: `${CANARY}-text`, toolCalls: [{ id: 'c2', name: 'ask', args: { order_id: CANARY } }] },
        { text: `${CANARY}-end` },
      ],
      { tool_bindings: [{ tool_id: lookup.id }, { tool_id: ask.id }] },
    );
    const started = await generate(agent.id, `${CANARY}-prompt`, {
      metadata: { note: CANARY },
      idempotency_key: 'k1',
      action_id: 'label',
    });
    const id = started.body.id as string;
    const outputs = {
      tool_outputs: [{ tool_call_id: 'c2', output: `${CANARY}-output` }],
      idempotency_key: 'k2',
    };
    const path = at(`/agents/${agent.id}/generate/${id}/tool-outputs`);
    expect((await space.api.post(path, outputs)).body.output.content).toBe(`${CANARY}-end`);
    expect(await tablesHolding(CANARY)).not.toEqual([]);
    const before = (await get(`/generations/${id}`)).body;

    const { status, body } = await purge(`/generations/${id}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      ...before,
      ...STAMP,
      content_redacted_by_principal_id: owner.userId,
      metadata: null,
      error: null,
      extraction: null,
      updated_at: body.content_redacted_at,
    });
    expect(body).toMatchObject({ step_count: 3, action_id: 'label', stop_reason: 'stop' });
    expect(body.usage.output_tokens).toBeGreaterThan(0);
    expect(await tablesHolding(CANARY)).toEqual([]);

    const transcript = (await get(`/generations/${id}/transcript`)).body;
    expect(transcript).toMatchObject({ input: null, steps: [], output: null, error: null, step_count: 3, ...STAMP });
    expect((await get(`/traces/${body.trace_id}/steps`)).body).toMatchObject({ total: 0, data: [] });
    const counts = await query<{ step: number; output_tokens: string }>(
      'select step, output_tokens from generation_steps where generation_id = $1 order by step',
      [id],
    );
    expect(counts.map(({ step }) => step)).toEqual([1, 2, 3]);

    // What a key was used for is remembered without content.
    const again = await generate(agent.id, `${CANARY}-prompt`, {
      metadata: { note: CANARY },
      idempotency_key: 'k1',
      action_id: 'label',
    });
    expect([again.status, again.body.status, again.body.id]).toEqual([202, 'completed', id]);
    expect(again.body).not.toHaveProperty('output');
    const submitted = await space.api.post(path, outputs);
    expect([submitted.status, submitted.body.status]).toEqual([200, 'completed']);
    expect(submitted.body).not.toHaveProperty('output');
  });

  test('of a failed one removes its error, from its trace too', async () => {
    const agent = await agentSaying([{ status: 404, body: { error: { message: 'secret of the model' } } }]);
    const { generation_id: id, trace_id: traceId } = (await generate(agent.id)).body.error.meta;
    const { body } = await purge(`/generations/${id}`);
    expect(body).toMatchObject({ status: 'failed', stop_reason: 'error', error: null, ...STAMP });
    expect((await get(`/generations/${id}/transcript`)).body).toMatchObject({ error: null, ...STAMP });
    expect((await get(`/traces/${traceId}`)).body).toMatchObject({ error: null, ...UNSTAMPED });
  });

  test('is repeatable: the first stamp stays, and names the key that asked', async () => {
    const { id } = await ran();
    const key = await service.apiKey(owner);
    const first = await service.client(key).delete(at(`/generations/${id}/content`));
    expect(first.body).toMatchObject({ content_redacted_by_principal_type: 'api_key' });
    expect(first.body.content_redacted_by_principal_id).toMatch(/^key_/);
    expect((await purge(`/generations/${id}`)).body).toEqual(first.body);
  });

  test('afterwards its metadata cannot be changed', async () => {
    const { id } = await ran();
    await purge(`/generations/${id}`);
    const reply = await space.api.patch(at(`/generations/${id}`), { metadata: { a: 1 } });
    expect([reply.status, reply.body.error]).toEqual([
      409,
      expect.objectContaining({ code: 'GENERATION_CONTENT_UNAVAILABLE', meta: { generation_id: id } }),
    ]);
  });

  test('is refused while it runs or waits, and nothing is lost', async () => {
    const waiting = await paused();
    const held = await agentSaying([{ text: 'x', hold: 'purge-running' }]);
    const running = (await space.api.post(at(`/agents/${held.id}/generate`), saying('go'))).body;
    for (const id of [waiting.id, running.id]) {
      const reply = await purge(`/generations/${String(id)}`);
      expect([reply.status, reply.body.error.code]).toEqual([409, 'GENERATION_IN_PROGRESS']);
      expect(reply.body.error.meta).toEqual({ generation_id: id });
    }
    server.release('purge-running');
    expect((await waiting.submit()).body).toMatchObject({ status: 'completed', output: { content: 'end' } });
  });

  test('of an unknown one is not found, nor one of another project', async () => {
    const { id } = await ran();
    const other = await service.project(owner);
    expect((await purge(GENERATION)).status).toBe(404);
    expect((await space.api.delete(`/v1/projects/${other.id}/generations/${id}/content`)).status).toBe(404);
    expect((await get(`/generations/${id}`)).body).toMatchObject(UNSTAMPED);
  });
});

describe('the events of what is purged', () => {
  const hook = async (path: string): Promise<string> => {
    const webhook = await space.api.post(at('/webhooks'), { url: `${receiver.url}${path}`, events: ['generation.*'] });
    expect(webhook.status).toBe(201);
    return webhook.body.id as string;
  };
  const deliveries = () =>
    query<{ id: string; status: string }>(
      'select d.id, d.status from webhook_deliveries d where d.project_id = $1 order by d.id',
      [space.projectId],
    );
  const delivered = (count: number) =>
    eventually(
      async () => {
        const rows = await deliveries();
        expect(rows.map(({ status }) => status)).toEqual(Array.from({ length: count }, () => 'success'));
        return rows;
      },
      { timeoutMs: 10_000 },
    );
  const gone = () =>
    eventually(
      async () => {
        expect(await deliveries()).toEqual([]);
        expect(await query('select id from events where project_id = $1', [space.projectId])).toEqual([]);
      },
      { timeoutMs: 15_000 },
    );

  test('go with their settled deliveries; those of others stay', async () => {
    await hook('/settled');
    await ran('other');
    const { id } = await ran('purged');
    const rows = await delivered(2);
    await purge(`/generations/${id}`);
    const left = await deliveries();
    expect(left).toHaveLength(1);
    const lost = rows.find((row) => row.id !== left[0]?.id);
    expect((await get(`/webhook-deliveries/${String(lost?.id)}`)).status).toBe(404);
    expect(await query('select id from events where resource_id = $1', [id])).toEqual([]);
  });

  test('a pending delivery goes out first, and then goes with its event', async () => {
    await hook('/pending');
    receiver.respond([{ status: 500 }, { status: 500 }, { status: 200 }], '/pending');
    const { id } = await ran('purged');
    await receiver.waitFor(({ path }) => path === '/pending');
    await purge(`/generations/${id}`);
    expect((await deliveries()).map(({ status }) => status)).toEqual(['pending']);
    await gone();
    const sent = receiver.requests.filter(({ path }) => path === '/pending');
    expect(sent).toHaveLength(3);
    expect(JSON.parse(sent[2]!.body)).toMatchObject({ type: 'generation.completed', resource_id: id });
  });

  test('a pending delivery that cannot be sent any more goes as well', async () => {
    const webhook = await hook('/switched-off');
    receiver.respond({ status: 500 }, '/switched-off');
    const { id } = await ran('purged');
    await receiver.waitFor(({ path }) => path === '/switched-off');
    await purge(`/generations/${id}`);
    await space.api.patch(at(`/webhooks/${webhook}`), { active: false });
    await gone();
  });

  test('of two deliveries under way when the content goes, the later one takes the event along', async () => {
    await hook('/slow-a');
    await hook('/slow-b');
    receiver.respond({ status: 200, hold: 'slow-a' }, '/slow-a');
    receiver.respond({ status: 200, hold: 'slow-b' }, '/slow-b');
    const { id } = await ran('purged');
    await receiver.waitFor(({ path }) => path === '/slow-a');
    await receiver.waitFor(({ path }) => path === '/slow-b');
    await purge(`/generations/${id}`);
    expect(await deliveries()).toHaveLength(2);
    receiver.release('slow-a');
    await eventually(async () => {
      expect(await deliveries()).toHaveLength(1);
    });
    receiver.release('slow-b');
    await gone();
  });

  test('a settlement that holds the event at that moment is waited for, and taken along', async () => {
    await hook('/race');
    receiver.respond({ status: 200, hold: 'race' }, '/race');
    const { id } = await ran('purged');
    await receiver.waitFor(({ path }) => path === '/race');
    const [event] = await query<{ id: string }>('select id from events where resource_id = $1', [id]);
    const begun = { purge: Promise.resolve() };
    await inTransaction(async (tx) => {
      await query('select id from events where id = $1 for update', [event!.id], tx);
      begun.purge = purgeGeneration(space.projectId, id, { type: 'user', id: owner.userId }).then(() => undefined);
      await eventually(async () => {
        const [waiting] = await query<{ count: number }>(
          `select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
        expect(waiting?.count).toBeGreaterThanOrEqual(1);
      });
      await query(
        `update webhook_deliveries set status = 'success', attempts = 1 where event_id = $1`,
        [event!.id],
        tx,
      );
    });
    await begun.purge;
    await gone();
    receiver.release('race');
  });

  test('one that is sent again at that moment is sent, or was not found', async () => {
    await hook('/again');
    for (let round = 0; round < 5; round += 1) {
      const { id } = await ran('purged');
      const [delivery] = await delivered(1);
      const [again, removed] = await Promise.all([
        space.api.post(at(`/webhook-deliveries/${delivery!.id}:redeliver`)),
        purge(`/generations/${id}`),
      ]);
      expect(removed.status).toBe(200);
      expect([202, 201, 200, 404]).toContain(again.status);
      await gone();
    }
  });
});

describe('the purge of a trace', () => {
  const tree = async () => {
    const [a, b, c] = await Promise.all([ran('A'), ran('B'), ran('C')]);
    await hang(b.trace_id, a.trace_id, a.trace_id);
    await hang(c.trace_id, b.trace_id, a.trace_id);
    return [a, b, c] as const;
  };
  const traceOf = async (made: { trace_id: string }) => (await get(`/traces/${made.trace_id}`)).body;
  const recordOf = async (made: { id: string }) => (await get(`/generations/${made.id}`)).body;

  test('[traces 5] removes the content of the whole subtree, keeps the counts, and keeps the first stamp', async () => {
    const all = await tree();
    const [a] = all;
    const usages = (await Promise.all(all.map(recordOf))).map(({ usage }) => usage);
    const { status, body } = await purge(`/traces/${a.trace_id}`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: a.trace_id, step_count: 1, ...STAMP });
    const traces = await Promise.all(all.map(traceOf));
    const records = await Promise.all(all.map(recordOf));
    for (const row of [...traces, ...records]) {
      expect(row).toMatchObject({ ...STAMP, content_redacted_by_principal_id: owner.userId, step_count: 1 });
    }
    expect(records.map(({ usage }) => usage)).toEqual(usages);
    for (const { trace_id: id } of all) expect((await get(`/traces/${id}/steps`)).body.data).toEqual([]);
    const skeleton = (await get(`/traces/${a.trace_id}/tree?include=generations`)).body;
    expect(skeleton.children[0].children[0].generations).toEqual([records[2]]);

    const key = await service.apiKey(owner);
    const second = await service.client(key).delete(at(`/traces/${a.trace_id}/content`));
    expect([second.status, second.body.content_redacted_at]).toEqual([200, body.content_redacted_at]);
    expect(second.body.content_redacted_by_principal_type).toBe('user');
    expect(await Promise.all(all.map(recordOf))).toEqual(records);
  });

  test('leaves what stands above and beside the trace, and removes its error', async () => {
    const [a, b, c] = await tree();
    const agent = await agentSaying([{ status: 404 }]);
    const failed = (await generate(agent.id)).body.error.meta as { trace_id: string };
    await hang(failed.trace_id, b.trace_id, a.trace_id);
    const beside = await ran('beside');
    await hang(beside.trace_id, a.trace_id, a.trace_id);
    expect((await purge(`/traces/${b.trace_id}`)).status).toBe(200);
    for (const made of [b, c, failed]) expect(await traceOf(made)).toMatchObject({ ...STAMP, error: null });
    for (const made of [a, beside]) expect(await traceOf(made)).toMatchObject(UNSTAMPED);
    expect((await purge(`/traces/${a.trace_id}`)).status).toBe(200);
    expect(await traceOf(beside)).toMatchObject(STAMP);
  });

  test('is refused while a generation below it runs or waits; afterwards it is done', async () => {
    const [a, , c] = await tree();
    const waiting = await paused();
    await hang(waiting.trace_id, c.trace_id, a.trace_id);
    const reply = await purge(`/traces/${a.trace_id}`);
    expect([reply.status, reply.body.error]).toEqual([
      409,
      expect.objectContaining({ code: 'GENERATION_IN_PROGRESS', meta: { generation_id: waiting.id } }),
    ]);
    expect(await traceOf(c)).toMatchObject(UNSTAMPED);
    await waiting.submit();
    expect((await purge(`/traces/${a.trace_id}`)).status).toBe(200);
    expect(await recordOf(waiting)).toMatchObject(STAMP);
  });

  test('removes a turn that came after an earlier purge; the trace keeps its first stamp', async () => {
    const first = await ran('first');
    const { body } = await purge(`/traces/${first.trace_id}`);
    const second = await ran('second', { trace_id: first.trace_id });
    expect(await recordOf(second)).toMatchObject(UNSTAMPED);
    const again = await purge(`/traces/${first.trace_id}`);
    expect(again.body.content_redacted_at).toBe(body.content_redacted_at);
    expect(await recordOf(second)).toMatchObject(STAMP);
  });

  test('is one run of the engine, found by its ids, whose history holds no content', async () => {
    const made = await ran('KANARIENVOGEL');
    await Promise.all([purge(`/traces/${made.trace_id}`), purge(`/traces/${made.trace_id}`)]);
    const id = `purge/${made.trace_id}`;
    expect(await runEnded(id, 5_000)).toBe(true);
    const handle = engine().workflow.getHandle(id);
    expect(await handle.describe()).toMatchObject({ type: 'tracePurge', status: { name: 'COMPLETED' } });
    expect(JSON.stringify(await handle.fetchHistory())).not.toContain('KANARIENVOGEL');
  });

  test('is 503 when no worker takes it up in time, and goes on when one does', async () => {
    const made = await ran();
    Object.assign(config(), { WAIT_MAX_SECONDS: 1 });
    await service.stopWorkers();
    const { status, body } = await purge(`/traces/${made.trace_id}`);
    expect([status, body.error.code]).toEqual([503, 'service_unavailable']);
    expect(await traceOf(made)).toMatchObject(UNSTAMPED);
    await service.startWorkers();
    Object.assign(config(), { WAIT_MAX_SECONDS: 120 });
    await eventually(async () => {
      expect(await traceOf(made)).toMatchObject(STAMP);
    });
  }, 30_000);
});

describe('retention', () => {
  const sweep = async (): Promise<void> => {
    const id = `retention/tests/${newId('event')}`;
    await startRun({
      type: 'retain',
      id,
      args: [{ tables: CONTENT_TABLES }],
      labels: { resourceType: 'sweep', resourceId: id },
      memo: { trigger: 'test' },
    });
    await engine().workflow.getHandle(id).result();
  };
  const keepFor = (days: number | null) =>
    query('update projects set trace_content_retention_days = $2 where id = $1', [space.projectId, days]);
  const stampOf = async (made: { trace_id: string }): Promise<string | null> =>
    (await get(`/traces/${made.trace_id}`)).body.content_redacted_by_principal_id as string | null;

  test('[traces 6] removes what is older than its project keeps it, and nothing younger', async () => {
    await keepFor(1);
    const [old, young] = [await ran('old'), await ran('young')];
    await age(old.trace_id, 25);
    await age(young.trace_id, 23);
    await sweep();
    const stamp = { content_redacted_by_principal_type: 'system', content_redacted_by_principal_id: 'retention_sweep' };
    expect((await get(`/traces/${old.trace_id}`)).body).toMatchObject(stamp);
    expect((await get(`/generations/${old.id}`)).body).toMatchObject(stamp);
    expect((await get(`/traces/${young.trace_id}`)).body).toMatchObject(UNSTAMPED);
    expect((await get(`/generations/${young.id}`)).body).toMatchObject(UNSTAMPED);
  });

  test('goes by the age of the root: its whole tree goes, and a child alone does not', async () => {
    await keepFor(1);
    const [oldRoot, child, youngRoot, oldChild] = [await ran(), await ran(), await ran(), await ran()];
    await hang(child.trace_id, oldRoot.trace_id, oldRoot.trace_id);
    await hang(oldChild.trace_id, youngRoot.trace_id, youngRoot.trace_id);
    for (const { trace_id: id } of [oldRoot, oldChild]) await age(id, 25);
    await sweep();
    expect(await Promise.all([oldRoot, child].map(stampOf))).toEqual(['retention_sweep', 'retention_sweep']);
    expect(await Promise.all([youngRoot, oldChild].map(stampOf))).toEqual([null, null]);
  });

  test('keeps everything where no days are set, and bears any number of them', async () => {
    const made = await ran();
    await age(made.trace_id, 24 * 4_000);
    await sweep();
    await keepFor(2_147_483_647);
    await sweep();
    expect(await stampOf(made)).toBeNull();
  });

  test('leaves a tree in which something waits to the next day, and does not stop there', async () => {
    await keepFor(1);
    const waiting = await paused();
    const other = await ran();
    for (const { trace_id: id } of [waiting, other]) await age(id, 25);
    await sweep();
    expect(await Promise.all([waiting, other].map(stampOf))).toEqual([null, 'retention_sweep']);
    await waiting.submit();
    await sweep();
    expect(await stampOf(waiting)).toBe('retention_sweep');
  });

  test('removes turns that came to an old trace later, and goes on beyond one page', async () => {
    await keepFor(1);
    const first = await ran();
    await age(first.trace_id, 25);
    await sweep();
    const later = await ran('later', { trace_id: first.trace_id });
    const yesterday = new Date(Date.now() - 25 * 3_600_000);
    for (let made = 0; made < 130; made += 1) await layTrace(space.projectId, { createdAt: yesterday });
    await sweep();
    expect((await get(`/generations/${later.id}`)).body.content_redacted_by_principal_id).toBe('retention_sweep');
    const [left] = await query<{ count: number }>(
      'select count(*)::int as count from traces where project_id = $1 and content_redacted_at is null',
      [space.projectId],
    );
    expect(left?.count).toBe(0);
  });
});
