/**
 * One kill of the worker, and then one of an API, meet everything that the engine notices only after half a minute or more,
 * with the times that hold where nobody sets any. All of it is waited for at once.
 */
import { created, saying, workspace } from '../support/builders';
import { apiClient } from '../support/client';
import type { ApiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';
import {
  BELOW,
  NOTHING,
  RUNS,
  accountsToLower,
  bigTree,
  busyAgent,
  leftOfAgent,
  leftOfContent,
  leftOfProject,
  turned,
} from '../support/removals';

const SWEEP_INTERVAL_MS = 60_000;
const HEARTBEAT_MS = 30_000;
/** What the work itself takes, on a busy machine. */
const SLACK_MS = 10_000;
const ACCOUNTS = 250;

const service = useLocal({
  apis: 2,
  workers: 0,
  env: { CALL_HEARTBEAT_SECONDS: undefined, SWEEP_INTERVAL_SECONDS: undefined },
});
/** The API that is killed; the other one is asked for everything else. */
const DYING = 1;
let receiver: Receiver;

/** A project of a new person, and the client with which that person asks the API that is killed. */
interface Project {
  runs: Runs;
  dying: ApiClient;
}

/** What was cut off: `rest` resolves once it came to its end in time, and then `check` says what else has to hold. */
interface Lost {
  rest: () => Promise<unknown>;
  check: () => Promise<void> | void;
}

const inTime = (assertion: () => Promise<void>, timeoutMs = 90_000): Promise<void> =>
  eventually(assertion, { timeoutMs, intervalMs: 200 });

async function newProject(): Promise<Project> {
  const token = await service.signIn(`${Math.random().toString(36).slice(2)}@people.test`);
  const api = apiClient(service.local.baseUrl, token);
  const project = created(await api.post('/v1/projects', { name: 'kills' }));
  const space = await workspace(api, project.id as string, service.modelServer.url);
  return { runs: new Runs(service, space), dying: apiClient(service.local.baseUrls[DYING] ?? '', token) };
}

/** Waits until the comparisons of rows and runs that so many starts of a worker asked for are through. */
const comparisons = (starts: number): Promise<void> =>
  eventually(
    async () => {
      const { info } = await service.engine.schedule.getHandle('sweep/lost').describe();
      expect(info.numActionsTaken + info.numActionsSkippedOverlap).toBe(starts);
      const states: string[] = [];
      const list = service.engine.workflow.list({ query: 'WorkflowType = "sweepLost"' });
      for await (const { status } of list) states.push(status.name);
      expect(states).toEqual(Array.from({ length: info.numActionsTaken }, () => 'COMPLETED'));
    },
    { timeoutMs: 45_000, intervalMs: 200 },
  );

/** The first worker finds a month that is over, and is killed while it turns the accounts: that holds all that it can do at once. */
async function monthTurn(): Promise<Lost> {
  await accountsToLower(service, ACCOUNTS);
  service.hold('account-turned');
  await service.local.start('worker');
  // A worker that starts compares rows and runs, as the Schedule does hourly: the sweep is to find the lost start.
  await service.engine.schedule.getHandle('sweep/lost').pause();
  await service.held('account-turned', 20_000);
  await eventually(async () => expect((await turned(service)).lowered).toBeGreaterThan(0));
  expect(await turned(service)).toMatchObject({ months: 0 });
  await service.kill('worker');
  service.letGo('account-turned');
  await service.local.start('worker');
  return {
    rest: () =>
      inTime(async () => {
        expect(await turned(service)).toEqual({ lowered: ACCOUNTS, waiting: 0, lines: ACCOUNTS, months: 1 });
      }),
    check: () => undefined,
  };
}

async function lostCall(runs: Runs): Promise<Lost> {
  const agent = await runs.agent([{ text: 'again', hold: 'lost', times: 1, then: { text: 'again' } }]);
  const id = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: id });
  let [lostAt, tookMs] = [0, 0];
  return {
    rest: async () => {
      lostAt = performance.now();
      await inTime(async () => {
        expect(await runs.row(id)).toMatchObject({ status: 'completed', step_count: 1 });
      }, HEARTBEAT_MS + SLACK_MS);
      tookMs = performance.now() - lostAt;
    },
    check: () => {
      // It is not noticed at once: the default is what was waited for.
      expect(tookMs).toBeGreaterThan(HEARTBEAT_MS - SLACK_MS);
      expect(runs.calls(id)).toHaveLength(2);
    },
  };
}

