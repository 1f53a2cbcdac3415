import type { IncomingHttpHeaders } from 'node:http';
import { BoundedLog } from './http';

/** One request to a model, as a test or the demo sees it. */
export interface ModelCall {
  model: string;
  /** The request's `Idempotency-Key`, and its two halves where it has the form `<generation id>:<step>`. */
  key: string | null;
  generationId: string | null;
  step: number | null;
  /** `/v1/chat/completions`, `/v1/messages` or `/v1/embeddings`. */
  path: string;
  /** Unix milliseconds of arrival. */
  at: number;
  body: unknown;
  headers: IncomingHttpHeaders;
  /** The whole answer went out, error answers included. */
  answered: boolean;
  /** The client went away before the whole answer was out. */
  aborted: boolean;
  /** It waits at a gate or in a delay now. */
  waiting: boolean;
}

/** What is kept of every request, however many there are. */
export interface CallFacts {
  model: string;
  key: string | null;
  /** Unix milliseconds of arrival. */
  at: number;
  /** When the whole answer was out or the connection ended; null while it is served. */
  endedAt: number | null;
}

export interface CallFilter {
  model?: string | undefined;
  generationId?: string | undefined;
  step?: number | undefined;
}

/** A call while it is served; the body stays text so that its size is known. */
export type LiveCall = Omit<ModelCall, 'body'> & { text: string; facts: CallFacts };

const FACTS_MAX = 1_000_000;

interface Waiter {
  filter: CallFilter;
  found: (call: ModelCall) => void;
}

/** Splits `<generation id>:<step>`; another form is a key without a step. */
export function parseKey(key: string | null): Pick<ModelCall, 'generationId' | 'step'> {
  const parts = key === null ? null : /^(.+):(\d{1,9})$/.exec(key);
  return parts === null
    ? { generationId: null, step: null }
    : { generationId: parts[1] ?? null, step: Number(parts[2]) };
}

export class CallLog {
  readonly #log = new BoundedLog<LiveCall>();
  readonly #waiters = new Set<Waiter>();
  #facts: CallFacts[] = [];

  add(given: Omit<LiveCall, 'facts'>): LiveCall {
    const facts: CallFacts = { model: given.model, key: given.key, at: given.at, endedAt: null };
    const call = { ...given, facts };
    this.#log.add(call, Buffer.byteLength(call.text));
    if (this.#facts.length < FACTS_MAX) this.#facts.push(facts);
    return call;
  }

  /** Every call since the last reset, the oldest first, also those whose bodies are forgotten; at most a million. */
  facts(): CallFacts[] {
    return this.#facts.map((facts) => ({ ...facts }));
  }

  list(filter: CallFilter = {}): ModelCall[] {
    return this.#log.entries.filter((call) => matches(call, filter)).map(snapshot);
  }

  /** Marks a call as held and tells those who wait for it. */
  setWaiting(call: LiveCall, waiting: boolean): void {
    call.waiting = waiting;
    if (!waiting) return;
    for (const waiter of [...this.#waiters]) if (matches(call, waiter.filter)) waiter.found(snapshot(call));
  }

  /**
   * Resolves when a matching call is being held, at once when one is already.
   * @throws Error after `timeoutMs`, naming the calls there were
   */
  async waitForHeld(filter: CallFilter, timeoutMs: number): Promise<ModelCall> {
    const held = this.#log.entries.find((call) => call.waiting && matches(call, filter));
    if (held !== undefined) return snapshot(held);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        filter,
        found: (call) => {
          clearTimeout(timer);
          this.#waiters.delete(waiter);
          resolve(call);
        },
      };
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        const seen = this.#log.entries.slice(-20).map((call) => `${call.model} ${call.key ?? 'without key'}`);
        reject(
          new Error(
            `No held call matched ${JSON.stringify(filter)} in ${timeoutMs} ms; last calls: ${seen.join(', ')}`,
          ),
        );
      }, timeoutMs);
      this.#waiters.add(waiter);
    });
  }

  reset(): void {
    this.#facts = [];
    this.#log.clear();
  }
}

function matches(call: LiveCall, filter: CallFilter): boolean {
  return (
    (filter.model === undefined || call.model === filter.model) &&
    (filter.generationId === undefined || call.generationId === filter.generationId) &&
    (filter.step === undefined || call.step === filter.step)
  );
}

function snapshot({ text, facts: _kept, ...call }: LiveCall): ModelCall {
  return { ...call, headers: { ...call.headers }, body: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
