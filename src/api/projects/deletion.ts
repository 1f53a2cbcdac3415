import { PROJECT_DELETION, projectDeletionId } from '../../workflows/projects.contract';
import type { ProjectRunInput } from '../../workflows/projects.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import { faultPoint } from '../core/faults';
import type { RunInput, RunMemo } from '../core/temporal';
import { deletionSweep, recordDeletion, startDeletion } from './deletions';
import type { Deletion } from './deletions';
import { Project } from './models';
import type { Starter } from './pausing';

/** How many of each kind of dependents a project has; every kind is named, those without any too. */
type Dependents = Record<
  'agent_count' | 'ai_provider_count' | 'tool_count' | 'secret_count' | 'generation_count' | 'trace_count',
  number
>;

/** The areas of these rows import this one, so it counts by statement and not through their services. */
const COUNT_DEPENDENTS = `
  select (select count(*)::int from agents where project_id = $1) as agent_count,
         (select count(*)::int from ai_providers where project_id = $1) as ai_provider_count,
         (select count(*)::int from tools where project_id = $1) as tool_count,
         (select count(*)::int from secrets where project_id = $1) as secret_count,
         (select count(*)::int from generations where project_id = $1) as generation_count,
         (select count(*)::int from traces where project_id = $1) as trace_count`;

/**
 * Deletes a project. In one transaction it is gone for everybody: its routes are 404, its keys and memberships end, nothing
 * more is delivered, its idempotency keys are free. Its runs and rows are removed by the workflow `projectDeletion`. Not
 * repeatable: a second call finds no project.
 * Spec: Projects, delete.
 * @throws not_found; PROJECT_HAS_DEPENDENTS with `meta` counts by kind, without force
 */
export async function deleteProject(
  { projectId, force }: { projectId: string; force: boolean },
  by: Starter,
): Promise<void> {
  await inTransaction(async (tx) => {
    // Whoever writes a row of the project holds this one meanwhile: after this, what is counted is all there is.
    const held = await Project.findOne({ where: { id: projectId, deletedAt: null }, transaction: tx, lock: true });
    if (held === null) throw notFound();
    if (!force) await refuseDependents(projectId, tx);
    const now = clock.now();
    await held.update({ deletedAt: now, updatedAt: now }, { transaction: tx });
    for (const statement of ENDED_AT_ONCE) await query(statement, [projectId], tx);
    await recordDeletion({ kind: 'project', id: projectId, projectId }, tx);
  });
  await faultPoint('project-deleted');
  await startDeletion(deletionRun({ kind: 'project', id: projectId, projectId }, { ...by, trigger: 'api' }));
}

/** What must not be seen or act any longer, and is few enough for one transaction. */
const ENDED_AT_ONCE = [
  'delete from project_members where project_id = $1',
  'delete from api_keys where project_id = $1',
  'delete from project_idempotency_keys where project_id = $1',
  'delete from project_pauses where project_id = $1',
  'update webhooks set active = false where project_id = $1',
];

async function refuseDependents(projectId: string, tx: Tx): Promise<void> {
  const counts = await queryOne<Dependents>(COUNT_DEPENDENTS, [projectId], tx);
  if (counts === null || Object.values(counts).every((count) => count === 0)) return;
  throw new ApiError('PROJECT_HAS_DEPENDENTS', 'The project is not empty.', { meta: { ...counts } });
}

const deletionRun = ({ projectId }: Deletion, memo: RunMemo): RunInput => {
  const input: ProjectRunInput = { projectId };
  return {
    type: PROJECT_DELETION,
    id: projectDeletionId(projectId),
    args: [input],
    labels: { resourceType: 'project', resourceId: projectId, projectId },
    memo,
  };
};

/** How the sweeps find deletions of projects whose start was lost, and those without an open run. */
export const projectDeletionSweep: SweepKind = deletionSweep('project', {
  name: 'project_deletions',
  workflowType: PROJECT_DELETION,
  runOf: deletionRun,
});
