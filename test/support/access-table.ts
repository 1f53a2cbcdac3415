/**
 * Who may use which route, written down once more by hand: nothing here is read from the routes, so that a route whose
 * gate changes, or a new one that nobody thought about, fails the test of this table.
 */

/** Who asks. One project `this` has an owner, an admin and a member; the owner has another project. */
export const actors = [
  // What is no credential.
  'nobody',
  'garbage',
  'unknownKey',
  // Sessions.
  'owner',
  'admin',
  'member',
  'stranger',
  // Keys of a whole account.
  'ownerKey',
  'memberKey',
  'strangerKey',
  // Keys of one project: of `this` by owner and member, of the owner's other one.
  'ownerScoped',
  'memberScoped',
  'otherScoped',
  // A person with the platform role and no membership: session, key of the account, key of a project of their own.
  'operator',
  'operatorKey',
  'operatorScoped',
] as const;

export type Actor = (typeof actors)[number];

/** `in` = admitted; `403:admin` = refused, and `details.required_role` names the role. */
export type Verdict = 'in' | '401' | '403' | '403:admin' | '403:owner' | '404';

/**
 * What each actor gets, in the order of `actors`. A second word narrows by the kind of credential; of `row` the rest is
 * decided by what the path names, after the gate.
 */
const verdicts = {
  none: 'in  in  in   in  in        in        in         in  in        in         in  in        in   in  in  in',
  any: '401 401 401  in  in        in        in         in  in        in         in  in        in   in  in  in',
  account: '401 401 401  in  in        in        in         in  in        in         403 403       403  in  in  403',
  session: '401 401 401  in  in        in        in         403 403       403        403 403       403  in  403 403',
  operator:
    '401 401 401  403:admin 403:admin 403:admin 403:admin  403:admin 403:admin 403:admin  403 403  403  in  in  403',
  member: '401 401 401  in  in        in        404        in  in        404        in  in        403  404 404 404',
  admin: '401 401 401  in  in        403:admin 404        in  403:admin 404        in  403:admin 403  404 404 404',
  owner: '401 401 401  in  403:owner 403:owner 404        in  403:owner 404        in  403:owner 403  404 404 404',
  'admin, account':
    '401 401 401  in  in        403:admin 404        in  403:admin 404        403 403       403  404 404 404',
  row: '401 401 401  in  in        in        404        in  in        404        in  in        403  404 404 404',
  'row, account':
    '401 401 401  in  in        in        404        in  in        404        403 403       403  404 404 404',
} as const;

export type Who = keyof typeof verdicts;

/** What an actor gets at a route for whom. */
export function verdictOf(who: Who, actor: Actor): Verdict {
  const cells = verdicts[who].split(/ +/) as Verdict[];
  const verdict = cells[actors.indexOf(actor)];
  if (cells.length !== actors.length || verdict === undefined)
    throw new Error(`${who} has not a verdict for each actor`);
  return verdict;
}

const P = '/v1/projects/{project_id}';

