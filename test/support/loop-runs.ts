import type { ModelServer } from '../../src/local/model-server';
import { buildAgent, buildClientTool, buildHttpTool, saying } from './builders';
import type { Workspace } from './builders';
import type { Reply } from './client';
import { eventually } from './eventually';
import { expectedOf } from './loop-model';
import type { Expected, Rest, Script } from './loop-model';
import { CALLS, repliesOf } from './loop-scripts';
import type { Receiver } from './receiver';
import { openStream } from './stream';

type Json = Reply['body'];

/** Where scripts are played. */
export interface LoopStage {
  space: Workspace;
  token: string;
  baseUrl: string;
  server: Pick<ModelServer, 'script' | 'calls' | 'waitForCall'>;
  toolIds: string[];
  /** Processes are killed meanwhile: who is cut off asks again, with an idempotency key, and may miss an answer. */
  kills: boolean;
  /** What an answer of the model takes. */
  delayMs: number;
}

/** A script under way or played; `id` once it is known. */
export interface Played {
  script: Script;
  expected: Expected;
  id: string;
}

/** Restarts of processes included, on a busy machine. */
const REST_MS = 90_000;

/** The tools that scripts call; the receiver plays their servers. */
export async function loopTools(space: Workspace, receiver: Receiver): Promise<string[]> {
  for (const id of ['found', 'refused', 'broken']) receiver.respond(toolAnswer(id), `/loop/${id}`);
  const url = `${receiver.url}/loop/{order_id}`;
  const tools = await Promise.all([
    buildHttpTool(space, url, { name: 'order' }),
    // A read would be tried three times, with pauses.
    buildHttpTool(space, '', { name: 'write', execute: { url, method: 'POST' } }),
    buildClientTool(space, { name: 'person' }),
  ]);
  return tools.map(({ id }) => id);
}

const toolAnswer = (id: string): object => {
  if (id === 'refused') return { status: 404, body: { error: 'there is none' } };
  return id === 'broken' ? { disconnect: true } : { body: { found: true } };
};

/** What somebody who waits is told of a rest, by an answer or by a stream. */
type Told =
  | { kind: 'paused'; asks: number }
  | { kind: 'completed'; content: string; finishReason: string }
  | { kind: 'failed'; status: number; code: string; message: string }
  | { kind: 'stream'; said: string; end: string; asks: number; error: string | null };

const messageOf = (provider: number | null): string =>
  provider === null
    ? 'The generation was cancelled.'
    : `Provider returned ${String(provider)}: The local stand-in was asked to answer ${String(provider)}`;

/** What an answer must say of a rest. */
function answerOf(rest: Rest): Told {
  if (rest.kind === 'paused') return { kind: 'paused', asks: rest.asks };
  if (rest.kind === 'completed') return { kind: 'completed', content: rest.content, finishReason: rest.finishReason };
  const [status, code] = rest.provider === null ? [500, 'GENERATION_FAILED'] : [502, 'AI_PROVIDER_ERROR'];
  return { kind: 'failed', status, code, message: messageOf(rest.provider) };
}

/** What a stream must have said at its end. */
const streamOf = (rest: Rest): Told => ({
  kind: 'stream',
  said: rest.said,
  end: rest.kind === 'failed' ? 'error' : '[DONE]',
  asks: rest.kind === 'paused' ? rest.asks : 0,
  error: rest.kind === 'failed' ? messageOf(rest.provider) : null,
});

function toldBy({ status, body }: Reply): Told {
  if (status !== 200) {
    const { code, message } = body.error as { code: string; message: string };
    return { kind: 'failed', status, code, message };
  }
  if (body.status === 'requires_action') return { kind: 'paused', asks: body.required_action.tool_calls.length };
  return { kind: 'completed', content: body.output.content, finishReason: body.output.finish_reason };
}

const dataOf = (frames: string[]): string[] =>
  frames.flatMap((frame) => (frame.startsWith(':') ? [] : [frame.replace(/^id: .*\n/, '').slice('data: '.length)]));

/** The frames of a stream, those that were picked up too: all text, and what closes it. */
function toldByFrames(frames: string[]): Told {
  const data = dataOf(frames);
  const last = data.at(-1) ?? '';
  const parsed = data.filter((text) => text !== '[DONE]').map((text) => JSON.parse(text));
  const error: string | null = parsed.at(-1)?.error ?? null;
  return {
    kind: 'stream',
    said: parsed.map(({ choices }) => String(choices?.[0].delta.content ?? '')).join(''),
    end: last === '[DONE]' ? last : error === null ? `cut after ${last}` : 'error',
    asks: parsed.at(-1)?.required_action?.tool_calls.length ?? 0,
    error,
  };
}

const outcomeOf = (results: Json[], id: string): string => {
  const own = results.filter((result) => result.tool_call_id === id);
  if (own.length === 0) return 'none';
  expect(own).toHaveLength(1);
  return own[0].error === null ? 'result' : 'error';
};

let models = 0;

