import { created } from '../support/builders';
import { eventually } from '../support/eventually';
import { Runs, useLocal } from '../support/local';
import { jsonOf, startReceiver, verifySignature } from '../support/receiver';
import type { ReceivedRequest, Receiver } from '../support/receiver';

/** Waits of 1.5, 3, 6 and 12 s: long enough to kill a process within the first, short enough to see the last. */
const BACKOFF_BASE_SECONDS = 1.5;
/** How far the engine's timer may run ahead of the row's time, or be behind it when it is shown. */
const TIMER_MS_MAX = 200;

const service = useLocal({ env: { WEBHOOK_BACKOFF_BASE_SECONDS: String(BACKOFF_BASE_SECONDS) } });
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
});

afterAll(() => receiver.close());

interface DeliveryColumns {
  id: string;
  status: string;
  attempts: number;
  next_attempt_at: Date | null;
  claimed_until: Date | null;
  event_id: string;
}

const deliveriesTo = (webhookId: string): Promise<DeliveryColumns[]> =>
  service.rows('select * from webhook_deliveries where webhook_id = $1 order by created_at, id', [webhookId]);

async function deliveryTo(webhookId: string): Promise<DeliveryColumns> {
  const [delivery, ...others] = await deliveriesTo(webhookId);
  if (delivery === undefined || others.length > 0)
    throw new Error(`${String(others.length + 1)} deliveries to ${webhookId}`);
  return delivery;
}

const receivedAt = (path: string): ReceivedRequest[] => receiver.requests.filter((request) => request.path === path);

/** When the engine means to make the next try of a run's activity. */
async function nextTryAt(id: string): Promise<number> {
  const { raw } = await service.engine.workflow.getHandle(id).describe();
  const time = raw.pendingActivities?.[0]?.nextAttemptScheduleTime;
  if (time == null) throw new Error(`${id} waits for no try`);
  return Number(time.seconds) * 1000 + Number(time.nanos) / 1e6;
}

interface Hooked {
  path: string;
  id: string;
  secret: string;
}

async function hook(runs: Runs, path: string, events: string[]): Promise<Hooked> {
  const body = created(await runs.space.api.post(runs.at('/webhooks'), { url: `${receiver.url}${path}`, events }));
  return { path, id: body.id as string, secret: body.secret as string };
}

/** Deliveries that fail four times; of one the fifth attempt is taken. */
class Retried {
  private readonly plannedAt = new Map<string, number>();
  /** A kill may meet a try under way: it was sent, is not counted, and is made again. */
  private readonly underWay = new Map<string, number>();

  private constructor(
    private readonly webhooks: Hooked[],
    private readonly runId: string,
  ) {}

  static async begin(): Promise<Retried> {
    const runs = new Runs(service, await service.workspace());
    receiver.respond({ status: 500 }, '/never');
    receiver.respond([...Array.from({ length: 4 }, () => ({ status: 500 })), { status: 200 }], '/at-last');
    const webhooks = await Promise.all(['/never', '/at-last'].map((path) => hook(runs, path, ['generation.*'])));
    return new Retried(webhooks, await runs.begin((await runs.agent([])).id));
  }

  /** Waits until that attempt has failed and the next one is planned. */
  async failed(attempt: number): Promise<void> {
    for (const webhook of this.webhooks) {
      const recorded = await eventually(
        async () => {
          const delivery = await deliveryTo(webhook.id);
          expect(delivery).toMatchObject({ attempts: attempt, status: 'pending' });
          return delivery;
        },
        { timeoutMs: 30_000 },
      );
      // The run is there, and its armed timer is the row's time.
      const planned = recorded.next_attempt_at?.getTime() ?? 0;
      await eventually(
        async () => {
          expect(Math.abs((await nextTryAt(recorded.id)) - planned)).toBeLessThan(TIMER_MS_MAX);
        },
        { timeoutMs: 15_000 },
      );
      this.plannedAt.set(`${webhook.path} ${String(attempt + 1)}`, planned);
    }
  }

  /** What holds after the worker was killed behind that attempt. */
  async afterKill(attempt: number): Promise<void> {
    for (const { id, path } of this.webhooks) {
      expect(await deliveryTo(id)).toMatchObject({ attempts: attempt, status: 'pending' });
      const uncounted = receivedAt(path).length - attempt;
      expect(uncounted - (this.underWay.get(path) ?? 0)).toBeGreaterThanOrEqual(0);
      expect(uncounted - (this.underWay.get(path) ?? 0)).toBeLessThanOrEqual(1);
      this.underWay.set(path, uncounted);
    }
  }

  async settled(): Promise<void> {
    for (const [index, status] of ['failed', 'success'].entries()) {
      const settled = await eventually(
        async () => {
          const delivery = await deliveryTo(this.webhooks[index]!.id);
          expect(delivery.status).not.toBe('pending');
          return delivery;
        },
        { timeoutMs: 30_000 },
      );
      expect(settled).toMatchObject({ status, attempts: 5, next_attempt_at: null });
    }
    for (const webhook of this.webhooks) this.checkRequests(webhook);
  }

