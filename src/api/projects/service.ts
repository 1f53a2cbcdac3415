import type { Caller } from '../core/access';
import { clock } from '../core/clock';
import { inTransaction } from '../core/db';
import type { Tx } from '../core/db';
import { invariant, notFound } from '../core/errors';
import { newId } from '../core/ids';
import { listByCursor } from '../core/pages';
import type { Sql } from '../core/select';
import { assertProjectPlace, retentionWithin } from '../plans/service';
import { holdAccount } from '../users/service';
import { projectOfKey, rememberKey } from './idempotency';
import { addFoundingMember, roleIn, rolesIn } from './memberships';
import { Project } from './models';
import type { SeenProject } from './seen';
import type { ProjectSettings } from './settings';

export { activateWaitingMemberships, heldRoleIn, lockAddress } from './memberships';
export { assertRunnable } from './runnable';

/** What a new project may set, in the names of the API: the idempotency key stands for this very body. */
export interface NewProject extends ProjectSettings {
  name: string;
}

/** Whether a project keeps the content of its runs, in the caller's transaction. @throws not_found */
export async function projectContentMode(projectId: string, tx: Tx): Promise<'full' | 'none'> {
  const project = await Project.findByPk(projectId, { attributes: ['traceContentMode'], transaction: tx });
  if (project === null) throw notFound();
  return project.traceContentMode;
}

export interface CreateProjectInput {
  userId: string;
  body: NewProject;
  idempotencyKey: string | undefined;
}

/**
 * Makes a project with one member, its owner. Safe to repeat with an idempotency key: within 24 hours the same key and
 * body give the first project again (`created` false).
 * @throws idempotency_key_reused; plan_limit_reached
 */
export async function createProject({
  userId,
  body,
  idempotencyKey,
}: CreateProjectInput): Promise<SeenProject & { created: boolean }> {
  return inTransaction(async (tx) => {
    const claim = idempotencyKey === undefined ? null : { userId, key: idempotencyKey, request: { ...body } };
    // Of two requests with one key at once the second waits here, and then finds what the first one made.
    await holdAccount(userId, tx);
    if (claim !== null) {
      const made = await projectOfKey(claim, tx);
      if (made !== null) return { ...(await seenProject(made, userId, tx)), created: false };
    }
    const plan = await assertProjectPlace(userId, tx);
    const retention = retentionWithin(plan, body.trace_content_retention_days);
    const project = await insertProject(userId, { ...body, trace_content_retention_days: retention }, tx);
    if (claim !== null) await rememberKey(claim, project.id, tx);
    return { project, role: 'owner', created: true };
  });
}

async function insertProject(userId: string, body: NewProject, tx: Tx): Promise<Project> {
  const now = clock.now();
  const project = await Project.create(
    {
      id: newId('project'),
      ownerUserId: userId,
      name: body.name,
      maxConcurrentRuns: body.max_concurrent_runs ?? null,
      maxChainGenerations: body.max_chain_generations ?? null,
      maxOrchestrationRunDepth: body.max_orchestration_run_depth ?? null,
      auditReadsEnabled: body.audit_reads_enabled ?? false,
      managedConversion: body.managed_conversion ?? true,
      requirePricedModel: body.require_priced_model ?? false,
      traceContentMode: body.trace_content_mode ?? 'full',
      traceContentRetentionDays: body.trace_content_retention_days ?? null,
      pausedAt: null,
      pauseReason: null,
      createdAt: now,
      updatedAt: now,
    },
    { transaction: tx },
  );
  await addFoundingMember({ projectId: project.id, userId, now }, tx);
  return project;
}

async function seenProject(projectId: string, userId: string, tx: Tx): Promise<SeenProject> {
  const project = await Project.findByPk(projectId, { transaction: tx });
  const role = await roleIn({ projectId, userId }, tx);
  invariant(project !== null && role !== null, 'a remembered project exists, and its owner cannot leave it');
  return { project, role };
}

/** One project. Who may see it was asked before. @throws not_found when it went meanwhile */
export async function getProject(projectId: string): Promise<Project> {
  const project = await Project.findOne({ where: { id: projectId, deletedAt: null } });
  if (project === null) throw notFound();
  return project;
}

export interface ListProjectsInput {
  caller: Caller;
  status: 'active' | 'archived' | undefined;
  limit: number;
  cursor: string | undefined;
}

/**
 * The projects that the caller is a member of and that its credential reaches, newest first.
 * @throws bad_request at `query.cursor`
 */
export async function listProjects({
  caller,
  status,
  limit,
  cursor,
}: ListProjectsInput): Promise<{ rows: SeenProject[]; nextCursor: string | null }> {
  const { userId, scopeProjectId } = caller;
  const memberOf: Sql = (bind) =>
    `id in (select m.project_id from project_members m where m.user_id = ${bind(userId)})`;
  const where = {
    and: [memberOf],
    deletedAt: null,
    ...(scopeProjectId === null ? {} : { id: scopeProjectId }),
    ...(status === undefined ? {} : { status }),
  };
  const scope = { route: 'listProjects', user_id: userId, project_id: scopeProjectId, status };
  const { rows, nextCursor } = await listByCursor(Project, { where, limit, cursor, scope });
  const held = await rolesIn({ projectIds: rows.map((row) => row.id), userId });
  // A membership that ended between the two reads takes its row along.
  const seen = rows.flatMap((project) => {
    const role = held.get(project.id);
    return role === undefined ? [] : [{ project, role }];
  });
  return { rows: seen, nextCursor };
}
