import { activityInfo } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { attemptOnce, postpone } from '../api/webhooks/attempt';
import type { AttemptOutcome } from '../api/webhooks/attempt';
import { readDelivery } from '../api/webhooks/due';
import type { DueDelivery } from '../api/webhooks/due';
import { clock, shifted } from '../api/core/clock';
import { placeWaitMs } from '../workflows/backoff';
import type { DeliveryInput } from '../workflows/webhooks.contract';
import { retryIn, rowGone } from './failures';
import { leaving, withHeartbeats } from './heartbeats';

/** How far the engine's timer may run ahead of the row's time: the two clocks are not one. */
const EARLY_MS_MAX = 200;
const ABORTED_WAIT_MS = 1_000;

/** Activities that move webhook deliveries. */
export const webhookActivities = () => ({
  /**
   * Makes the next due attempt of a delivery and records it; the row holds the count and the state. Throws with the wait
   * before the next try, and for good once the delivery has failed. Repeating is safe: it goes by the row.
   * Spec: Delivery behaviour.
   */
  attemptDelivery: ({ deliveryId }: DeliveryInput): Promise<void> =>
    withHeartbeats(async (attempt) => {
      const delivery = await readDelivery(deliveryId, 'run');
      if (delivery === null) throw rowGone();
      if (delivery.status !== 'pending') return; // An earlier try, or the process that made the event, settled it.
      const earlyMs = msUntilDue(delivery);
      if (earlyMs > 0) throw retryIn(earlyMs); // Nothing sent, nothing counted.
      await conclude(delivery, await attemptOnce(delivery, leaving(attempt)));
    }),
});

/** Rest of the claim of the process that committed the delivery, or of the wait before its next attempt. */
function msUntilDue({ claimedUntil, nextAttemptAt }: DueDelivery): number {
  const nowMs = clock.ms();
  const claimedMs = (claimedUntil?.getTime() ?? 0) - nowMs;
  const plannedMs = (nextAttemptAt?.getTime() ?? 0) - nowMs;
  return Math.max(claimedMs, plannedMs > EARLY_MS_MAX ? plannedMs : 0);
}

/** Turns an outcome into what the engine is to do. After a recorded failure nothing may stand between record and throw. */
async function conclude(delivery: DueDelivery, outcome: AttemptOutcome): Promise<void> {
  switch (outcome.kind) {
    case 'success':
      return;
    case 'retry':
      throw retryIn(outcome.nextAttemptAt.getTime() - clock.ms());
    case 'failed':
      throw ApplicationFailure.nonRetryable('DELIVERY_FAILED', 'DELIVERY_FAILED');
    case 'late':
      throw retryIn(1); // The row has moved: the next try goes by what it says.
    case 'aborted':
      throw retryIn(ABORTED_WAIT_MS);
    case 'no_place': {
      const waitMs = placeWaitMs(activityInfo().attempt);
      await postpone(delivery, shifted(clock.now(), waitMs));
      throw retryIn(waitMs);
    }
  }
}
