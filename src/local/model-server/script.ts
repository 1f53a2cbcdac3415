import { z } from 'zod';

/** Tokens as an answer reports them; what is left out is counted from the texts. */
export interface ReplyUsage {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  /** The part of `inputTokens` served from the provider's cache. */
  cachedTokens?: number | undefined;
  /** The part of `inputTokens` written to it; only Anthropic's wire tells it. */
  cacheWriteTokens?: number | undefined;
}

export interface ReplyToolCall {
  id?: string | undefined;
  name: string;
  /** An object, or a text that goes out as it is, valid JSON or not. */
  args: unknown;
}

/** One scripted answer. The parts take effect in the order in which they stand here. */
export interface Reply {
  /** This reply serves the first `times` tries of its step only, `then` the later ones. */
  times?: number | undefined;
  /** Without it, later tries get the default answer. */
  then?: Reply | undefined;
  delayMs?: number | undefined;
  /** Name of a gate: nothing is sent before it is released. */
  hold?: string | undefined;
  /** Ends the connection without an answer; after the chunks when the answer is a stream that has some. */
  disconnect?: boolean | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as the whole raw body, under `status` or 200. */
  malformed?: string | undefined;
  status?: number | undefined;
  /** JSON body sent under `status` or 200; without it a status from 300 up brings the error shape of the wire. */
  body?: unknown;
  text?: string | undefined;
  /** The deltas of a stream; their sum is the text where `text` is left out. */
  chunks?: string[] | undefined;
  /** A stream stops after its first `n` text deltas until the gate is released; a plain answer waits whole. */
  holdAfterChunk?: { n: number; gate: string } | undefined;
  toolCalls?: ReplyToolCall[] | undefined;
  /** The vendor's own word: `stop`, `length`, `tool_calls`, `content_filter` or any other. */
  finishReason?: string | undefined;
  usage?: ReplyUsage | undefined;
}

const count = z.int().min(0);
const gateName = z.string().min(1).max(200);

const replySchema: z.ZodType<Reply> = z.lazy(() =>
  z.strictObject({
    times: z.int().min(1).optional(),
    then: replySchema.optional(),
    delayMs: z.number().min(0).max(600_000).optional(),
    hold: gateName.optional(),
    disconnect: z.boolean().optional(),
    headers: z.record(z.string(), z.string()).optional(),
    malformed: z.string().optional(),
    status: z.int().min(200).max(599).optional(),
    body: z.unknown().optional(),
    text: z.string().optional(),
    chunks: z.array(z.string()).max(10_000).optional(),
    holdAfterChunk: z.strictObject({ n: count, gate: gateName }).optional(),
    toolCalls: z
      .array(z.strictObject({ id: z.string().min(1).optional(), name: z.string(), args: z.unknown() }))
      .max(1_000)
      .optional(),
    finishReason: z.string().optional(),
    usage: z
      .strictObject({
        inputTokens: count.optional(),
        outputTokens: count.optional(),
        cachedTokens: count.optional(),
        cacheWriteTokens: count.optional(),
      })
      .optional(),
  }),
);

export const scriptSchema = z.strictObject({ model: z.string().min(1), replies: z.array(replySchema).max(1_000) });

const scriptsMax = 1_000;
const triesKeptMax = 10_000;

interface Script {
  replies: Reply[];
  /** Position of calls that carry no key. */
  next: number;
}

/** The scripts of all models, and how often each step of a script was asked for. */
export class Scripts {
  readonly #scripts = new Map<string, Script>();
  readonly #tries = new Map<string, number>();

  /**
   * Sets the replies of a model; an empty list removes its script.
   * @throws ZodError when a reply has an unknown part, Error when there are too many scripts
   */
  set(model: string, replies: Reply[]): void {
    const script = scriptSchema.parse({ model, replies });
    if (!this.#scripts.has(model) && this.#scripts.size >= scriptsMax)
      throw new Error(`More than ${scriptsMax} scripts`);
    for (const key of [...this.#tries.keys()]) if (key.startsWith(`${model}\n`)) this.#tries.delete(key);
    if (script.replies.length === 0) this.#scripts.delete(model);
    else this.#scripts.set(model, { replies: script.replies, next: 0 });
  }

  has(model: string): boolean {
    return this.#scripts.has(model);
  }

  models(): string[] {
    return [...this.#scripts.keys()];
  }

  /**
   * The reply for a call, or undefined when the default answer is due. The step picks the reply, so a repeated call
   * of a step gets the same one; calls without a key go through the list in order. The last reply serves all later steps.
   */
  choose(model: string, call: { key: string | null; step: number | null }): Reply | undefined {
    const script = this.#scripts.get(model);
    if (script === undefined) return undefined;
    const last = script.replies.length - 1;
    const index = Math.min(call.step === null ? script.next : Math.max(call.step, 1) - 1, last);
    const attempt = this.#countTry(`${model}\n${call.step === null ? `#${script.next}` : (call.key ?? '')}`);
    const chosen = replyOfTry(script.replies[index], attempt);
    if (call.step === null && !chosen.repeats) script.next += 1;
    return chosen.reply;
  }

  reset(): void {
    this.#scripts.clear();
    this.#tries.clear();
  }

  #countTry(key: string): number {
    const attempt = (this.#tries.get(key) ?? 0) + 1;
    this.#tries.delete(key);
    this.#tries.set(key, attempt);
    const oldest = this.#tries.keys().next();
    if (this.#tries.size > triesKeptMax && oldest.done !== true) this.#tries.delete(oldest.value);
    return attempt;
  }
}

/** Follows `times` and `then` to the reply of the given try (1-based); `repeats` while an error reply is still due. */
function replyOfTry(first: Reply | undefined, attempt: number): { reply: Reply | undefined; repeats: boolean } {
  let reply = first;
  let left = attempt;
  while (reply !== undefined && (reply.times !== undefined || reply.then !== undefined)) {
    const times: number = reply.times ?? 1;
    if (left <= times) return { reply, repeats: true };
    left -= times;
    reply = reply.then;
  }
  return { reply, repeats: false };
}
