import type { Calls } from './calls';
import { WaitTimeoutError, errorOf, failureOf } from './errors';
import { backoffMs, sleep } from './retry';
import type { RetryPolicy } from './retry';
import { GenerationStream } from './stream';
import { runToolLoop } from './tool-loop';
import type { ToolHandlers, ToolLoopOptions } from './tool-loop';
import type { AgentTarget, GenerateRequest, Generation, GenerationResult, GenerationTarget, ToolOutput } from './types';

export interface WaitOptions {
  signal?: AbortSignal;
  /** The caller's own patience in milliseconds; without it the wait lasts as long as the run. */
  timeoutMs?: number;
}

export interface RunOptions extends WaitOptions {
  /** Names the request for good: a repeat starts nothing. Made where it is not given. */
  idempotencyKey?: string;
}

export interface StreamOptions {
  signal?: AbortSignal;
  idempotencyKey?: string;
  /** A connection that says nothing for so long is made anew; 45,000 ms by default. */
  idleMs?: number;
}

export interface PickUpOptions extends Omit<StreamOptions, 'idempotencyKey'> {
  /** Goes on after this event; without it from the start. */
  lastEventId?: string;
}

const IDLE_MS = 45_000;
/** How often a run is looked at, once the service has let a waiting call go. */
const LOOK: Pick<RetryPolicy, 'baseMs' | 'maxMs'> = { baseMs: 300, maxMs: 5_000 };

/** The body stays with the answer. */
const STREAMED = { parseAs: 'stream' } as object;
const agentPath = '/v1/projects/{project_id}/agents/{agent_id}/generate';
const generationPath = '/v1/projects/{project_id}/generations/{generation_id}';

/** Runs of agents: started, waited for, read as they speak, and given the outputs of their client tools. */
export class Generations {
  constructor(
    private readonly calls: Calls,
    private readonly retry: RetryPolicy,
  ) {}

  /** Starts a run and does not wait. @returns the id of the run @throws ApiError, ConnectionError */
  async start(target: AgentTarget, request: GenerateRequest, options: RunOptions = {}): Promise<string> {
    const patience = new Patience(options);
    const key = options.idempotencyKey ?? crypto.randomUUID();
    return patience.of(async () => (await this.#ask({ target, request, key, wait: false }, patience.signal)).id, key);
  }

  /**
   * Runs an agent and waits until the run completes or pauses, however long: where the service lets the call go, it goes on
   * waiting. Lost connections and refusals for the moment are tried again under one key, which starts one run.
   * @returns `completed` with `output` (none when the content is not kept), or `requires_action`
   * @throws ApiError also when the run failed, ConnectionError, WaitTimeoutError
   */
  async run(target: AgentTarget, request: GenerateRequest, options: RunOptions = {}): Promise<GenerationResult> {
    const patience = new Patience(options);
    const key = options.idempotencyKey ?? crypto.randomUUID();
    return patience.of(async () => {
      const asked = { target, request, key };
      let answer = await this.#ask({ ...asked, wait: true }, patience.signal);
      while (answer.status === 'accepted' || answer.status === 'in_progress') {
        patience.generationId = answer.id;
        await this.#untilRest({ projectId: target.projectId, generationId: answer.id }, patience.signal);
        answer = await this.#ask({ ...asked, wait: false }, patience.signal);
      }
      if (answer.status === 'failed') throw failureOf(answer, answer.error);
      return answer;
    }, key);
  }

  /**
   * Waits until a run rests: completed, failed or paused. @returns its record, also that of a failed run
   * @throws ApiError, ConnectionError, WaitTimeoutError
   */
  async wait(target: GenerationTarget, options: WaitOptions = {}): Promise<Generation> {
    const patience = new Patience(options);
    patience.generationId = target.generationId;
    return patience.of(() => this.#untilRest(target, patience.signal), null);
  }

  /**
   * Gives a paused run the outputs of its client tools and waits until it completes or pauses again.
   * @throws ApiError, ConnectionError, WaitTimeoutError
   */
  async submitToolOutputs(
    target: AgentTarget & GenerationTarget,
    outputs: readonly ToolOutput[],
    options: RunOptions = {},
  ): Promise<GenerationResult> {
    const patience = new Patience(options);
    const key = options.idempotencyKey ?? crypto.randomUUID();
    patience.generationId = target.generationId;
    return patience.of(async () => {
      // The same key waits for the result anew, as often as the service lets the call go.
      for (;;) {
        const { data, error, response } = await this.calls.POST(`${agentPath}/{generation_id}/tool-outputs`, {
          params: {
            path: {
              project_id: target.projectId,
              agent_id: target.agentId,
              generation_id: target.generationId,
            },
          },
          body: { tool_outputs: [...outputs] },
          headers: { 'Idempotency-Key': key },
          signal: patience.signal,
        });
        if (data === undefined) throw errorOf(response, error);
        if (data.status === 'failed') throw failureOf(data, data.error);
        if (data.status === 'completed' || data.status === 'requires_action') return data;
        await sleep(backoffMs(this.retry, 0), patience.signal);
      }
    }, key);
  }

  /**
   * Runs an agent and answers each of its pauses with the outputs of your functions, those of one pause at once. What a
   * function throws becomes its tool's output, `{"error": "<message>"}`, for the model to see.
   * @throws ToolLoopError for a tool without a function, ApiError when the run failed, ConnectionError, WaitTimeoutError
   */
  async runWithTools(
    target: AgentTarget,
    request: GenerateRequest,
    handlers: ToolHandlers,
    options: RunOptions & ToolLoopOptions = {},
  ): Promise<GenerationResult> {
    const patience = new Patience(options);
    const { signal } = patience;
    const key = options.idempotencyKey ?? crypto.randomUUID();
    return patience.of(async () => {
      const first = await this.run(target, request, { signal, idempotencyKey: key });
      patience.generationId = first.id;
      return runToolLoop(first, handlers, {
        ...options,
        target,
        signal,
        submit: (id, outputs) => this.submitToolOutputs({ ...target, generationId: id }, outputs, { signal }),
      });
    }, key);
  }

  /**
   * Runs an agent and reads its answer as the model speaks. Resolves when the stream is open; refusals throw here.
   * @throws ApiError, ConnectionError
   */
  async stream(target: AgentTarget, request: GenerateRequest, options: StreamOptions = {}): Promise<GenerationStream> {
    const reading = readingOf(options.signal);
    const { response, error } = await this.calls.POST(agentPath, {
      params: { path: pathOf(target) },
      body: { ...request, stream: true },
      headers: { 'Idempotency-Key': options.idempotencyKey ?? crypto.randomUUID(), Accept: 'text/event-stream' },
      ...STREAMED,
      signal: reading.signal,
    });
    if (!response.ok) throw errorOf(response, error);
    // A repeat of a request whose answer was lost, or a run whose start is being repaired: it is there to be picked up.
    const isOpen = response.status === 200;
    const generationId = isOpen
      ? (response.headers.get('x-svc-generation-id') ?? '')
      : ((await response.json()) as { id: string }).id;
    return this.#streamOf(
      { projectId: target.projectId, generationId },
      { ...reading, ...options },
      isOpen ? response : null,
    );
  }

  /** Picks the stream of a run up, while it runs and after. @throws ApiError, ConnectionError, at the first read */
  pickUp(target: GenerationTarget, options: PickUpOptions = {}): GenerationStream {
    return this.#streamOf(target, { ...readingOf(options.signal), ...options }, null);
  }

  #streamOf(
    target: GenerationTarget,
    { abort, signal, idleMs, lastEventId }: PickUpOptions & { abort: AbortController; signal: AbortSignal },
    opened: Response | null,
  ): GenerationStream {
    const params = { path: { project_id: target.projectId, generation_id: target.generationId } };
    return new GenerationStream({
      generationId: target.generationId,
      opened,
      abort,
      signal,
      lastEventId,
      retry: this.retry,
      idleMs: idleMs ?? IDLE_MS,
      pickUp: async (after) => {
        const { response, error } = await this.calls.GET(`${generationPath}/stream`, {
          params,
          headers: { Accept: 'text/event-stream', ...(after === undefined ? {} : { 'Last-Event-ID': after }) },
          ...STREAMED,
          signal,
        });
        if (!response.ok) throw errorOf(response, error);
        return response;
      },
      record: () => this.#read(target, signal),
      failure: (record, message) => failureOf(record, record.error ?? { message }),
    });
  }

  async #ask(
    { target, request, key, wait }: { target: AgentTarget; request: GenerateRequest; key: string; wait: boolean },
    signal: AbortSignal,
  ) {
    const { data, error, response } = await this.calls.POST(agentPath, {
      params: { path: pathOf(target), query: { wait: wait ? 'true' : 'false' } },
      body: request,
      headers: { 'Idempotency-Key': key },
      signal,
    });
    if (data === undefined) throw errorOf(response, error);
    return data;
  }

