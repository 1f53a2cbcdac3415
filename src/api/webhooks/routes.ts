import { projectRole } from '../core/access';
import { CursorQuery, presentCursorPage } from '../core/pages';
import { route } from '../core/route';
import { deliveryRoutes } from './delivery-routes';
import { presentWebhook, presentWebhookWithSecret } from './present';
import { recoverDeliveries } from './redelivery';
import {
  Recovery,
  RecoveryOut,
  WebhookCreate,
  WebhookOut,
  WebhookPage,
  WebhookPath,
  WebhookUpdate,
  WebhookWithSecret,
} from './schemas';
import { createWebhook, deleteWebhook, getWebhook, listWebhooks, rotateSecret, updateWebhook } from './service';

const PATH = '/v1/projects/:project_id/webhooks';

const shared = { needs: projectRole('member'), inputCode: 'bad_request' } as const;

export const webhookRoutes = [
  route({
    ...shared,
    method: 'post',
    path: PATH,
    id: 'createWebhook',
    summary: 'Register an endpoint; the answer holds its signing secret',
    action: 'webhooks:CreateWebhook',
    body: WebhookCreate,
    answers: { 201: WebhookWithSecret },
    fails: ['webhook_limit_reached'],
    handle: async ({ project, body }) => {
      const created = await createWebhook({ projectId: project.id, ...body });
      return { status: 201, body: presentWebhookWithSecret(created) };
    },
  }),
  route({
    ...shared,
    method: 'get',
    path: PATH,
    id: 'listWebhooks',
    summary: 'Endpoints of the project, newest first',
    action: 'webhooks:ListWebhooks',
    query: CursorQuery,
    answers: { 200: WebhookPage },
    handle: async ({ project, query }) => {
      const page = await listWebhooks({ projectId: project.id, limit: query.limit, cursor: query.cursor });
      return { status: 200, body: presentCursorPage(page, presentWebhook) };
    },
  }),
  route({
    ...shared,
    method: 'get',
    path: `${PATH}/:webhook_id`,
    id: 'getWebhook',
    summary: 'One endpoint',
    action: 'webhooks:GetWebhook',
    params: WebhookPath,
    answers: { 200: WebhookOut },
    handle: async ({ project, params }) => {
      const webhook = await getWebhook({ projectId: project.id, webhookId: params.webhook_id });
      return { status: 200, body: presentWebhook(webhook) };
    },
  }),
  route({
    ...shared,
    method: 'patch',
    path: `${PATH}/:webhook_id`,
    id: 'updateWebhook',
    summary: 'Change an endpoint, or switch it on or off',
    action: 'webhooks:UpdateWebhook',
    params: WebhookPath,
    body: WebhookUpdate,
    answers: { 200: WebhookOut },
    handle: async ({ project, params, body }) => {
      const webhook = await updateWebhook({ projectId: project.id, webhookId: params.webhook_id, changes: body });
      return { status: 200, body: presentWebhook(webhook) };
    },
  }),
  route({
    ...shared,
    method: 'post',
    path: `${PATH}/:webhook_id\\:rotate-secret`,
    id: 'rotateWebhookSecret',
    summary: 'Make a new signing secret; the old one stops at once',
    action: 'webhooks:RotateSecret',
    params: WebhookPath,
    answers: { 200: WebhookWithSecret },
    handle: async ({ project, params }) => {
      const rotated = await rotateSecret({ projectId: project.id, webhookId: params.webhook_id });
      return { status: 200, body: presentWebhookWithSecret(rotated) };
    },
  }),
  route({
    ...shared,
    method: 'post',
    path: `${PATH}/:webhook_id\\:recover`,
    id: 'recoverWebhook',
    summary: 'Send again what failed since a time',
    action: 'webhooks:RecoverDeliveries',
    params: WebhookPath,
    body: Recovery,
    answers: { 202: RecoveryOut },
    fails: ['webhook_inactive'],
    handle: async ({ project, params, body }) => {
      const since = new Date(body.since);
      const count = await recoverDeliveries({ projectId: project.id, webhookId: params.webhook_id, since });
      return { status: 202, body: { count } };
    },
  }),
  route({
    ...shared,
    method: 'delete',
    path: `${PATH}/:webhook_id`,
    id: 'deleteWebhook',
    summary: 'Remove an endpoint and its deliveries',
    action: 'webhooks:DeleteWebhook',
    params: WebhookPath,
    answers: { 204: null },
    handle: async ({ project, params }) => {
      await deleteWebhook({ projectId: project.id, webhookId: params.webhook_id });
      return { status: 204 };
    },
  }),
  ...deliveryRoutes,
];
