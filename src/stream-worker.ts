import { errorFacts, log } from './api/core/log';
import type { StepsHere } from './api/generations/streams';
import { startStreamWorker } from './workers';
import type { RunningWorkers } from './workers';

/** The worker of an API process, started once and again after it failed. */
export class StreamWorker implements StepsHere {
  #running: Promise<RunningWorkers> | undefined;
  #stopping = false;

  /** @throws when the engine cannot be reached, or the process is about to end: a stream that comes then goes the common way */
  async start(taskQueue: string): Promise<void> {
    if (this.#stopping) throw new Error('the worker of streams stops');
    this.#running ??= this.#run(taskQueue);
    await this.#running;
  }

  /** Takes no new step and lets running ones end, up to the grace time. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const running = this.#running;
    this.#running = undefined;
    await (await running?.catch(() => undefined))?.stop();
  }

  async #run(taskQueue: string): Promise<RunningWorkers> {
    try {
      const running = await startStreamWorker(taskQueue);
      running.ended.catch((error: unknown) => {
        this.#failed(error);
      });
      return running;
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  #failed(error: unknown): void {
    log.warn({ msg: 'worker of streams failed', ...errorFacts(error) });
    this.#running = undefined;
  }
}