/** One script on its way: plays the caller's part, and holds every answer against the model of the loop and the record. */
export class LoopRun {
  readonly played: Played;
  private readonly model: string;
  private agentId = '';
  private keys = 0;
  /** The last result that was answered or streamed, whole. */
  private result: Json = null;

  constructor(
    private readonly stage: LoopStage,
    script: Script,
  ) {
    models += 1;
    this.model = `${stage.space.model}-loop-${String(models)}`;
    this.played = { script, expected: expectedOf(script), id: '' };
  }

  /** Writes the model and its agent; nothing may be killed meanwhile. */
  async prepare(): Promise<this> {
    const { space, server, toolIds, delayMs } = this.stage;
    const { script } = this.played;
    server.script(this.model, repliesOf(script, this.model, delayMs));
    const tools = toolIds.map((id) => ({ tool_id: id }));
    const agent = await buildAgent(space, { model: this.model, max_steps: script.maxSteps, tool_bindings: tools });
    this.agentId = agent.id;
    return this;
  }

  /** Plays the script to its end. @throws where an answer, the record or what was bought is not what it must be */
  async play(): Promise<Played> {
    const { script, expected } = this.played;
    const cancelling = this.cancelWhereHeld();
    let told = await this.begin();
    let seen = 0;
    for (const [index, rest] of expected.rests.entries()) {
      const found = await this.restOf(seen);
      this.same(found, rest, told);
      expect(await this.pickedUp()).toEqual(streamOf(rest));
      seen = found.step_count as number;
      if (rest.kind !== 'paused' || index === expected.rests.length - 1) break;
      told = await this.afterPause(found, script.steps[seen - 1]?.atPause ?? 'leave');
    }
    await cancelling;
    await this.checkRecord();
    return this.played;
  }

  private async ask(verb: 'get' | 'post', path: string, body?: object): Promise<Reply> {
    const { api, at } = this.stage.space;
    const once = () => (verb === 'get' ? api.get(`${at}${path}`) : api.post(`${at}${path}`, body));
    if (!this.stage.kills) return once();
    const patiently = async (): Promise<Reply> => {
      const reply = await once();
      if (reply.status === 503) throw new Error(`${path} is 503: ${JSON.stringify(reply.body)}`);
      return reply;
    };
    return eventually(patiently, { timeoutMs: REST_MS, intervalMs: 200 });
  }

  private key(): object {
    this.keys += 1;
    return this.stage.kills ? { idempotency_key: `${this.model}-${String(this.keys)}` } : {};
  }

  /** Starts the run; null where nobody waits, or whoever waited was cut off. */
  private async begin(): Promise<Told | null> {
    const { mode } = this.played.script;
    const path = `/agents/${this.agentId}/generate`;
    const body = saying('go', this.key());
    if (mode === 'stream') {
      const told = await this.streamed(path, { ...body, stream: true });
      if (told !== null || this.played.id !== '') return told;
    }
    return this.answered(await this.ask('post', mode === 'wait' ? `${path}?wait=true` : path, body));
  }

  /** What an answer tells; null of one that only accepts. */
  private answered(reply: Reply): Told | null {
    const { status, body } = reply;
    const id = (body.id ?? body.error?.meta?.generation_id) as string;
    expect(id).toMatch(/^gen_/);
    if (this.played.id !== '') expect(id).toBe(this.played.id);
    this.played.id = id;
    this.result = status === 200 ? body : null;
    if (status !== 202) return toldBy(reply);
    expect(this.stage.kills || this.played.script.mode === 'background').toBe(true);
    return null;
  }

  private async streamed(path: string, body: object): Promise<Told | null> {
    const { baseUrl, space, token, kills } = this.stage;
    try {
      const open = await openStream(`${baseUrl}${space.at}${path}`, { token, body });
      expect(open.status).toBe(200);
      this.played.id = open.headers.get('x-svc-generation-id') ?? '';
      const frames = await open.rest();
      const [pause] = dataOf(frames).filter((text) => text.includes('"required_action"'));
      this.result = pause === undefined ? null : JSON.parse(pause);
      return toldByFrames(frames);
    } catch (error) {
      if (!kills || (error instanceof Error && 'matcherResult' in error)) throw error;
      return null; // Cut off with its process.
    }
  }

  /** Cancels the step that the model holds, in the script in which that is how it ends. */
  private async cancelWhereHeld(): Promise<void> {
    const { script, expected } = this.played;
    const step = expected.bought.length;
    if (script.steps[step - 1]?.cancelled !== true) return;
    const held = await this.stage.server.waitForCall({ model: this.model, step }, REST_MS);
    await this.cancel(held.generationId ?? '');
  }

  private async cancel(id: string): Promise<void> {
    const { status, body } = await this.ask('post', `/generations/${id}/cancel`, {});
    // Asked again after it was cut off: the first request may have done it.
    if (this.stage.kills && status === 409) return;
    expect([status, body.status, body.stop_reason]).toEqual([200, 'failed', 'cancelled']);
  }

