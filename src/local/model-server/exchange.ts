import type { ServerResponse } from 'node:http';
import type { CallLog, LiveCall } from './calls';
import type { Completion } from './completion';
import type { Gates } from './gates';
import { pause } from './gates';
import type { JsonAnswer } from './http';
import { abortOf, sendJson } from './http';
import type { Reply } from './script';
import type { Wire } from './wire';

interface ExchangeParts {
  response: ServerResponse;
  call: LiveCall;
  calls: CallLog;
  gates: Gates;
  wire: Wire;
}

/** One answer on its way out, with the holds and faults that its reply asks for. */
export class Exchange {
  readonly #parts: ExchangeParts;
  readonly #signal: AbortSignal;
  #endedHere = false;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    this.#signal = abortOf(parts.response);
    const { call, response } = parts;
    response.once('finish', () => {
      call.answered = true;
    });
    response.once('close', () => {
      call.facts.endedAt = Date.now();
    });
    this.#signal.addEventListener('abort', () => {
      // A connection that this side ended, by script or by a reset, was not given up by the client.
      call.aborted = !this.#endedHere;
    });
  }

  /** Ends the connection without (the rest of) an answer. */
  disconnect(): void {
    this.#endedHere = true;
    this.#parts.response.destroy();
  }

  send(answer: JsonAnswer): void {
    sendJson(this.#parts.response, answer);
  }

  /** Does what the reply says before any answer; true when nothing is left to send. */
  async preface(reply: Reply): Promise<boolean> {
    if (reply.delayMs !== undefined && !(await this.#waiting(pause(reply.delayMs, this.#signal)))) return true;
    if (reply.hold !== undefined && !(await this.#waiting(this.#parts.gates.wait(reply.hold, this.#signal))))
      return true;
    if (reply.disconnect === true && reply.chunks === undefined) {
      this.disconnect();
      return true;
    }
    return this.#sendWhole(reply);
  }

  /** Sends a scripted raw or JSON body, where the reply has one. */
  #sendWhole(reply: Reply): boolean {
    const status = reply.status ?? 200;
    if (reply.malformed !== undefined) {
      this.#parts.response.writeHead(status, { 'content-type': 'application/json', ...reply.headers });
      this.#parts.response.end(reply.malformed);
      return true;
    }
    if (reply.body !== undefined) {
      this.send({ status, body: reply.body, headers: reply.headers });
      return true;
    }
    if (status < 300) return false;
    const message = reply.text ?? `The local stand-in was asked to answer ${status}`;
    this.send({ ...this.#parts.wire.errorAnswer({ status, message }), headers: reply.headers });
    return true;
  }

  async sendPlain(completion: Completion, reply: Reply): Promise<void> {
    const hold = reply.holdAfterChunk;
    if (hold !== undefined && !(await this.#waiting(this.#parts.gates.wait(hold.gate, this.#signal)))) return;
    if (reply.disconnect === true) {
      this.disconnect();
      return;
    }
    this.send({ status: reply.status ?? 200, body: this.#parts.wire.plainBody(completion), headers: reply.headers });
  }

  /** Sends server-sent events; a fault in the middle leaves the stream without its end. */
  async sendStream(completion: Completion, reply: Reply, includeUsage: boolean): Promise<void> {
    const { response, wire } = this.#parts;
    response.writeHead(reply.status ?? 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      ...reply.headers,
    });
    const hold = reply.holdAfterChunk;
    let held = false;
    for (const { text, textDeltas } of wire.pieces(completion, { includeUsage })) {
      if (!(await this.#write(text))) return;
      if (hold !== undefined && !held && textDeltas === Math.min(hold.n, completion.chunks.length)) {
        held = true;
        if (!(await this.#waiting(this.#parts.gates.wait(hold.gate, this.#signal)))) return;
      }
      if (reply.disconnect === true && textDeltas === completion.chunks.length) {
        this.disconnect();
        return;
      }
    }
    response.end(wire.end);
  }

  /** Writes and waits until the operating system took it, so that a fault afterwards does not swallow it. */
  async #write(text: string): Promise<boolean> {
    if (this.#signal.aborted) return false;
    return new Promise((resolve) => {
      this.#parts.response.write(text, (error) => {
        resolve(error == null);
      });
    });
  }

  async #waiting(wait: Promise<boolean>): Promise<boolean> {
    const { calls, call } = this.#parts;
    calls.setWaiting(call, true);
    const goesOn = await wait;
    calls.setWaiting(call, false);
    return goesOn;
  }
}
