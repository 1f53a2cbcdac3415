import { DELIVERY_WORKFLOW } from '../../workflows/webhooks.contract';
import type { DeliveryInput } from '../../workflows/webhooks.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock, shifted } from '../core/clock';
import { query } from '../core/db';
import { startRun } from '../core/temporal';
import type { RunInput, StartOutcome } from '../core/temporal';

/** How long after its time a pending delivery counts as left behind. */
const OVERDUE_MS = 15_000;

/** What a run is started from. */
export interface DeliveryRow {
  id: string;
  projectId: string;
}

/** The run that moves a delivery. Its id is the delivery's, so that starting twice is harmless. */
function deliveryRun(
  { id, projectId }: DeliveryRow,
  { trigger, repair }: { trigger: string; repair: boolean },
): RunInput {
  const input: DeliveryInput = { deliveryId: id };
  return {
    type: DELIVERY_WORKFLOW,
    id,
    args: [input],
    labels: { resourceType: 'webhook_delivery', resourceId: id, projectId },
    memo: { trigger },
    mayRepeat: repair,
  };
}

/**
 * Starts the workflow of a delivery whose first attempt failed or is not made here. Safe to repeat.
 * @throws whatever kept the engine from answering; `sweep/starts` repairs it
 */
export const startDelivery = (row: DeliveryRow): Promise<StartOutcome> =>
  startRun(deliveryRun(row, { trigger: 'event', repair: false }));

/**
 * Starts the workflow of each pending delivery of a resource's events: for an activity that finds its settlement stored
 * and cannot know whether the process that stored it lived to make the first attempts. A delivery that another process
 * has claimed is not sent before the claim ends. Safe to repeat.
 * @throws whatever kept the engine from answering
 */
export async function startPendingDeliveries(projectId: string, resourceId: string): Promise<void> {
  const rows = await query<{ id: string }>(
    `select d.id from events e join webhook_deliveries d on d.event_id = e.id
     where e.project_id = $1 and e.resource_id = $2 and d.status = 'pending'`,
    [projectId, resourceId],
  );
  for (const { id } of rows) await startDelivery({ id, projectId });
}

const rowsOf = async (sql: string, bind: unknown[]): Promise<DeliveryRow[]> =>
  (await query<{ id: string; project_id: string }>(sql, bind)).map((row) => ({
    id: row.id,
    projectId: row.project_id,
  }));

const repairOf = (row: DeliveryRow): RunInput => deliveryRun(row, { trigger: 'sweep', repair: true });

/** Deliveries, as the sweeps see them: pending ones belong to a run, unless a process has claimed their first attempt. */
export const deliverySweep: SweepKind = {
  name: 'webhook_deliveries',
  workflowType: DELIVERY_WORKFLOW,
  endsByItself: true,
  unseen: async (_olderThan, limit) => {
    const now = clock.now();
    const rows = await rowsOf(
      `select id, project_id from webhook_deliveries
       where status = 'pending' and next_attempt_at < $1 and (claimed_until is null or claimed_until < $2)
       order by next_attempt_at limit $3`,
      [shifted(now, -OVERDUE_MS), now, limit],
    );
    return rows.map(repairOf);
  },
  unsettled: async (afterId, limit) => {
    const rows = await rowsOf(
      `select id, project_id from webhook_deliveries
       where status = 'pending' and next_attempt_at is not null and (claimed_until is null or claimed_until < $1) and id > $2
       order by id limit $3`,
      [clock.now(), afterId ?? '', limit],
    );
    return rows.map((row) => ({ id: row.id, run: repairOf(row) }));
  },
};
