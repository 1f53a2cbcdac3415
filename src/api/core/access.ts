/** Pure rules: what the kind and scope of a credential and a role in a project allow. */

import { ApiError } from './errors';

export const roles = ['member', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];

/** Who makes a request, as its credential says. */
export interface Caller {
  kind: 'session' | 'api_key';
  userId: string;
  /** Session family or API key. */
  credentialId: string;
  /** The one project a project-scoped key reaches; null = every project of the user. */
  scopeProjectId: string | null;
  platformRoles: string[];
}

/** What a route asks of the caller. */
export type Needs =
  { kind: 'none' } | { kind: 'any' } | { kind: 'account' } | { kind: 'session' } | { kind: 'operator' } | ProjectNeeds;

/** A role in the project of the path; `accountWide` = not by a credential whose scope is one project. */
export interface ProjectNeeds {
  kind: 'project';
  role: Role;
  accountWide?: true;
}

export const noCredential = { kind: 'none' } as const;
export const anyCredential = { kind: 'any' } as const;
/** A session token or an account-scoped key. */
export const accountCredential = { kind: 'account' } as const;
/** A signed-in person only. */
export const sessionCredential = { kind: 'session' } as const;
/** A person with the platform role, by session token or account-scoped key. */
export const operatorCredential = { kind: 'operator' } as const;
/** A role in the project of the path, with any credential whose scope reaches it. */
export const projectRole = (role: Role, { accountWide }: { accountWide?: true } = {}): ProjectNeeds => ({
  kind: 'project',
  role,
  ...(accountWide === undefined ? {} : { accountWide }),
});

/** Whether a role is wide enough: `owner` over `admin` over `member`. */
export const roleAllows = (held: Role, needed: Role): boolean => roles.indexOf(held) >= roles.indexOf(needed);

/** The refusal of a member whose role is too narrow. */
export const narrowRole = (needed: Role): ApiError =>
  new ApiError('access_denied', `This needs the role ${needed} in the project.`, {
    details: { required_role: needed },
  });

/** Whether the credential's scope reaches a project. Scope narrows membership and never widens it. */
export const scopeAllows = (caller: Caller, projectId: string): boolean =>
  caller.scopeProjectId === null || caller.scopeProjectId === projectId;

/** The one role of the platform itself; it gives no access to projects. */
export const PLATFORM_ADMIN = 'admin';

/** Whether the kind of credential may use a route that stands outside a project. */
export function kindAllows(caller: Caller, needs: Needs): boolean {
  if (needs.kind === 'session') return caller.kind === 'session';
  if (needs.kind === 'account' || needs.kind === 'operator') return caller.scopeProjectId === null;
  return true;
}

/** Whether the caller's person may use a route of operators. */
export const mayOperate = (caller: Caller, needs: Needs): boolean =>
  needs.kind !== 'operator' || caller.platformRoles.includes(PLATFORM_ADMIN);

/** Principal of the records that a caller makes: an API key acts under its own id, a session as its person. */
export const principalOf = (caller: Caller): { type: 'api_key' | 'user'; id: string } =>
  caller.kind === 'api_key' ? { type: 'api_key', id: caller.credentialId } : { type: 'user', id: caller.userId };
