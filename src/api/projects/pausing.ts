import { PROJECT_CHANGED, PROJECT_PAUSE, projectPauseId } from '../../workflows/projects.contract';
import type { ProjectRunInput } from '../../workflows/projects.contract';
import type { SweepKind } from '../../workflows/sweeps.contract';
import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError } from '../core/errors';
import { faultPoint } from '../core/faults';
import { errorFacts, log } from '../core/log';
import { signalWithStart } from '../core/temporal';
import type { RunInput, RunMemo } from '../core/temporal';
import { recordEvent } from '../webhooks/deliveries';
import { firstAttempts } from '../webhooks/first-attempts';
import { heldProject } from './held';
import type { Project } from './models';
import { presentPause } from './present';

/** Who asked for a change; ids only. */
export interface Starter {
  requestId: string;
  principalId: string;
}

/**
 * Stops everything that starts in a project. Row, event and marker are one transaction; live runs and Schedules follow by the
 * workflow `projectPause`. Safe to repeat: a paused project keeps its first time and reason, and no second event is made.
 * Spec: Projects, pause.
 * @throws not_found, PROJECT_ARCHIVED
 */
export async function pauseProject(projectId: string, reason: string | null, by: Starter): Promise<Project> {
  return changePause(projectId, by, (project) => {
    if (project.pausedAt !== null) return null;
    return { type: 'project.paused', pausedAt: clock.now(), pauseReason: reason };
  });
}

/**
 * Lets a paused project run again; what was held by itself stays so. Not repeatable: the second call finds no pause.
 * Spec: Projects, resume.
 * @throws not_found, PROJECT_ARCHIVED, PROJECT_NOT_PAUSED
 */
export async function resumeProject(projectId: string, by: Starter): Promise<Project> {
  return changePause(projectId, by, (project) => {
    if (project.pausedAt === null) throw new ApiError('PROJECT_NOT_PAUSED', 'The project is not paused.');
    return { type: 'project.resumed', pausedAt: null, pauseReason: null };
  });
}

interface PauseChange {
  type: 'project.paused' | 'project.resumed';
  pausedAt: Date | null;
  pauseReason: string | null;
}

/** Makes the change that `decide` wants of the held row, null = none, with its event and its marker. */
async function changePause(
  projectId: string,
  by: Starter,
  decide: (project: Project) => PauseChange | null,
): Promise<Project> {
  const { project, deliveries } = await inTransaction(async (tx) => {
    const held = await heldProject(projectId, tx);
    if (held.status === 'archived') throw new ApiError('PROJECT_ARCHIVED', 'The project is archived.');
    const change = decide(held);
    if (change === null) return { project: held, deliveries: null };
    const { type, ...values } = change;
    await held.update({ ...values, updatedAt: clock.now() }, { transaction: tx });
    await markChanged(projectId, tx);
    const event = { projectId, type, resourceType: 'project', resourceId: projectId, data: presentPause(held) };
    return { project: held, deliveries: await recordEvent(tx, event) };
  });
  if (deliveries === null) return project;
  await faultPoint('project-changed');
  firstAttempts.offer(deliveries);
  await startProjectPause(projectId, by);
  return project;
}

/**
 * Notes, in the transaction of a change of pause or status, that the world does not agree with the row yet. No two changes
 * have the same time, so that a run can tell whether it saw the last one.
 */
export async function markChanged(projectId: string, tx: Tx): Promise<void> {
  await query(
    `insert into project_pauses (project_id, changed_at) values ($1, $2)
     on conflict (project_id) do update set run_seen_at = null,
       changed_at = greatest(excluded.changed_at, project_pauses.changed_at + interval '1 millisecond')`,
    [projectId, clock.now()],
    tx,
  );
}

/** A change that has not reached everything yet, with what the project's row says now. */
export interface OpenChange {
  changedAt: Date;
  /** Whether runs and Schedules may go on. */
  runs: boolean;
}

/** The open change of a project, marked as seen by its run; null when row and world agree. Safe to repeat. */
export async function openChange(projectId: string): Promise<OpenChange | null> {
  return queryOne<OpenChange>(
    `update project_pauses m set run_seen_at = coalesce(m.run_seen_at, $2) from projects p
     where m.project_id = $1 and p.id = m.project_id and p.deleted_at is null
     returning m.changed_at as "changedAt", p.paused_at is null and p.status = 'active' as runs`,
    [projectId, clock.now()],
  );
}

/** Ends a change that has reached everything; false when another one came meanwhile. Safe to repeat. */
export async function closeChange(projectId: string, changedAt: Date): Promise<boolean> {
  await query('delete from project_pauses where project_id = $1 and changed_at = $2', [projectId, changedAt]);
  return (await queryOne('select project_id from project_pauses where project_id = $1', [projectId])) === null;
}

const pauseRun = (projectId: string, memo: RunMemo): RunInput => {
  const input: ProjectRunInput = { projectId };
  return {
    type: PROJECT_PAUSE,
    id: projectPauseId(projectId),
    args: [input],
    labels: { resourceType: 'project', resourceId: projectId, projectId },
    memo,
    mayRepeat: true,
  };
};

/** Starts or tells the run of a committed change. One that fails or is unknown is no error: the sweep starts it. */
export async function startProjectPause(projectId: string, by: Starter): Promise<void> {
  try {
    await signalWithStart(pauseRun(projectId, { ...by, trigger: 'api' }), PROJECT_CHANGED);
  } catch (error) {
    log.warn({ msg: 'start left to the sweep', project_id: projectId, ...errorFacts(error) });
  }
}

const rowsOf = async (sql: string, bind: unknown[]): Promise<{ id: string; run: RunInput }[]> =>
  (await query<{ id: string }>(sql, bind)).map(({ id }) => ({ id, run: pauseRun(id, { trigger: 'sweep' }) }));

/** How the sweeps find changes whose start was lost, and those without an open run. */
export const projectPauseSweep: SweepKind = {
  name: 'project_pauses',
  workflowType: PROJECT_PAUSE,
  endsByItself: true,
  unseen: async (olderThan, limit) => {
    const found = await rowsOf(
      `select project_id as id from project_pauses where run_seen_at is null and changed_at < $1
       order by changed_at limit $2`,
      [olderThan, limit],
    );
    return found.map(({ run }) => run);
  },
  unsettled: (afterId, limit) =>
    rowsOf('select project_id as id from project_pauses where project_id > $1 order by project_id limit $2', [
      afterId ?? '',
      limit,
    ]),
};