  private checkRequests({ path, secret }: Hooked): void {
    const requests = receivedAt(path);
    const underWay = this.underWay.get(path) ?? 0;
    expect(requests).toHaveLength(5 + underWay);
    requests.slice(1).forEach((request, index) => {
      const planned = this.plannedAt.get(`${path} ${String(index + 2)}`) ?? Infinity;
      if (underWay === 0) expect(request.at).toBeGreaterThan(planned - TIMER_MS_MAX);
    });
    expect(requests.every((request) => verifySignature(request, secret, request.at / 1000))).toBe(true);
    expect(new Set(requests.map((request) => request.body)).size).toBe(1);
    expect(jsonOf(requests[0]!)).toMatchObject({ type: 'generation.completed', resource_id: this.runId });
  }
}

/** Deliveries that are committed and not attempted yet. */
class LeftBehind {
  private runIds: string[] = [];

  private constructor(
    private readonly runs: Runs,
    private readonly webhookId: string,
    private readonly agentId: string,
  ) {}

  static async begin(): Promise<LeftBehind> {
    const runs = new Runs(service, await service.workspace());
    const webhook = await hook(runs, '/left-behind', ['*']);
    const left = new LeftBehind(runs, webhook.id, (await runs.agent([])).id);
    const first = await runs.begin(left.agentId);
    await runs.reached(first, 'completed');
    left.runIds = [first];
    return left;
  }

  /** Of one run the worker holds the delivery; of another the activity that settled it; the API holds a redelivery. */
  async hold(): Promise<void> {
    const { runs, agentId } = this;
    const sent = await receiver.waitFor(({ path }) => path === '/left-behind');
    service.hold('delivery-committed');
    const second = await runs.begin(agentId);
    await service.held('delivery-committed');
    service.hold('step-stored');
    const third = await runs.begin(agentId);
    await service.held('step-stored');
    const delivery = sent.headers['x-svc-delivery'] as string;
    const again = await runs.space.api.post(runs.at(`/webhook-deliveries/${delivery}:redeliver`));
    expect(again.status).toBe(202);
    await service.held('delivery-committed');

    const [, ...waiting] = await deliveriesTo(this.webhookId);
    expect(waiting).toHaveLength(3);
    for (const row of waiting) {
      expect(row).toMatchObject({ status: 'pending', attempts: 0 });
      expect(row.claimed_until?.getTime()).toBeGreaterThan(Date.now());
      expect(await service.runStatus(row.id)).toBeNull();
    }
    expect(receivedAt('/left-behind')).toHaveLength(1);
    for (const id of [second, third]) expect((await runs.row(id)).status).toBe('completed');
    this.runIds.push(second, third);
  }

  async arrived(killedAt: number): Promise<void> {
    await eventually(
      async () => {
        for (const row of await deliveriesTo(this.webhookId))
          expect(row).toMatchObject({ status: 'success', attempts: 1 });
      },
      { timeoutMs: 31_000, intervalMs: 100 },
    );
    const arrived = receivedAt('/left-behind');
    expect(arrived).toHaveLength(4);
    expect(arrived.every(({ at }) => at - killedAt < 31_000)).toBe(true);
    const events = arrived.map(jsonOf);
    const [first = ''] = this.runIds;
    expect(events.map(({ resource_id }) => resource_id).sort()).toEqual([first, ...this.runIds].sort());
    expect(new Set(events.map(({ id }) => id)).size).toBe(3);
  }
}

/** The fourth kill behind an attempt is also the one that meets what was committed and not attempted. */
const LAST_KILL = 4;
let ends: PromiseSettledResult<void>[] = [];

function kept(end: PromiseSettledResult<void> | undefined): void {
  if (end === undefined) throw new Error('The kills did not happen.');
  if (end.status === 'rejected') throw end.reason;
}

beforeAll(async () => {
  const behind = await LeftBehind.begin();
  const retried = await Retried.begin();
  let killedAt = 0;
  for (const attempt of [1, 2, 3, LAST_KILL]) {
    const isLast = attempt === LAST_KILL;
    if (isLast) await behind.hold();
    await retried.failed(attempt);
    await Promise.all([service.kill('worker'), ...(isLast ? [service.kill('api')] : [])]);
    for (const point of ['delivery-committed', 'step-stored']) service.letGo(point);
    killedAt = Date.now();
    await retried.afterKill(attempt);
    await Promise.all([service.local.start('worker'), ...(isLast ? [service.local.start('api')] : [])]);
  }
  ends = await Promise.allSettled([retried.settled(), behind.arrived(killedAt)]);
}, 180_000);

test('[durable 1] [durable 6] [webhooks 7] [events 4] a delivery survives a kill after each of its five attempts', () => {
  kept(ends[0]);
});

test('[durable 2] [webhooks 7] [events 4] a process killed after its commit and before its first attempt loses no delivery', () => {
  kept(ends[1]);
});
