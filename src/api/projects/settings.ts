import { roleAllows } from '../core/access';
import type { Role } from '../core/access';
import { clock } from '../core/clock';
import { inTransaction } from '../core/db';
import { ApiError } from '../core/errors';
import { planOf, retentionWithin } from '../plans/service';
import { holdAccount } from '../users/service';
import { heldProject } from './held';
import type { Project } from './models';
import { markChanged, startProjectPause } from './pausing';
import type { Starter } from './pausing';

/** What a project is made with and what may be changed of it, in the names of the API. */
export interface ProjectSettings {
  max_concurrent_runs?: number | null | undefined;
  max_chain_generations?: number | null | undefined;
  max_orchestration_run_depth?: number | null | undefined;
  audit_reads_enabled?: boolean | undefined;
  managed_conversion?: boolean | undefined;
  require_priced_model?: boolean | undefined;
  trace_content_mode?: 'full' | 'none' | undefined;
  trace_content_retention_days?: number | null | undefined;
}

/** What a change may set; what is absent stays. */
export interface ProjectChange extends ProjectSettings {
  name?: string | undefined;
  status?: 'active' | 'archived' | undefined;
  guardrail_ids?: string[] | undefined;
  default_model_route_id?: string | null | undefined;
}

/**
 * Changes the given settings of a project. Archiving holds its live runs and Schedules like a pause, making it active again
 * lets them go. Safe to repeat.
 * Spec: Projects, PATCH; archived.
 * @throws access_denied for a status by anybody but the owner, GUARDRAIL_NOT_FOUND, MODEL_ROUTE_NOT_FOUND, not_found, plan_limit_reached,
 *   PROJECT_ARCHIVED unless the change makes the project active
 */
export async function updateProject(
  { projectId, ownerUserId, role }: { projectId: string; ownerUserId: string; role: Role },
  change: ProjectChange,
  by: Starter,
): Promise<Project> {
  if (change.status !== undefined && !roleAllows(role, 'owner')) {
    throw new ApiError('access_denied', 'The status of a project is set by its owner.', {
      details: { required_role: 'owner' },
    });
  }
  assertNoReferences(change);
  const { trace_content_retention_days: days } = change;
  const { project, turned } = await inTransaction(async (tx) => {
    // The turn of a month lowers the plan and then its projects: the account first, as there.
    if (days !== undefined) await holdAccount(ownerUserId, tx);
    const held = await heldProject(projectId, tx);
    if (held.status === 'archived' && change.status !== 'active') {
      throw new ApiError('PROJECT_ARCHIVED', 'The project is archived.');
    }
    if (days !== undefined) retentionWithin(await planOf(held.ownerUserId, tx), days);
    const turns = change.status !== undefined && change.status !== held.status;
    await held.update({ ...valuesOf(change), updatedAt: clock.now() }, { transaction: tx });
    if (turns) await markChanged(projectId, tx);
    return { project: held, turned: turns };
  });
  if (turned) await startProjectPause(projectId, by);
  return project;
}

/** Guardrails and routes are not in this build, so every id is a foreign one. */
function assertNoReferences({
  guardrail_ids: guardrails = [],
  default_model_route_id: route = null,
}: ProjectChange): void {
  if (guardrails.length > 0) {
    throw new ApiError('GUARDRAIL_NOT_FOUND', 'guardrail_ids names no guardrail of this project.', {
      details: [{ path: 'guardrail_ids.0', message: 'names no guardrail of this project' }],
    });
  }
  if (route !== null) {
    throw new ApiError('MODEL_ROUTE_NOT_FOUND', 'default_model_route_id names no model route of this project.', {
      details: [{ path: 'default_model_route_id', message: 'names no model route of this project' }],
    });
  }
}

/** The columns of a change: one that was not given is left out, one that was given as null is null. */
function valuesOf(change: ProjectChange): Partial<Project> {
  const values = {
    name: change.name,
    status: change.status,
    maxConcurrentRuns: change.max_concurrent_runs,
    maxChainGenerations: change.max_chain_generations,
    maxOrchestrationRunDepth: change.max_orchestration_run_depth,
    auditReadsEnabled: change.audit_reads_enabled,
    managedConversion: change.managed_conversion,
    requirePricedModel: change.require_priced_model,
    traceContentMode: change.trace_content_mode,
    traceContentRetentionDays: change.trace_content_retention_days,
  };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
