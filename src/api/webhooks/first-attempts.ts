import { AsyncResource } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { config } from '../core/config';
import { queryOne } from '../core/db';
import { faultPoint } from '../core/faults';
import { errorFacts, log } from '../core/log';
import { attemptOnce } from './attempt';
import { readDelivery } from './due';
import type { DueDelivery } from './due';
import { startDelivery } from './runs';
import type { DeliveryRow } from './runs';

/** First attempts under way at once in this process; what comes beside them goes to the engine. */
const UNDER_WAY_MAX = 200;
/** Deliveries that wait here to be handed to the engine; beyond them the sweep finds what is left. */
const HAND_OVERS_MAX = 5_000;
const HAND_OVERS_AT_ONCE = 16;
const DRAIN_MS = 15_000;
const LAST_HAND_OVERS_MS = 10_000;

/**
 * The first attempts that this process makes of what it committed: a delivery that succeeds at once costs the engine
 * nothing. Whatever else happens, the workflow of the delivery takes over, and of what is lost with the process the sweep
 * starts it. Spec: Delivery behaviour, rules 1 and 2.
 */
class FirstAttempts {
  readonly #underWay = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  readonly #waiting: (() => Promise<void>)[] = [];
  readonly #handingOver = new Set<Promise<void>>();
  #stopping = false;

  constructor() {
    setMaxListeners(UNDER_WAY_MAX, this.#abort.signal); // Each attempt listens to it.
  }

  /**
   * Takes deliveries whose rows are committed; returns at once and never throws. To be called after the commit, once.
   * @param deliveries as `recordEvent` returned them
   */
  offer(deliveries: readonly DueDelivery[]): void {
    for (const delivery of deliveries) this.#take(delivery.id, () => Promise.resolve(delivery));
  }

  /** As `offer`, for deliveries that are to be read first. */
  offerById(ids: readonly string[]): void {
    for (const id of ids) this.#take(id, () => readDelivery(id, 'process'));
  }

  #take(id: string, read: () => Promise<DueDelivery | null>): void {
    const inline = config().DELIVERY_FIRST_ATTEMPT === 'inline' && !this.#stopping;
    if (inline && this.#underWay.size < UNDER_WAY_MAX) this.#begin(id, read);
    else this.#handOver(() => release(id));
  }

  /**
   * Stops taking first attempts, waits for those under way, and gives the rest to the engine. For the end of a process,
   * before the database and the engine are closed; safe to repeat.
   * @param timeoutMs for those under way; what is cut off is not counted and sent again
   */
  async drain(timeoutMs: number = DRAIN_MS): Promise<void> {
    this.#stopping = true;
    await within(timeoutMs, () => this.#underWay);
    this.#abort.abort();
    await within(LAST_HAND_OVERS_MS, () => this.#underWay);
    await within(LAST_HAND_OVERS_MS, () => this.#handingOver);
  }

  #begin(id: string, read: () => Promise<DueDelivery | null>): void {
    const done: Promise<void> = this.#attempt(read)
      .catch((error: unknown) => {
        log.warn({ msg: 'first attempt not made', delivery_id: id, ...errorFacts(error) });
        this.#handOver(() => release(id));
      })
      .finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  async #attempt(read: () => Promise<DueDelivery | null>): Promise<void> {
    await faultPoint('delivery-committed');
    const delivery = await read();
    if (delivery?.status !== 'pending' || delivery.attempts > 0) return;
    const outcome = await attemptOnce(delivery, this.#abort.signal);
    if (outcome.kind === 'retry') this.#handOver(() => start(delivery));
    if (outcome.kind === 'no_place' || outcome.kind === 'aborted') this.#handOver(() => release(delivery.id));
  }

  /** A few at once: a burst of overflow must not take every connection of the process. */
  #handOver(work: () => Promise<void>): void {
    if (this.#waiting.length >= HAND_OVERS_MAX) {
      log.warn({ msg: 'too many deliveries to hand over, left to the sweep' });
      return;
    }
    this.#waiting.push(AsyncResource.bind(work)); // Another one's lane may do it: it stays of the trace of its own.
    if (this.#handingOver.size >= HAND_OVERS_AT_ONCE) return;
    const lane: Promise<void> = this.#lane().finally(() => this.#handingOver.delete(lane));
    this.#handingOver.add(lane);
  }

  async #lane(): Promise<void> {
    for (let work = this.#waiting.shift(); work !== undefined; work = this.#waiting.shift()) {
      await work().catch((error: unknown) => {
        log.warn({ msg: 'delivery not handed over, left to the sweep', ...errorFacts(error) });
      });
    }
  }
}

const start = async (row: DeliveryRow): Promise<void> => {
  await startDelivery(row);
};

/** Ends the claim, so that the run need not wait for it, and starts the run. */
async function release(id: string): Promise<void> {
  const row = await queryOne<{ project_id: string }>(
    `update webhook_deliveries set claimed_until = null where id = $1 and status = 'pending' returning project_id`,
    [id],
  );
  if (row !== null) await startDelivery({ id, projectId: row.project_id });
}

/** Waits until a set is empty, at most that long; what is added meanwhile is waited for too. */
async function within(timeoutMs: number, pending: () => ReadonlySet<Promise<void>>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const cut = new Promise<'cut'>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, 'cut');
  });
  while (pending().size > 0) {
    if ((await Promise.race([Promise.allSettled(pending()), cut])) === 'cut') break;
  }
  clearTimeout(timer);
}

/** The first attempts of this process. */
export const firstAttempts = new FirstAttempts();
