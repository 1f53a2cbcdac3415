import { clock } from '../core/clock';
import { count, observe } from '../core/metrics';
import { inSpan } from '../core/tracing';
import type { AttemptOutcome } from './attempt';
import type { DueDelivery } from './due';

const COUNTED: ReadonlySet<AttemptOutcome['kind']> = new Set(['success', 'retry', 'failed']);

/**
 * Makes an attempt in a span, and counts it once it is recorded: its outcome, and of the first one how long it came after the
 * delivery was committed.
 */
export async function measuredAttempt(
  { id, attempts, createdAt }: DueDelivery,
  attempt: () => Promise<AttemptOutcome>,
): Promise<AttemptOutcome> {
  const lagSeconds = (clock.ms() - createdAt.getTime()) / 1000;
  const facts = { 'svc.delivery_id': id, 'svc.attempt': attempts + 1 };
  const outcome = await inSpan('webhook attempt', { kind: 'internal', facts }, async (span) => {
    const ended = await attempt();
    span.set({ 'svc.outcome': ended.kind });
    return ended;
  });
  count('deliveryAttempts', { outcome: outcome.kind, try: attempts === 0 ? 'first' : 'again' });
  if (attempts === 0 && COUNTED.has(outcome.kind)) observe('deliveryLag', {}, lagSeconds);
  return outcome;
}