  async #untilRest(target: GenerationTarget, signal: AbortSignal): Promise<Generation> {
    for (let look = 0; ; look += 1) {
      const record = await this.#read(target, signal);
      if (record.status !== 'in_progress') return record;
      await sleep(backoffMs({ ...this.retry, ...LOOK }, Math.min(look, 8)), signal);
    }
  }

  async #read(target: GenerationTarget, signal: AbortSignal): Promise<Generation> {
    const { data, error, response } = await this.calls.GET(generationPath, {
      params: { path: { project_id: target.projectId, generation_id: target.generationId } },
      signal,
    });
    if (data === undefined) throw errorOf(response, error);
    return data;
  }
}

const pathOf = ({ projectId, agentId }: AgentTarget) => ({ project_id: projectId, agent_id: agentId });

function readingOf(given: AbortSignal | undefined): { abort: AbortController; signal: AbortSignal } {
  const abort = new AbortController();
  return { abort, signal: given === undefined ? abort.signal : AbortSignal.any([given, abort.signal]) };
}

/** How long a caller waits: its signal and its own time, under one signal. */
class Patience {
  readonly signal: AbortSignal;
  /** The run, once it is known. */
  generationId: string | null = null;
  readonly #over = new AbortController();

  constructor(private readonly options: WaitOptions) {
    const { signal } = options;
    this.signal = signal === undefined ? this.#over.signal : AbortSignal.any([signal, this.#over.signal]);
  }

  /** Does the work in the time there is. @throws WaitTimeoutError when it is up */
  async of<Value>(work: () => Promise<Value>, key: string | null): Promise<Value> {
    const { timeoutMs } = this.options;
    if (timeoutMs === undefined) return work();
    const timer = setTimeout(() => {
      const message = `The run did not rest within ${timeoutMs} ms; it goes on.`;
      this.#over.abort(new WaitTimeoutError(message, this.generationId, key));
    }, timeoutMs);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
    }
  }
}