/** Every route of the service. */
export const accessTable: Readonly<Record<string, Who>> = {
  'GET /health': 'none',
  'GET /openapi.json': 'none',
  'GET /docs': 'none',
  'GET /docs/{asset}': 'none',
  'GET /dev/mailbox': 'none',

  'POST /v1/auth/code': 'none',
  'POST /v1/auth/code/verify': 'none',
  'GET /v1/users/me': 'any',

  'POST /v1/api-keys': 'session',
  'GET /v1/api-keys': 'account',
  'GET /v1/api-keys/{api_key_id}': 'account',
  'PATCH /v1/api-keys/{api_key_id}': 'account',
  'POST /v1/api-keys/{api_key_id}:rotate': 'session',
  // A project-scoped key may revoke itself, and is refused with 403 for any other.
  'DELETE /v1/api-keys/{api_key_id}': 'any',

  'GET /v1/projects': 'any',
  'POST /v1/projects': 'account',
  [`GET ${P}`]: 'member',

  [`GET ${P}/members`]: 'member',
  [`POST ${P}/members`]: 'admin, account',
  [`GET ${P}/members/{member_id}`]: 'member',
  // The owner's row is refused with 400 to everybody; every other row is for the owner.
  [`PATCH ${P}/members/{member_id}`]: 'row, account',
  // One's own row, members for admins, admins for the owner.
  [`DELETE ${P}/members/{member_id}`]: 'row',

  [`GET ${P}/secrets`]: 'member',
  [`POST ${P}/secrets`]: 'member',
  [`GET ${P}/secrets/{secret_id}`]: 'member',
  [`PATCH ${P}/secrets/{secret_id}`]: 'member',
  [`DELETE ${P}/secrets/{secret_id}`]: 'member',

  [`GET ${P}/ai-providers`]: 'member',
  [`POST ${P}/ai-providers`]: 'member',
  [`GET ${P}/ai-providers/{ai_provider_id}`]: 'member',
  [`PATCH ${P}/ai-providers/{ai_provider_id}`]: 'member',
  [`DELETE ${P}/ai-providers/{ai_provider_id}`]: 'member',
  [`GET ${P}/ai-providers/{ai_provider_id}/models`]: 'member',
  [`GET ${P}/ai-providers/{ai_provider_id}/prices`]: 'member',
  [`PUT ${P}/ai-providers/{ai_provider_id}/prices`]: 'member',

  [`GET ${P}/tools`]: 'member',
  [`POST ${P}/tools`]: 'member',
  [`GET ${P}/tools/{tool_id}`]: 'member',
  [`PATCH ${P}/tools/{tool_id}`]: 'member',
  [`DELETE ${P}/tools/{tool_id}`]: 'member',
  [`POST ${P}/tools/{tool_id}/call`]: 'member',

  [`GET ${P}/agents`]: 'member',
  [`POST ${P}/agents`]: 'member',
  [`GET ${P}/agents/{agent_id}`]: 'member',
  [`PUT ${P}/agents/{agent_id}`]: 'member',
  [`PATCH ${P}/agents/{agent_id}`]: 'member',
  [`DELETE ${P}/agents/{agent_id}`]: 'member',
  [`GET ${P}/agents/{agent_id}/versions`]: 'member',
  [`GET ${P}/agents/{agent_id}/versions/{version}`]: 'member',
  [`POST ${P}/agents/{agent_id}/versions/{version}/restore`]: 'member',
  [`POST ${P}/agents/{agent_id}/generate`]: 'member',
  [`POST ${P}/agents/{agent_id}/generate/{generation_id}/tool-outputs`]: 'member',
  [`GET ${P}/agents/{agent_id}/traces`]: 'member',

  [`GET ${P}/generations`]: 'member',
  [`GET ${P}/generations/{generation_id}`]: 'member',
  [`PATCH ${P}/generations/{generation_id}`]: 'member',
  [`GET ${P}/generations/{generation_id}/transcript`]: 'member',
  [`GET ${P}/generations/{generation_id}/stream`]: 'member',
  [`DELETE ${P}/generations/{generation_id}/content`]: 'member',
  [`POST ${P}/generations/{generation_id}/cancel`]: 'member',

  [`GET ${P}/traces`]: 'member',
  [`GET ${P}/traces/{trace_id}`]: 'member',
  [`GET ${P}/traces/{trace_id}/steps`]: 'member',
  [`GET ${P}/traces/{trace_id}/tree`]: 'member',
  [`DELETE ${P}/traces/{trace_id}/content`]: 'member',

  [`GET ${P}/webhooks`]: 'member',
  [`POST ${P}/webhooks`]: 'member',
  [`GET ${P}/webhooks/{webhook_id}`]: 'member',
  [`PATCH ${P}/webhooks/{webhook_id}`]: 'member',
  [`DELETE ${P}/webhooks/{webhook_id}`]: 'member',
  [`POST ${P}/webhooks/{webhook_id}:rotate-secret`]: 'member',
  [`POST ${P}/webhooks/{webhook_id}:recover`]: 'member',
  [`GET ${P}/webhook-deliveries`]: 'member',
  [`GET ${P}/webhook-deliveries/{delivery_id}`]: 'member',
  [`GET ${P}/webhook-deliveries/{delivery_id}/attempts`]: 'member',
  [`POST ${P}/webhook-deliveries/{delivery_id}:redeliver`]: 'member',
};

/** Routes that are being built: each counts from the moment it exists, and then belongs into the table above. */
export const comingRoutes: Readonly<Record<string, Who>> = {
  'PATCH /v1/users/me': 'account',
  'POST /v1/auth/google': 'none',
  'POST /v1/auth/refresh': 'none',
  'POST /v1/auth/logout': 'none',

  [`PATCH ${P}`]: 'admin',
  [`DELETE ${P}`]: 'owner',
  [`POST ${P}/pause`]: 'admin',
  [`POST ${P}/resume`]: 'admin',

  'GET /v1/users/me/billing': 'account',
  'GET /v1/users/me/usage': 'account',
  'GET /v1/users/me/statements': 'account',
  'GET /v1/users/me/stops': 'account',
  'POST /v1/users/me/stops/{stop_id}:restore': 'account',

  'GET /v1/admin/users': 'operator',
  'PUT /v1/admin/users/{user_id}/roles': 'operator',
  'GET /v1/admin/users/{user_id}/plan': 'operator',
  'PUT /v1/admin/users/{user_id}/plan': 'operator',
  'GET /v1/admin/users/{user_id}/credits': 'operator',
  'POST /v1/admin/users/{user_id}/credits': 'operator',
  'GET /v1/admin/users/{user_id}/usage': 'operator',
  'GET /v1/admin/users/{user_id}/statements': 'operator',
  'GET /v1/admin/usage/prices': 'operator',
  'PUT /v1/admin/usage/prices': 'operator',

  [`GET ${P}/activity`]: 'member',
  [`GET ${P}/activity/export`]: 'member',
  [`GET ${P}/audit-log`]: 'member',
  [`GET ${P}/audit-log/{entry_id}`]: 'member',
  [`GET ${P}/audit-log/export`]: 'member',
};
