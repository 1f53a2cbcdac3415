import { setTimeout as sleep } from 'node:timers/promises';

const WINDOW_MS = 60_000;
const RESTARTS_MAX = 10;
const PAUSE_MS = 250;

/** Starts crashed parts again, each at most ten times a minute, with one line for each. */
export class Restarts {
  private readonly times = new Map<string, number[]>();
  private isClosed = false;

  constructor(private readonly log: (line: string) => void) {}

  /** Tries until the part runs, the minute's tries are used up, or `close` was called. Never throws. */
  async bringBack(name: string, reason: string, start: () => Promise<void>): Promise<void> {
    let why = reason;
    while (!this.closed()) {
      if (!this.takeTry(name)) {
        this.log(
          `${name} ended (${why}) and stays down: it was started ${String(RESTARTS_MAX)} times within a minute.`,
        );
        return;
      }
      this.log(`${name} ended (${why}): starting it again.`);
      await sleep(PAUSE_MS);
      if (this.closed()) return;
      try {
        await start();
        return;
      } catch (error) {
        why = error instanceof Error ? error.message : String(error);
      }
    }
  }

  close(): void {
    this.isClosed = true;
  }

  /** Asked anew after every wait. */
  private closed(): boolean {
    return this.isClosed;
  }

  private takeTry(name: string): boolean {
    const now = performance.now();
    const recent = (this.times.get(name) ?? []).filter((time) => now - time < WINDOW_MS);
    this.times.set(name, recent);
    if (recent.length >= RESTARTS_MAX) return false;
    recent.push(now);
    return true;
  }
}
