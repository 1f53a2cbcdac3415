import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';

const ANSWER_MS = 120_000;
const POLL_MS = 100;

const Refusal = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  }),
});

/** What to send, and how the answer looks; of the answer only the fields of `answer` are kept. */
export interface Call<Answer> {
  path: string;
  answer: z.ZodType<Answer>;
  body?: object;
}

/** The answer of a run while it comes. */
export interface OpenedStream {
  generationId: string;
  frames: AsyncIterable<string>;
}

/** The service's HTTP API, as any client would use it. */
export class DemoClient {
  constructor(
    private readonly baseUrl: string,
    private readonly credential: string | null,
  ) {}

  /** The same API under a credential: a session token or an API key. */
  as(credential: string): DemoClient {
    return new DemoClient(this.baseUrl, credential);
  }

  /** @throws Error with status, code and message of a refusal, or when the answer lacks a field */
  async get<Answer>(call: Call<Answer>): Promise<Answer> {
    return await this.send('GET', call);
  }

  /** Repeating makes what it makes once more. @throws as `get` */
  async post<Answer>(call: Call<Answer>): Promise<Answer> {
    return await this.send('POST', call);
  }

  /** Opens a stream and reads the data of its frames as they come. @throws as `get` when it is refused */
  async stream({ path, body }: Pick<Call<unknown>, 'path' | 'body'>): Promise<OpenedStream> {
    const response = await this.request('POST', path, body);
    if (!response.ok) throw refusalOf('POST', path, response.status, await response.text());
    return { generationId: response.headers.get('x-svc-generation-id') ?? '', frames: dataOf(response) };
  }

  private request(method: string, path: string, body: object | undefined): Promise<Response> {
    return fetch(`${this.baseUrl}${path}`, {
      method,
      headers: {
        ...(this.credential === null ? {} : { authorization: `Bearer ${this.credential}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  }

  private async send<Answer>(method: string, { path, answer, body }: Call<Answer>): Promise<Answer> {
    const response = await this.request(method, path, body);
    const text = await response.text();
    if (!response.ok) throw refusalOf(method, path, response.status, text);
    const parsed = answer.safeParse(JSON.parse(text));
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    throw new Error(`${method} ${path} answered without ${issue?.path.join('.') ?? 'a body'}: ${issue?.message ?? ''}`);
  }
}

const refusalOf = (method: string, path: string, status: number, text: string): Error =>
  new Error(`${method} ${path} answered ${String(status)} ${reasonIn(text)}`);

/** What stands behind `data: ` in each frame of a stream; comments are left out. */
async function* dataOf({ body }: Response): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const frame = text.slice(0, end);
      text = text.slice(end + 2);
      if (frame.startsWith('data: ')) yield frame.slice(6);
    }
  }
  return undefined;
}

/** Code and message of an error answer, with the first of the fields it names. */
function reasonIn(text: string): string {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return text.slice(0, 200);
  }
  const refusal = Refusal.safeParse(body);
  if (!refusal.success) return text.slice(0, 200);
  const { code, message, details } = refusal.data.error;
  const [first] = details ?? [];
  const isSaid = first === undefined || message.includes(first.message);
  return `${code}: ${message}${isSaid ? '' : ` (${first.path}: ${first.message})`}`;
}

/**
 * Asks every 100 ms until the answer is there.
 * @throws Error saying what did not come within `timeoutMs`
 */
export async function poll<Found>(
  look: () => Promise<Found | undefined> | Found | undefined,
  { timeoutMs, goal }: { timeoutMs: number; goal: string },
): Promise<Found> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() >= end) throw new Error(`${goal} did not come within ${String(timeoutMs / 1000)} s`);
    await sleep(POLL_MS);
  }
}