/** Ids of the runs of which an endpoint was told that they were cancelled. */
const toldCancelled = (): string[] =>
  receiver.requests.flatMap(({ body }) => {
    const { type, data } = JSON.parse(body) as { type: string; data: { id: string; error: { code: string } | null } };
    return type === 'generation.failed' && data.error?.code === 'GENERATION_CANCELLED' ? [data.id] : [];
  });

async function deletedAgent(runs: Runs, point: 'deletion-cancelled' | 'deletion-page'): Promise<() => Promise<Lost>> {
  const { agentId, openIds } = await busyAgent(runs, point);
  expect(await leftOfAgent(service, agentId)).toMatchObject({ generations: RUNS, traces: RUNS });
  return async () => {
    service.hold(point);
    expect((await runs.space.api.delete(runs.at(`/agents/${agentId}?force=true`))).status).toBe(204);
    await service.held(point, 20_000);
    const generations = point === 'deletion-page' ? 200 : RUNS;
    expect(await leftOfAgent(service, agentId)).toMatchObject({ agents: 0, deletions: 1, generations });
    return {
      rest: () => inTime(async () => expect(await leftOfAgent(service, agentId)).toEqual(NOTHING)),
      check: async () => {
        for (const id of openIds) expect(await service.runStatus(id)).toBe('CANCELLED');
        await eventually(() => expect(toldCancelled()).toEqual(expect.arrayContaining(openIds)), { timeoutMs: 30_000 });
        await eventually(async () => expect(await service.runStatus(`delete/${agentId}`)).toBe('COMPLETED'));
      },
    };
  };
}

async function deletedProject({ runs }: Project): Promise<() => Promise<Lost>> {
  const { projectId } = runs.space;
  const { openIds } = await busyAgent(runs, 'project');
  expect(await leftOfProject(service, projectId)).toMatchObject({ projects: 1, generations: RUNS });
  return async () => {
    service.hold('deletion-page');
    expect((await runs.space.api.delete(`${runs.space.at}?force=true`)).status).toBe(204);
    expect((await runs.space.api.get(runs.space.at)).status).toBe(404);
    await service.held('deletion-page', 20_000);
    expect(await leftOfProject(service, projectId)).toMatchObject({ projects: 1, deletions: 1 });
    return {
      rest: () => inTime(async () => expect(await leftOfProject(service, projectId)).toEqual({})),
      check: async () => {
        for (const id of openIds) expect(await service.runStatus(id)).toBe('CANCELLED');
        await eventually(async () => expect(await service.runStatus(`delete/${projectId}`)).toBe('COMPLETED'));
      },
    };
  };
}

async function purge({ runs }: Project): Promise<() => Promise<Lost>> {
  const traceId = await bigTree(runs);
  return async () => {
    service.hold('trace-purged');
    const answered = runs.space.api.delete(runs.at(`/traces/${traceId}/content`));
    await service.held('trace-purged');
    expect(await leftOfContent(runs)).toEqual({ traces: BELOW, generations: BELOW, contents: BELOW });
    const first = await service.row<{ id: string; at: Date }>(
      'select id, content_redacted_at as at from traces where project_id = $1 and content_redacted_at is not null',
      [runs.space.projectId],
    );
    return {
      rest: () => answered,
      check: async () => {
        const { status, body } = await answered;
        expect(status).toBe(200);
        expect(body).toMatchObject({ id: traceId, step_count: 1, content_redacted_by_principal_type: 'user' });
        expect(body.content_redacted_at).not.toBeNull();
        expect(await leftOfContent(runs)).toEqual({ traces: 0, generations: 0, contents: 0 });
        const kept = await service.row<{ at: Date }>('select content_redacted_at as at from traces where id = $1', [
          first.id,
        ]);
        expect(kept.at).toEqual(first.at);
      },
    };
  };
}

async function purgeLeftByItsCaller({ runs, dying }: Project): Promise<() => Promise<Lost>> {
  const generationId = await runs.begin((await runs.agent([{ text: 'KANARIENVOGEL' }])).id);
  const { trace_id: traceId } = await runs.reached(generationId, 'completed');
  const path = runs.at(`/traces/${String(traceId)}/content`);
  return async () => {
    service.hold('trace-purged');
    const cut = expect(dying.delete(path)).rejects.toThrow();
    await service.held('trace-purged');
    return {
      rest: async () => {
        await cut;
        await inTime(async () => expect(await service.runStatus(`purge/${String(traceId)}`)).toBe('COMPLETED'), 20_000);
      },
      check: async () => {
        expect(await leftOfContent(runs)).toEqual({ traces: 0, generations: 0, contents: 0 });
        const again = await dying.delete(path);
        expect([again.status, again.body.content_redacted_by_principal_type]).toEqual([200, 'user']);
      },
    };
  };
}