  /** The record once the run rests beyond so many steps. */
  private restOf(steps: number): Promise<Json> {
    const { id } = this.played;
    return eventually(
      async () => {
        const { body } = await this.ask('get', `/generations/${id}`);
        if (body.status === 'in_progress' || (body.status === 'requires_action' && body.step_count <= steps))
          throw new Error(`${id} is still ${String(body.status)} after ${String(body.step_count)} steps`);
        return body;
      },
      { timeoutMs: REST_MS, intervalMs: this.stage.kills ? 300 : 25 },
    );
  }

  /** Holds what was told and what the record then says against the rest that was due, and against each other. */
  private same(found: Json, rest: Rest, told: Told | null): void {
    if (told !== null) expect(told).toEqual(told.kind === 'stream' ? streamOf(rest) : answerOf(rest));
    const pending = (found.required_action?.tool_calls ?? []) as { id: string; tool_name: string }[];
    expect(new Set(pending.map(({ id }) => id)).size).toBe(rest.kind === 'paused' ? rest.asks : 0);
    expect(found.error?.message ?? null).toBe(rest.kind === 'failed' ? messageOf(rest.provider) : null);
    const provider = rest.kind === 'failed' ? rest.provider : null;
    if (provider !== null)
      expect(found.error.meta).toMatchObject({ provider_status_code: provider, generation_id: found.id });
    if (told !== null) this.sameAsRecord(found);
  }

  /** A result of a pause or an end is the record of it. */
  private sameAsRecord(found: Json): void {
    if (this.result === null) return;
    const { id, trace_id, status, required_action: action = null } = this.result;
    expect({ id, trace_id, status, action }).toEqual({
      id: found.id,
      trace_id: found.trace_id,
      status: found.status,
      action: found.required_action,
    });
  }

  /** What a completed result says of the turn is what its transcript says. */
  private sameAsTranscript(transcript: Json): void {
    if (this.result?.output === undefined) return;
    const { response_messages: messages, finish_reason: finishReason } = this.result.output;
    const parts = (messages as Json[]).flatMap(({ content }) => content as Json[]);
    const idsOf = (type: string) => parts.filter((part) => part.type === type).map((part) => part.toolCallId as string);
    const steps = transcript.steps as Json[];
    expect([idsOf('tool-call'), idsOf('tool-result'), finishReason]).toEqual([
      steps.flatMap(({ tool_calls: calls }) => (calls as Json[]).map(({ id }) => id as string)),
      steps.flatMap(({ tool_results: results }) => (results as Json[]).map((result) => result.tool_call_id as string)),
      transcript.output.finish_reason,
    ]);
  }

  private async pickedUp(): Promise<Told> {
    const { baseUrl, space, token, kills } = this.stage;
    const url = `${baseUrl}${space.at}/generations/${this.played.id}/stream`;
    const once = async () => toldByFrames(await (await openStream(url, { token })).rest());
    return kills ? eventually(once, { timeoutMs: REST_MS, intervalMs: 200 }) : once();
  }

  private async afterPause(found: Json, what: 'submit' | 'cancel' | 'leave'): Promise<Told | null> {
    const { id } = this.played;
    if (what === 'cancel') {
      await this.cancel(id);
      return null;
    }
    const calls = found.required_action.tool_calls as { id: string }[];
    const outputs = calls.map((call) => ({ tool_call_id: call.id, output: { said: call.id } }));
    const path = `/agents/${this.agentId}/generate/${id}/tool-outputs`;
    return this.answered(await this.ask('post', path, { tool_outputs: outputs, ...this.key() }));
  }

  private async checkRecord(): Promise<void> {
    const { id, expected } = this.played;
    const { body: found } = await this.ask('get', `/generations/${id}`);
    const { body: transcript } = await this.ask('get', `/generations/${id}/transcript`);
    const end = expected.rests.at(-1);
    expect({
      status: found.status,
      stop_reason: found.stop_reason,
      error: found.error?.code ?? null,
      step_count: found.step_count,
      steps: (transcript.steps as Json[]).map(({ tool_calls: calls, tool_results: results }) =>
        (calls as Json[]).map((call) => ({ name: call.tool_name, outcome: outcomeOf(results, call.id) })),
      ),
      said: (transcript.steps as Json[]).map(({ text }) => text as string).join(''),
    }).toEqual({
      status: expected.status,
      stop_reason: expected.stopReason,
      error: expected.errorCode,
      step_count: expected.steps.length,
      steps: expected.steps.map((calls) => calls.map(({ kind, outcome }) => ({ name: CALLS[kind].name, outcome }))),
      said: end?.said ?? '',
    });
    this.sameAsTranscript(transcript);
    if (!this.stage.kills) expect(this.bought()).toEqual(expected.bought);
  }

  /** Requests that the provider got, by step. */
  private bought(): number[] {
    const counts: number[] = [];
    for (const { step } of this.stage.server.calls({ generationId: this.played.id }))
      counts[(step ?? 0) - 1] = (counts[(step ?? 0) - 1] ?? 0) + 1;
    return counts;
  }
}
