import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { chatRequestOf, messagesWire, modelListing } from './model-server/anthropic';
import type { CallFacts, CallFilter, LiveCall, ModelCall } from './model-server/calls';
import { CallLog, parseKey } from './model-server/calls';
import { buildCompletion, chatWire } from './model-server/completion';
import type { Controls } from './model-server/control';
import { serveControl } from './model-server/control';
import { defaultReply } from './model-server/default-reply';
import { embeddingsAnswer } from './model-server/embeddings';
import { Exchange } from './model-server/exchange';
import { Gates } from './model-server/gates';
import { BodyTooLarge, listen, readBody, sendJson, stop } from './model-server/http';
import type { Reply } from './model-server/script';
import { Scripts } from './model-server/script';
import type { Wire } from './model-server/wire';
import { parseChatRequest, WireError } from './model-server/wire';

export type { CallFacts, CallFilter, ModelCall } from './model-server/calls';

/** Names that `GET /v1/models` lists beside the scripted ones; any other name is served as well. */
const listedModels = ['local-chat', 'local-embedding'];
const heldTimeoutMs = 10_000;

export interface ModelServerOptions {
  /** 0, the default, takes a free port. */
  port?: number;
  /** When set, requests under `/v1` with another bearer token or `x-api-key` are refused with 401. */
  apiKey?: string;
}

/** A running stand-in for a model vendor, on 127.0.0.1. */
export interface ModelServer extends Controls {
  /** Base URL for OpenAI and Anthropic clients, `/v1` included. */
  url: string;
  port: number;
  /** Every call since the last reset, also those that `calls` has forgotten. */
  facts(): CallFacts[];
  /** Resolves once a matching call is being held (a gate or a delay); rejects after `timeoutMs` (10,000). */
  waitForCall(filter?: CallFilter, timeoutMs?: number): Promise<ModelCall>;
  close(): Promise<void>;
}

/**
 * Starts the local model server: an HTTP service that speaks the wires of OpenAI and of Anthropic, whose answers are
 * deterministic, and scripted where asked. It stands in for a vendor in development and tests, and every answer says so in `X-Model-Server`.
 */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const service = new ModelService(options.apiKey ?? null);
  const { server, port } = await listen((request, response) => {
    void service.serve(request, response);
  }, options.port ?? 0);
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    script: (model, replies) => {
      service.script(model, replies);
    },
    calls: (filter) => service.calls(filter),
    facts: () => service.facts(),
    waitForCall: (filter = {}, timeoutMs = heldTimeoutMs) => service.waitForCall(filter, timeoutMs),
    release: (gate) => service.release(gate),
    reset: () => {
      service.reset();
    },
    close: () => stop(server),
  };
}

class ModelService implements Controls {
  readonly #log = new CallLog();
  readonly #scripts = new Scripts();
  readonly #gates = new Gates();
  readonly #underWay = new Set<Exchange>();
  readonly #apiKey: string | null;

  constructor(apiKey: string | null) {
    this.#apiKey = apiKey;
  }

  script(model: string, replies: Reply[]): void {
    this.#scripts.set(model, replies);
  }

  calls(filter?: CallFilter): ModelCall[] {
    return this.#log.list(filter);
  }

  facts(): CallFacts[] {
    return this.#log.facts();
  }

  waitForCall(filter: CallFilter, timeoutMs: number): Promise<ModelCall> {
    return this.#log.waitForHeld(filter, timeoutMs);
  }

  release(gate: string): number {
    return this.#gates.release(gate);
  }

