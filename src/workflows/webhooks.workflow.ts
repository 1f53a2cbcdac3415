import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';
import { delivery as deliveryProfile } from './options';
import { isRowGone } from './row-gone';
import type { DeliveryInput } from './webhooks.contract';

const { attemptDelivery } = proxyActivities<Activities>(deliveryProfile);

/**
 * Brings one delivery to its end: one activity, tried until the row is settled. The row counts the attempts, and each try
 * names the wait before the next one. Ends as failed with the delivery, which operators see.
 */
export async function delivery({ deliveryId }: DeliveryInput): Promise<void> {
  try {
    await attemptDelivery({ deliveryId });
  } catch (error) {
    // Its webhook or project was deleted, and the delivery with it: there is nothing left to do.
    if (!isRowGone(error)) throw error;
  }
}
