import type { Role } from '../core/access';
import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import { noteKeyUse } from './key-use';
import { API_KEY_PREFIX, digestOfSecret, isApiKey } from './secrets';
import { verifySessionToken } from './tokens';

export interface Credential {
  kind: 'session' | 'api_key';
}

/** A live credential, its user, and the user's membership in the project that was asked for. */
export interface CredentialRow {
  /** Session family or API key. */
  credential_id: string;
  user_id: string;
  platform_roles: string[];
  scope_project_id: string | null;
  /** This and what follows is null where no project was asked for, or the user is no member of it. */
  project_id: string | null;
  owner_user_id: string | null;
  project_status: 'active' | 'archived' | null;
  paused_at: Date | null;
  pause_reason: string | null;
  trace_content_mode: 'full' | 'none' | null;
  member_role: Role | null;
}

const USER_AND_PROJECT = `u.id as user_id, u.roles as platform_roles, p.id as project_id, p.owner_user_id,
    p.status as project_status, p.paused_at, p.pause_reason, p.trace_content_mode, m.role as member_role`;

const MEMBERSHIP = `left join project_members m on m.user_id = u.id and m.project_id = $1
    left join projects p on p.id = m.project_id and p.deleted_at is null`;

const BY_KEY = `
  select k.id as credential_id, k.project_id as scope_project_id, ${USER_AND_PROJECT}
  from api_keys k join users u on u.id = k.user_id ${MEMBERSHIP}
  where k.key_hash = $2`;

const BY_SESSION = `
  select f.id as credential_id, null as scope_project_id, ${USER_AND_PROJECT}
  from session_families f join users u on u.id = f.user_id ${MEMBERSHIP}
  where f.id = $2 and f.user_id = $3 and f.revoked_at is null and f.expires_at > $4`;

/**
 * Looks up a bearer credential, its user, and that user's membership in a project, in one statement; nothing of it is
 * remembered, so a revoked credential or a changed role counts from the next request on. The use of a key is noted for
 * later and never delays the request. Spec: Authentication, rule 5.
 * @returns null for whatever is not a live credential
 */
export async function credentialOf(
  bearer: string,
  projectId: string | null,
): Promise<{ credential: Credential; row: CredentialRow } | null> {
  const credential: Credential = { kind: bearer.startsWith(API_KEY_PREFIX) ? 'api_key' : 'session' };
  const row = credential.kind === 'api_key' ? await byKey(bearer, projectId) : await bySession(bearer, projectId);
  return row === null ? null : { credential, row };
}

async function byKey(secret: string, projectId: string | null): Promise<CredentialRow | null> {
  if (!isApiKey(secret)) return null;
  const row = await queryOne<CredentialRow>(BY_KEY, [projectId, digestOfSecret(secret)]);
  if (row !== null) noteKeyUse(row.credential_id);
  return row;
}

async function bySession(token: string, projectId: string | null): Promise<CredentialRow | null> {
  const claims = await verifySessionToken(token);
  if (claims === null) return null;
  return queryOne<CredentialRow>(BY_SESSION, [projectId, claims.familyId, claims.userId, clock.now()]);
}
