import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { CallFilter, ModelCall } from './calls';
import { readBody, sendJson } from './http';
import type { Reply } from './script';
import { scriptSchema } from './script';
import { errorAnswer, parseWith } from './wire';

/** What other processes may do with a running server; the same as inside its own. */
export interface Controls {
  script(model: string, replies: Reply[]): void;
  calls(filter?: CallFilter): ModelCall[];
  release(gate: string): number;
  reset(): void;
}

const releaseSchema = z.strictObject({ gate: z.string().min(1).max(200) });

/**
 * Serves `/control/...`: scripts, calls, release, reset.
 * @throws WireError 400 for a body that is not understood, SyntaxError for one that is not JSON
 */
export async function serveControl(
  request: IncomingMessage,
  response: ServerResponse,
  controls: Controls,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://127.0.0.1');
  switch (`${request.method ?? ''} ${url.pathname}`) {
    case 'POST /control/scripts': {
      const { model, replies } = parseWith(scriptSchema, JSON.parse(await readBody(request)));
      controls.script(model, replies);
      sendJson(response, { status: 200, body: { model, replies: replies.length } });
      return;
    }
    case 'GET /control/calls': {
      const model = url.searchParams.get('model') ?? undefined;
      const generationId = url.searchParams.get('generation_id') ?? undefined;
      sendJson(response, { status: 200, body: { data: controls.calls({ model, generationId }) } });
      return;
    }
    case 'POST /control/release': {
      const { gate } = parseWith(releaseSchema, JSON.parse(await readBody(request)));
      sendJson(response, { status: 200, body: { gate, released: controls.release(gate) } });
      return;
    }
    case 'POST /control/reset':
      controls.reset();
      sendJson(response, { status: 200, body: { ok: true } });
      return;
    default:
      sendJson(
        response,
        errorAnswer({ status: 404, message: `Unknown control: ${request.method ?? ''} ${url.pathname}` }),
      );
  }
}
