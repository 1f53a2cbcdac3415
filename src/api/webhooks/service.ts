import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { encrypt } from '../core/encryption';
import { ApiError, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import { randomBase64 } from '../core/random';
import { WEBHOOKS_MAX, Webhook } from './models';
import { withoutDuplicates } from './patterns';
import { SECRET_PREFIX } from './signing';

const SECRET_BYTES = 32;

/** What names one webhook. */
interface WebhookName {
  projectId: string;
  webhookId: string;
}

/** A webhook together with its secret, for the two answers that show it. */
export interface WebhookSecret {
  webhook: Webhook;
  secret: string;
}

const newSecret = (): string => SECRET_PREFIX + randomBase64(SECRET_BYTES);

const sealed = (webhookId: string, secret: string): { secretKeyId: string; secretData: Buffer } => {
  const { keyId, data } = encrypt(secret, { table: 'webhooks', column: 'secret', rowId: webhookId });
  return { secretKeyId: keyId, secretData: data };
};

/**
 * Registers an endpoint and makes its signing secret. Not idempotent.
 * Spec: Webhooks, rules 2 to 4.
 * @throws webhook_limit_reached with `details.limit`; not_found when the project has gone meanwhile
 */
export async function createWebhook(input: {
  projectId: string;
  url: string;
  events: string[];
  description: string | null;
  active: boolean;
}): Promise<WebhookSecret> {
  return inTransaction(async (tx) => {
    await assertRoom(input.projectId, tx);
    const id = newId('webhook');
    const secret = newSecret();
    const now = clock.now();
    const webhook = await Webhook.create(
      { ...input, id, events: withoutDuplicates(input.events), ...sealed(id, secret), createdAt: now, updatedAt: now },
      { transaction: tx },
    );
    return { webhook, secret };
  });
}

/** Counts under the lock of the project's row, so that of two registrations at once only one takes the last place. */
async function assertRoom(projectId: string, tx: Tx): Promise<void> {
  const project = await queryOne('select id from projects where id = $1 for no key update', [projectId], tx);
  if (project === null) throw notFound();
  const count = await Webhook.count({ where: { projectId }, transaction: tx });
  if (count < WEBHOOKS_MAX) return;
  throw new ApiError('webhook_limit_reached', `A project has at most ${String(WEBHOOKS_MAX)} webhooks.`, {
    details: { limit: WEBHOOKS_MAX },
  });
}

/**
 * Changes what is given and leaves the rest. Safe to repeat.
 * A new URL counts from the next attempt on, those of pending deliveries included.
 * @throws not_found
 */
export async function updateWebhook({
  projectId,
  webhookId,
  changes,
}: WebhookName & {
  changes: {
    url?: string | undefined;
    events?: string[] | undefined;
    description?: string | null | undefined;
    active?: boolean | undefined;
  };
}): Promise<Webhook> {
  return inTransaction(async (tx) => {
    const webhook = await lockedWebhook({ projectId, webhookId }, tx);
    const { url, events, description, active } = changes;
    webhook.set({
      ...(url === undefined ? {} : { url }),
      ...(events === undefined ? {} : { events: withoutDuplicates(events) }),
      ...(description === undefined ? {} : { description }),
      ...(active === undefined ? {} : { active }),
    });
    if (webhook.changed() !== false) await webhook.set({ updatedAt: clock.now() }).save({ transaction: tx });
    return webhook;
  });
}

/**
 * Makes a new secret; the old one stops verifying at once, at retries of queued deliveries too. Each call makes another.
 * Spec: Webhooks, rule 4.
 * @throws not_found
 */
export async function rotateSecret(name: WebhookName): Promise<WebhookSecret> {
  return inTransaction(async (tx) => {
    const webhook = await lockedWebhook(name, tx);
    const secret = newSecret();
    await webhook.set({ ...sealed(webhook.id, secret), updatedAt: clock.now() }).save({ transaction: tx });
    return { webhook, secret };
  });
}

async function lockedWebhook({ projectId, webhookId }: WebhookName, tx: Tx): Promise<Webhook> {
  const webhook = await Webhook.findOne({
    where: { id: webhookId, projectId },
    transaction: tx,
    lock: tx.LOCK.NO_KEY_UPDATE,
  });
  if (webhook === null) throw notFound();
  return webhook;
}

/**
 * Removes an endpoint with its deliveries; nothing more is sent to it.
 * @throws not_found, at a repeat too
 */
export async function deleteWebhook({ projectId, webhookId }: WebhookName): Promise<void> {
  const gone = await query('delete from webhooks where id = $1 and project_id = $2 returning id', [
    webhookId,
    projectId,
  ]);
  if (gone.length === 0) throw notFound();
}

/** @throws not_found */
export async function getWebhook({ projectId, webhookId }: WebhookName): Promise<Webhook> {
  const webhook = await Webhook.findOne({ where: { id: webhookId, projectId } });
  if (webhook === null) throw notFound();
  return webhook;
}

/** One page of a project's endpoints, newest first. @throws bad_request at `query.cursor` */
export const listWebhooks = ({
  projectId,
  limit,
  cursor,
}: {
  projectId: string;
  limit: number;
  cursor: string | undefined;
}) => listByCursor(Webhook, { where: { projectId }, limit, cursor, scope: { route: 'listWebhooks', projectId } });
