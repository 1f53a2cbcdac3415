import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Chance } from './random';

/** What is read of answers; which of it is there depends on the route. */
const Body = z.looseObject({
  id: z.string().optional(),
  status: z.string().optional(),
  required_action: z
    .looseObject({ tool_calls: z.array(z.looseObject({ id: z.string(), tool_name: z.string() })) })
    .nullish(),
  error: z
    .looseObject({
      code: z.string().optional(),
      meta: z.looseObject({ generation_id: z.string().optional() }).optional(),
    })
    .nullish(),
});

export type AnswerBody = z.output<typeof Body>;

export interface Answer {
  status: number;
  body: AnswerBody;
}

export interface StreamAnswer {
  status: number;
  generationId: string | null;
  body: AnswerBody;
  end: 'whole' | 'failed' | 'cut';
}

/** Longer than any restart here: a caller who asks again until then is answered. */
const PATIENCE_MS = 120_000;
const ANSWER_MS = 45_000;

const parse = (text: string): AnswerBody => {
  try {
    return Body.parse(JSON.parse(text));
  } catch {
    return {};
  }
};

/** A caller of the API who takes any of the processes, and tries again where that is safe. */
export class Caller {
  constructor(
    private readonly baseUrls: string[],
    private readonly credential: string,
    private readonly chance: Chance,
  ) {}

  /** One request to one process; null when no whole answer came. */
  async once(path: string, body?: object): Promise<Answer | null> {
    try {
      const response = await this.send(path, body);
      return { status: response.status, body: parse(await response.text()) };
    } catch {
      return null;
    }
  }

  /** Asks again until the answer is none of a server in trouble: for reads and for what carries an idempotency key. */
  async untilAnswered(path: string, body?: object, patienceMs = PATIENCE_MS): Promise<Answer | null> {
    const end = performance.now() + patienceMs;
    for (;;) {
      const answer = await this.once(path, body);
      if (answer !== null && (answer.status < 500 || answer.body.error?.meta?.generation_id !== undefined))
        return answer;
      if (performance.now() > end) return null;
      await sleep(this.chance.between(100, 500));
    }
  }

  /** Opens a stream and reads it to its end; null when it did not even open. */
  async stream(path: string, body: object): Promise<StreamAnswer | null> {
    let response: Response;
    try {
      response = await this.send(path, body);
    } catch {
      return null;
    }
    const generationId = response.headers.get('x-svc-generation-id');
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const text = await response.text().catch(() => '');
    const end = text.includes('data: [DONE]') ? 'whole' : text.includes('data: {"error"') ? 'failed' : 'cut';
    return { status: response.status, generationId, body: isStream ? {} : parse(text), end };
  }

  private async send(path: string, body?: object): Promise<Response> {
    return await fetch(`${this.chance.pick(this.baseUrls)}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${this.credential}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  }
}
