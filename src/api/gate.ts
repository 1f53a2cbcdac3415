import { kindAllows, mayOperate, narrowRole, PLATFORM_ADMIN, roleAllows, scopeAllows } from './core/access';
import type { Caller, ProjectNeeds } from './core/access';
import { isId } from './core/ids';
import { ApiError, notFound, unauthorized } from './core/errors';
import type { Admission, ProjectAccess, Route } from './core/route';
import { credentialOf } from './auth/credentials';
import type { Credential, CredentialRow } from './auth/credentials';

const BEARER = /^Bearer ([^\s]+)$/i;

/**
 * Resolves credential, membership, scope and role of a request, in that order, with one statement: everything is read
 * anew, so that a revoked key, a changed role or a removed member counts from the next call on.
 * @throws unauthorized, not_found (not a member, or no such project), access_denied
 */
export async function admit(
  route: Route,
  authorization: string | undefined,
  projectId: string | undefined,
): Promise<Admission> {
  const { needs } = route;
  if (needs.kind === 'none') return { caller: null, project: null };
  const bearer = BEARER.exec(authorization ?? '')?.[1];
  if (bearer === undefined) throw unauthorized();
  const asked = projectId !== undefined && isId('project', projectId) ? projectId : null;
  const found = await credentialOf(bearer, asked);
  if (found === null) throw unauthorized();
  const caller = callerOf(found.credential, found.row);
  if (needs.kind !== 'project') {
    if (!kindAllows(caller, needs)) throw new ApiError('access_denied', 'This kind of credential may not do that.');
    if (!mayOperate(caller, needs)) {
      throw new ApiError('access_denied', `This needs the platform role ${PLATFORM_ADMIN}.`, {
        details: { required_role: PLATFORM_ADMIN },
      });
    }
    return { caller, project: null };
  }
  return { caller, project: membershipOf(found.row, caller, needs) };
}

const callerOf = (credential: Credential, row: CredentialRow): Caller => ({
  kind: credential.kind,
  userId: row.user_id,
  credentialId: row.credential_id,
  scopeProjectId: row.scope_project_id,
  platformRoles: row.platform_roles,
});

function membershipOf(row: CredentialRow, caller: Caller, needs: ProjectNeeds): ProjectAccess {
  if (row.project_id === null || row.member_role === null || row.owner_user_id === null) throw notFound();
  if (!scopeAllows(caller, row.project_id)) {
    throw new ApiError('access_denied', 'The scope of this credential does not reach the project.');
  }
  if (needs.accountWide === true && caller.scopeProjectId !== null) {
    throw new ApiError('access_denied', 'A credential whose scope is one project may not do that.');
  }
  if (!roleAllows(row.member_role, needs.role)) throw narrowRole(needs.role);
  return {
    id: row.project_id,
    ownerUserId: row.owner_user_id,
    role: row.member_role,
    status: row.project_status ?? 'active',
    pausedAt: row.paused_at,
    pauseReason: row.pause_reason,
    traceContentMode: row.trace_content_mode ?? 'full',
  };
}
