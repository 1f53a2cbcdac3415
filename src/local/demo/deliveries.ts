import { WebhookVerificationError, unwrap, verifyWebhook } from '@agent-platform/sdk';
import { Webhook } from 'standardwebhooks';
import { z } from 'zod';
import { verifySignature } from '../receiver';
import type { ReceivedRequest } from '../receiver';
import { poll } from './api-client';
import { holds } from './report';
import type { Scene } from './stage';

const DELIVERED_MS = 30_000;

const Envelope = z.object({ id: z.string(), type: z.string(), resource_id: z.string() });

/** The resource that a received request is about; null when it is no delivery. */
function resourceOf({ body }: ReceivedRequest): string | null {
  try {
    return Envelope.parse(JSON.parse(body)).resource_id;
  } catch {
    return null;
  }
}

const header = (request: ReceivedRequest, name: string): string => String(request.headers[name] ?? '');

/** Whether the library of the Standard Webhooks project takes the delivery for genuine. */
function passesLibrary(request: ReceivedRequest, secret: string): boolean {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
  try {
    new Webhook(secret).verify(request.body, Object.fromEntries(names.map((name) => [name, header(request, name)])));
    return true;
  } catch {
    return false;
  }
}

/** Whether the client takes the delivery for genuine. */
async function passesClient(request: ReceivedRequest, secret: string): Promise<boolean> {
  try {
    await verifyWebhook(request.body, request.headers, secret);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

/** Waits for the delivery about a run and checks it as a customer would, and as a forger would hope not. */
async function checkDelivery({ hooks, webhook, report }: Scene, generationId: string): Promise<string> {
  const request = await hooks.waitFor((candidate) => resourceOf(candidate) === generationId, DELIVERED_MS);
  const id = header(request, 'x-svc-delivery');
  report.fact('delivery', `${id} ${header(request, 'x-svc-event')} of ${generationId}`);
  holds(verifySignature(request, webhook.secret), `${id}: X-Svc-Signature does not verify`);
  holds(passesLibrary(request, webhook.secret), `${id}: the standardwebhooks library refuses it`);
  holds(await passesClient(request, webhook.secret), `${id}: the client refuses it`);
  const forged = { ...request, body: request.body.replace('generation.completed', 'generation.completee') };
  holds(forged.body !== request.body, `${id} is no event generation.completed`);
  holds(!verifySignature(forged, webhook.secret), `${id}: X-Svc-Signature verifies a changed body`);
  holds(!passesLibrary(forged, webhook.secret), `${id}: the standardwebhooks library takes a changed body`);
  holds(!(await passesClient(forged, webhook.secret)), `${id}: the client takes a changed body`);
  return id;
}

/** The deliveries of the given runs: received, verified in both ways, and recorded as a success. */
export async function checkDeliveries(scene: Scene, generationIds: string[]): Promise<void> {
  const { api, projectId, report } = scene;
  const ids: string[] = [];
  for (const generationId of generationIds) ids.push(await checkDelivery(scene, generationId));
  report.fact('verified', 'X-Svc-Signature by its rule, webhook-signature by the standardwebhooks library');
  report.fact('refused', 'the same with one letter of the body changed');
  for (const id of ids) {
    const params = { path: { project_id: projectId, delivery_id: id } };
    const settled = async (): Promise<{ status: string; attempts: number } | undefined> => {
      const delivery = await unwrap(api.GET('/v1/projects/{project_id}/webhook-deliveries/{delivery_id}', { params }));
      return delivery.status === 'pending' ? undefined : delivery;
    };
    const { status, attempts } = await poll(settled, { timeoutMs: DELIVERED_MS, goal: `the record of ${id}` });
    holds(status === 'success', `${id} is ${status} after ${String(attempts)} attempts`);
  }
  report.fact('recorded', `${String(ids.length)} deliveries, each a success`);
}
