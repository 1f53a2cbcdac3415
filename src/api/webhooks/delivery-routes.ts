import { projectRole } from '../core/access';
import { presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import { getDelivery, listAttempts, listDeliveries } from './deliveries';
import { presentAttempts, presentDelivery } from './present';
import { redeliver } from './redelivery';
import { AttemptPage, DeliveryOut, DeliveryPage, DeliveryPath, DeliveryQuery } from './schemas';

const PATH = '/v1/projects/:project_id/webhook-deliveries';

const shared = { needs: projectRole('member'), inputCode: 'bad_request' } as const;

export const deliveryRoutes = [
  route({
    ...shared,
    method: 'get',
    path: PATH,
    id: 'listWebhookDeliveries',
    summary: 'Deliveries of the project, newest first',
    action: 'webhooks:ListDeliveries',
    query: DeliveryQuery,
    answers: { 200: DeliveryPage },
    handle: async ({ project, query: { limit, cursor, ...given } }) => {
      const filters = {
        webhookId: given.webhook_id,
        status: given.status,
        eventType: given.event_type,
        eventId: given.event_id,
      };
      const page = await listDeliveries({ projectId: project.id, filters, limit, cursor });
      return { status: 200, body: presentCursorPage(page, presentDelivery) };
    },
  }),
  route({
    ...shared,
    method: 'get',
    path: `${PATH}/:delivery_id`,
    id: 'getWebhookDelivery',
    summary: 'One delivery',
    action: 'webhooks:GetDelivery',
    params: DeliveryPath,
    answers: { 200: DeliveryOut },
    handle: async ({ project, params }) => {
      const view = await getDelivery({ projectId: project.id, deliveryId: params.delivery_id });
      return { status: 200, body: presentDelivery(view) };
    },
  }),
  route({
    ...shared,
    method: 'get',
    path: `${PATH}/:delivery_id/attempts`,
    id: 'listWebhookDeliveryAttempts',
    summary: 'The counted attempts of a delivery, first one first',
    action: 'webhooks:ListDeliveryAttempts',
    params: DeliveryPath,
    answers: { 200: AttemptPage },
    handle: async ({ project, params }) => {
      const attempts = await listAttempts({ projectId: project.id, deliveryId: params.delivery_id });
      return { status: 200, body: presentAttempts(attempts) };
    },
  }),
  route({
    ...shared,
    method: 'post',
    path: `${PATH}/:delivery_id\\:redeliver`,
    id: 'redeliverWebhookDelivery',
    summary: 'Send a stored payload again as a new delivery',
    action: 'webhooks:Redeliver',
    params: DeliveryPath,
    answers: { 202: DeliveryOut },
    fails: ['delivery_pending', 'webhook_inactive'],
    handle: async ({ project, params }) => {
      const view = await redeliver({ projectId: project.id, deliveryId: params.delivery_id });
      return { status: 202, body: presentDelivery(view) };
    },
  }),
];