/** The Schedule keeps its interval; only its first pass after the kill comes no later than it has to. */
async function sweepSoonAfterTheInterval(): Promise<void> {
  await service.engine.schedule.getHandle('sweep/starts').update(({ spec, ...schedule }) => {
    expect(spec.intervals).toMatchObject([{ every: SWEEP_INTERVAL_MS }]);
    const offset = (Date.now() + 3_000) % SWEEP_INTERVAL_MS;
    return { ...schedule, spec: { intervals: [{ every: SWEEP_INTERVAL_MS, offset }] } };
  });
}

async function lostStart({ runs, dying }: Project): Promise<Lost> {
  const agent = await runs.agent([]);
  await sweepSoonAfterTheInterval();
  service.hold('generation-committed');
  const cut = expect(dying.post(runs.at(`/agents/${agent.id}/generate`), saying('hello'))).rejects.toThrow();
  await service.held('generation-committed');
  const { id } = await service.row<{ id: string }>('select id from generations where agent_id = $1', [agent.id]);
  expect(await service.runStatus(id)).toBeNull();
  let tookMs = 0;
  return {
    rest: async () => {
      const lostAt = performance.now();
      await cut;
      await inTime(
        async () => {
          expect(await runs.row(id)).toMatchObject({ status: 'completed', step_count: 1 });
        },
        2 * SWEEP_INTERVAL_MS + SLACK_MS,
      );
      tookMs = performance.now() - lostAt;
    },
    check: () => {
      expect(tookMs).toBeGreaterThan(SWEEP_INTERVAL_MS - SLACK_MS);
      expect(runs.calls(id)).toHaveLength(1);
    },
  };
}

/** By name, what was cut off and whether it came to its end. */
const found = new Map<string, { lost: Lost; rest: PromiseSettledResult<unknown> }>();

async function kept(...names: string[]): Promise<void> {
  for (const name of names) {
    const one = found.get(name);
    if (one === undefined) throw new Error(`The kill did not happen: ${name}.`);
    if (one.rest.status === 'rejected') throw one.rest.reason;
    await one.lost.check();
  }
}

const waiting: Promise<void>[] = [];

/** Begins to wait for what a kill met. */
function wait(lost: [string, Lost][]): void {
  for (const [name, one] of lost) {
    waiting.push(Promise.allSettled([one.rest()]).then(([rest]) => void found.set(name, { lost: one, rest })));
  }
}

beforeAll(async () => {
  receiver = await startReceiver();
  wait([['month turn', await monthTurn()]]);
  const [one, two, three, four] = await Promise.all([newProject(), newProject(), newProject(), newProject()]);
  const { runs } = one;
  created(await runs.space.api.post(runs.at('/webhooks'), { url: `${receiver.url}/events`, events: ['generation.*'] }));
  const [paged, project, cancelled, tree, left] = await Promise.all([
    deletedAgent(runs, 'deletion-page'),
    deletedProject(two),
    deletedAgent(runs, 'deletion-cancelled'),
    purge(three),
    purgeLeftByItsCaller(four),
  ]);
  await comparisons(2);

  const atWorker: [string, Lost][] = [
    ['call', await lostCall(runs)],
    ['deletion-page', await paged()],
    ['project', await project()],
    ['deletion-cancelled', await cancelled()],
    ['purge', await tree()],
  ];
  await service.kill('worker');
  for (const point of ['deletion-page', 'deletion-cancelled', 'trace-purged']) service.letGo(point);
  wait(atWorker);
  await service.local.start('worker');
  await comparisons(3);

  const atApi: [string, Lost][] = [
    ['start', await lostStart(one)],
    ['purge of nobody', await left()],
  ];
  await service.kill('api', DYING);
  service.letGo('generation-committed');
  service.letGo('trace-purged');
  wait(atApi);
  await service.local.start('api');
  await Promise.all(waiting);
}, 240_000);

afterAll(() => receiver.close());

test('[durable 9] at the default times a lost call is made again and a lost start is swept', () =>
  kept('call', 'start'));

test.each(['deletion-cancelled', 'deletion-page'])(
  'killed in the middle of a forced deletion, at %s: nothing of the agent is left, and every run was cancelled',
  (point) => kept(point),
  60_000,
);

test('[projects 7] killed in the middle of the deletion of a project: nothing of it is left, and every run was cancelled', () =>
  kept('project'));

test('killed while the content of a big tree is removed: the waiting request ends with everything removed, once', () =>
  kept('purge'));

test('the API killed while a caller waits for the removal: it is done all the same', () => kept('purge of nobody'));

test('killed in the middle of the turn of a month: every account is turned once, and the month is noted', () =>
  kept('month turn'));
