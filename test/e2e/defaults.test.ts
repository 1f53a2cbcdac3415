import { saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';

const SWEEP_INTERVAL_MS = 60_000;
const HEARTBEAT_MS = 30_000;
/** What the work itself takes, on a busy machine. */
const SLACK_MS = 10_000;

const service = useLocal({ env: { CALL_HEARTBEAT_SECONDS: undefined, SWEEP_INTERVAL_SECONDS: undefined } });

/** Waits until that many comparisons of rows and runs are through, and none is under way. */
const comparisons = (count: number): Promise<void> =>
  eventually(
    async () => {
      const states: string[] = [];
      const list = service.engine.workflow.list({ query: 'WorkflowType = "sweepLost"' });
      for await (const { status } of list) states.push(status.name);
      expect(states).toEqual(Array.from({ length: count }, () => 'COMPLETED'));
    },
    { timeoutMs: 20_000 },
  );

test('[durable 9] at the default times a lost call is made again and a lost start is swept', async () => {
  const runs = new Runs(service, await service.workspace());
  // A worker that starts compares rows and runs, as the Schedule does hourly: the sweep is to find the lost start.
  await service.engine.schedule.getHandle('sweep/lost').pause();
  await comparisons(1);
  const agent = await runs.agent([{ text: 'again', hold: 'lost', times: 1, then: { text: 'again' } }]);
  const lostCall = await runs.begin(agent.id);
  await service.modelServer.waitForCall({ generationId: lostCall });
  await service.kill('worker');
  const callLostAt = performance.now();
  await service.local.start('worker');
  await comparisons(2);
  service.hold('generation-committed');
  const unstarted = await runs.agent([]);
  const request = runs.space.api.post(runs.at(`/agents/${unstarted.id}/generate`), saying('hello'));
  request.catch(() => undefined); // It is cut off with its server.
  await service.held('generation-committed');
  const { id: lostStart } = await service.row<{ id: string }>('select id from generations where agent_id = $1', [
    unstarted.id,
  ]);
  expect(await service.runStatus(lostStart)).toBeNull();
  await service.kill('api');
  const startLostAt = performance.now();
  service.letGo('generation-committed');
  await service.local.start('api');

  const settledAt = async (id: string, timeoutMs: number): Promise<number> => {
    await eventually(async () => expect(await runs.row(id)).toMatchObject({ status: 'completed', step_count: 1 }), {
      timeoutMs,
      intervalMs: 200,
    });
    return performance.now();
  };
  const [callAt, startAt] = await Promise.all([
    settledAt(lostCall, HEARTBEAT_MS + SLACK_MS),
    settledAt(lostStart, 2 * SWEEP_INTERVAL_MS + SLACK_MS),
  ]);
  // Neither is noticed at once: the defaults are what was waited for.
  expect(callAt - callLostAt).toBeGreaterThan(HEARTBEAT_MS - SLACK_MS);
  expect(startAt - startLostAt).toBeGreaterThan(SWEEP_INTERVAL_MS - SLACK_MS);
  expect(runs.calls(lostCall)).toHaveLength(2);
  expect(runs.calls(lostStart)).toHaveLength(1);
}, 180_000);
