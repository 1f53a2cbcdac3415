import { setTimeout } from 'node:timers/promises';
import { config } from '../core/config';
import { unavailable } from '../core/errors';
import { randomText } from '../core/random';

/** What the model has said so far in the steps that this process runs for one streamed run. */
export class LiveRun {
  /** Text so far, by step. */
  readonly texts = new Map<number, string>();
  /** Resolves when the answer is open: no provider is called before. */
  readonly opened: Promise<void>;
  readonly #readers = new Set<() => Promise<void>>();
  #open: () => void = () => undefined;

  constructor() {
    this.opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(): void {
    this.#open();
  }

  /** A step begins here; one that says nothing has the empty text. */
  begin(step: number): void {
    if (!this.texts.has(step)) this.texts.set(step, '');
  }

  /** The model said something; resolves once every reader has taken it, so that a slow one slows down the model's answer. */
  async say(step: number, text: string): Promise<void> {
    this.texts.set(step, (this.texts.get(step) ?? '') + text);
    await Promise.all([...this.#readers].map((read) => read()));
  }

  /** `read` is called after each change; answers the function that ends it. */
  subscribe(read: () => Promise<void>): () => void {
    this.#readers.add(read);
    return () => this.#readers.delete(read);
  }
}

/** How long a stream waits for this process's worker before its run goes the common way. */
const WORKER_WAIT_MS = 2_000;

/** The worker that makes model steps in this process. */
export interface StepsHere {
  /** Resolves when it runs; safe to repeat. @throws when the engine cannot be reached */
  start: (taskQueue: string) => Promise<void>;
}

/** The streams of this process: their number, and the runs whose model steps it makes. */
class Streams {
  readonly #live = new Map<string, LiveRun>();
  readonly #queue = `api-${randomText(12)}`;
  #held = 0;
  #worker: StepsHere | undefined;

  /** Names the worker of this process; without one, what a model says is read from the rows when the run rests. */
  async useWorker(worker: StepsHere): Promise<void> {
    this.#worker = worker;
    await worker.start(this.#queue);
  }

  /** The task queue on which this process takes the model steps of the runs that it streams, when its worker runs. */
  async queue(): Promise<string | undefined> {
    if (this.#worker === undefined) return undefined;
    const started = this.#worker.start(this.#queue).then(
      () => true,
      () => false,
    );
    return (await Promise.race([started, setTimeout(WORKER_WAIT_MS, false, { ref: false })])) ? this.#queue : undefined;
  }

  /**
   * Holds a place for one stream; answers the function that gives it back.
   * @throws service_unavailable when the process holds as many as it may
   */
  reserve(): () => void {
    if (this.#held >= config().STREAMS_MAX) throw unavailable('Too many streams are open.');
    this.#held += 1;
    let given = false;
    return () => {
      if (!given) this.#held -= 1;
      given = true;
    };
  }

  /** A run whose steps are made here from now on, until `close`. */
  begin(generationId: string): LiveRun {
    const live = new LiveRun();
    this.#live.set(generationId, live);
    return live;
  }

  /** The run rests, or nobody waits for it here any more; a step that waits for the answer to open goes on. */
  close(generationId: string): void {
    this.#live.get(generationId)?.open();
    this.#live.delete(generationId);
  }

  live(generationId: string): LiveRun | undefined {
    return this.#live.get(generationId);
  }
}

export const streams = new Streams();
