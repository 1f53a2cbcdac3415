import type { EventSink } from '../core/event-stream';
import { START, deltaFrame, digestOf, idLine } from './frames';
import type { Closing, Position } from './frames';
import type { LiveRun } from './streams';

/** A finished step, as far as a reader is concerned. */
export interface SaidStep {
  step: number;
  text: string;
}

/** What was sent of a step is not what its row holds: it was made again elsewhere. */
export class Diverged extends Error {}

interface Reading {
  sink: EventSink;
  live: LiveRun | undefined;
  /** Reads the finished steps of the run from its rows. */
  load: () => Promise<SaidStep[]>;
  /** Picked up: where the reader stands; frames then carry ids. */
  from?: Position;
}

/** Brings one reader from where it stands to what the run has said, each step once and in order. */
export class StreamReader {
  #at: Position;
  /** Text of the step at hand that is out; null while only its digest is known. */
  #sent: string | null;
  #turn: Promise<void> = Promise.resolve();

  constructor(private readonly reading: Reading) {
    this.#at = reading.from ?? START;
    this.#sent = this.#at.offset === 0 ? '' : null;
  }

  /** Sends what this process has heard beyond where the reader stands. @throws Diverged */
  advance(): Promise<void> {
    return this.#inTurn(async () => {
      for (const [step, text] of [...(this.reading.live?.texts ?? [])].sort(([a], [b]) => a - b)) {
        if (step > this.#at.step + 1 && !this.#heard(step - 1)) await this.#sendAll(await this.reading.load());
        if (step >= this.#at.step && !this.#isAhead(step, text)) await this.#send(step, text);
      }
    });
  }

  /** Sends what finished steps hold beyond where the reader stands. @throws Diverged */
  catchUp(steps: SaidStep[]): Promise<void> {
    return this.#inTurn(() => this.#sendAll(steps));
  }

  /** Sends one of the frames that close a stream. */
  async close(frame: string, closing?: Closing): Promise<void> {
    await this.#turn.catch(() => undefined);
    await this.reading.sink.send(this.#id(closing) + frame);
  }

  /** One change after the other: two of them at once would mix their frames. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => undefined);
    return mine;
  }

  /** A step that goes on here may be behind what a reader got of it elsewhere; a finished one may not. */
  #isAhead(step: number, text: string): boolean {
    return step === this.#at.step && text.length < this.#at.offset && (this.#sent ?? text).startsWith(text);
  }

  #heard(step: number): boolean {
    return this.reading.live?.texts.has(step) === true;
  }

  async #sendAll(steps: SaidStep[]): Promise<void> {
    for (const { step, text } of steps) if (step >= this.#at.step) await this.#send(step, text);
  }

  async #send(step: number, text: string): Promise<void> {
    if (step > this.#at.step) {
      this.#at = { ...START, step };
      this.#sent = '';
    }
    const { offset, digest } = this.#at;
    const known = this.#sent ?? text.slice(0, offset);
    if (!text.startsWith(known) || (this.#sent === null && digestOf(known) !== digest)) throw new Diverged();
    this.#sent = known;
    if (text.length === offset) return;
    this.#at = { step, offset: text.length, digest: this.reading.from === undefined ? '' : digestOf(text) };
    this.#sent = text;
    await this.reading.sink.send(this.#id() + deltaFrame(text.slice(offset)));
  }

  #id(closing?: Closing): string {
    return this.reading.from === undefined ? '' : idLine(this.#at, closing);
  }
}