  /** Forgets scripts, calls and gates, and ends the connections of calls under way. */
  reset(): void {
    for (const exchange of this.#underWay) exchange.disconnect();
    this.#scripts.reset();
    this.#gates.reset();
    this.#log.reset();
  }

  /** Serves one request; never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('X-Model-Server', 'local stand-in');
    try {
      await this.#route(request, response);
    } catch (error) {
      if (response.headersSent || response.destroyed) response.destroy();
      else sendJson(response, wireOf(request).errorAnswer(refusalOf(error)));
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://127.0.0.1').pathname;
    if (path.startsWith('/control/')) return serveControl(request, response, this);
    switch (`${request.method ?? ''} ${path}`) {
      case 'GET /':
        response.setHeader('content-type', 'text/plain; charset=utf-8');
        response.end('Local model server: a deterministic stand-in for a vendor of models. No model runs here.\n');
        return;
      case 'GET /v1/models':
        this.#authorise(request);
        sendJson(response, { status: 200, body: this.#models(wireOf(request)) });
        return;
      case 'POST /v1/chat/completions':
      case 'POST /v1/messages':
      case 'POST /v1/embeddings':
        return this.#serveCall(request, response, path);
      default:
        throw new WireError(404, `Unknown request URL: ${request.method ?? ''} ${path}`);
    }
  }

  #models(wire: Wire): unknown {
    const names = [...new Set([...listedModels, ...this.#scripts.models()])].sort();
    if (wire === messagesWire) return modelListing(names);
    return {
      object: 'list',
      data: names.map((id) => ({ id, object: 'model', created: 0, owned_by: 'local-stand-in' })),
    };
  }

  async #serveCall(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const call = await this.#record(request, path);
    const exchange = new Exchange({ response, call, calls: this.#log, gates: this.#gates, wire: wireOf(request) });
    this.#underWay.add(exchange);
    try {
      this.#authorise(request);
      const body = JSON.parse(call.text) as unknown;
      if (path === '/v1/embeddings') await this.#embed(exchange, call, body);
      else await this.#chat(exchange, call, path === '/v1/messages' ? chatRequestOf(body) : body);
    } finally {
      this.#underWay.delete(exchange);
    }
  }

  async #record(request: IncomingMessage, path: string): Promise<LiveCall> {
    const at = Date.now();
    const text = await readBody(request);
    const header = request.headers['idempotency-key'];
    const key = typeof header === 'string' && header !== '' ? header : null;
    const facts = { model: modelOf(text), key, ...parseKey(key), path, at, headers: request.headers };
    return this.#log.add({ ...facts, text, answered: false, aborted: false, waiting: false });
  }

  #authorise(request: IncomingMessage): void {
    const { authorization, 'x-api-key': key } = request.headers;
    if (this.#apiKey === null || authorization === `Bearer ${this.#apiKey}` || key === this.#apiKey) return;
    throw new WireError(401, 'Incorrect API key provided.');
  }

  async #chat(exchange: Exchange, call: LiveCall, body: unknown): Promise<void> {
    const request = parseChatRequest(body);
    const reply = this.#replyTo(call) ?? defaultReply(request);
    if (await exchange.preface(reply)) return;
    const created = Math.floor(call.at / 1000);
    const identity = `${request.model}\n${call.key ?? randomUUID()}`;
    const completion = buildCompletion({ request, reply, identity, created });
    if (request.stream !== true) await exchange.sendPlain(completion, reply);
    else await exchange.sendStream(completion, reply, request.stream_options?.include_usage === true);
  }

  /** Of a script's reply an embeddings call obeys delays, holds, faults, status and body. */
  async #embed(exchange: Exchange, call: LiveCall, body: unknown): Promise<void> {
    const answer = embeddingsAnswer(body);
    const reply = this.#replyTo(call) ?? {};
    if (await exchange.preface(reply)) return;
    exchange.send({ ...answer, headers: reply.headers });
  }

  #replyTo(call: LiveCall): Reply | undefined {
    if (this.#scripts.has(call.model)) return this.#scripts.choose(call.model, call);
    const status = /^error-([45]\d\d)$/.exec(call.model)?.[1];
    return status === undefined ? undefined : { status: Number(status) };
  }
}

/** Anthropic's clients name their version on every request. */
const wireOf = ({ url, headers }: IncomingMessage): Wire =>
  headers['anthropic-version'] !== undefined || url?.startsWith('/v1/messages') === true ? messagesWire : chatWire;

function refusalOf(error: unknown): { status: number; message: string; param?: string | null } {
  if (error instanceof WireError) return error;
  if (error instanceof BodyTooLarge) return { status: 413, message: error.message };
  if (error instanceof SyntaxError) return { status: 400, message: `The body is not valid JSON: ${error.message}` };
  return { status: 500, message: error instanceof Error ? error.message : String(error) };
}

/** The model that a body names, also when the rest of it is not understood. */
function modelOf(text: string): string {
  try {
    const body = JSON.parse(text) as unknown;
    const model = typeof body === 'object' && body !== null && 'model' in body ? body.model : undefined;
    return typeof model === 'string' ? model : '';
  } catch {
    return '';
  }
}
