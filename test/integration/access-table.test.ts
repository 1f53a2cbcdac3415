import { areas } from '../../src/api/areas';
import { accessTable, actors, comingRoutes, verdictOf } from '../support/access-table';
import type { Actor, Verdict, Who } from '../support/access-table';
import { useService } from '../support/app';

const service = useService();

const CALLS_AT_ONCE = 12;
const NO_PROJECT = 'proj_0000000000000000';

/** `GET /v1/projects/{project_id}`, as the contract writes it. */
const nameOf = ({ method, path }: { method: string; path: string }): string =>
  `${method.toUpperCase()} ${path
    .replaceAll('\\:', '\0')
    .replace(/:([a-z_]+)/g, '{$1}')
    .replaceAll('\0', ':')}`;

const built = areas.map(nameOf);
const table: Readonly<Record<string, Who>> = {
  ...Object.fromEntries(Object.entries(comingRoutes).filter(([name]) => built.includes(name))),
  ...accessTable,
};

let projectId: string;
let credentials: Record<Actor, string | null>;

beforeAll(async () => {
  const [owner, admin, member, stranger, operator] = await Promise.all([
    service.signedIn(),
    service.signedIn(),
    service.signedIn(),
    service.signedIn(),
    service.signedIn({ roles: ['admin'] }),
  ]);
  projectId = (await service.project(owner)).id;
  await service.member(projectId, admin, 'admin');
  await service.member(projectId, member, 'member');
  const [other, operators] = [(await service.project(owner)).id, (await service.project(operator)).id];
  credentials = {
    nobody: null,
    garbage: 'x.y.z',
    unknownKey: `svc_sk_${'0'.repeat(40)}`,
    owner: owner.token,
    admin: admin.token,
    member: member.token,
    stranger: stranger.token,
    ownerKey: await service.apiKey(owner),
    memberKey: await service.apiKey(member),
    strangerKey: await service.apiKey(stranger),
    ownerScoped: await service.apiKey(owner, { projectId }),
    memberScoped: await service.apiKey(member, { projectId }),
    otherScoped: await service.apiKey(owner, { projectId: other }),
    operator: operator.token,
    operatorKey: await service.apiKey(operator),
    operatorScoped: await service.apiKey(operator, { projectId: operators }),
  };
});

/** An unknown query parameter is refused after credential, membership, scope and role: it tells who is admitted, and does nothing. */
async function ask(name: string, actor: Actor, project: string): Promise<string> {
  const [method = '', path = ''] = name.split(' ');
  const url = path.replace('{project_id}', project).replace(/\{[a-z_]+\}/g, '1');
  const credential = credentials[actor];
  const answer = await fetch(`${service.baseUrl}${url}?nonsense=1`, {
    method,
    headers: credential === null ? {} : { Authorization: `Bearer ${credential}` },
  });
  return verdictFrom(answer.status, await answer.text());
}

interface Refusal {
  error: { code: string; details?: { required_role?: string } | { path: string }[] };
}

/** The verdict that an answer is, or the answer itself where it is none of them. */
function verdictFrom(status: number, text: string): string {
  const { code, details } = (JSON.parse(text) as Refusal).error;
  const problems = Array.isArray(details) ? details.map(({ path }) => path) : [];
  if (status === 400 && code === 'bad_request' && problems.includes('query.nonsense')) return 'in';
  const known: Record<string, Verdict> = {
    '401 unauthorized': '401',
    '403 access_denied': '403',
    '403 access_denied {"required_role":"admin"}': '403:admin',
    '403 access_denied {"required_role":"owner"}': '403:owner',
    '404 not_found': '404',
  };
  const facts = details === undefined ? '' : ` ${JSON.stringify(details)}`;
  return known[`${String(status)} ${code}${facts}`] ?? `${String(status)} ${text}`;
}

/** Differences between table and service, a few calls at a time. */
async function differences(
  { names, as, project }: { names: string[]; as: readonly Actor[]; project: string },
  expected: (name: string, actor: Actor) => string,
): Promise<string[]> {
  const cells = names.flatMap((name) => as.map((actor) => ({ name, actor })));
  const found: string[] = [];
  const work = async (): Promise<void> => {
    for (let cell = cells.pop(); cell !== undefined; cell = cells.pop()) {
      const { name, actor } = cell;
      const [got, wanted] = [await ask(name, actor, project), expected(name, actor)];
      if (got !== wanted) found.push(`${name} as ${actor}: ${got} instead of ${wanted}`);
    }
  };
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, work));
  return found.sort();
}

test('every route stands in the table, and every row of the table is a route', () => {
  expect(Object.keys(table).sort()).toEqual([...new Set(built)].sort());
  expect(new Set(built).size).toBe(built.length);
});

test('every route admits whom the table says, and refuses the others as it says', async () => {
  const names = Object.keys(table).filter((name) => built.includes(name));
  const expected = (name: string, actor: Actor): Verdict => verdictOf(table[name] ?? 'none', actor);
  expect(await differences({ names, as: actors, project: projectId }, expected)).toEqual([]);
}, 60_000);

test('[members 5] under a project that is not there every route answers what a stranger gets', async () => {
  const names = Object.keys(table).filter((name) => name.includes('{project_id}') && built.includes(name));
  const as = ['owner', 'ownerScoped', 'operator'] as const;
  expect(await differences({ names, as, project: NO_PROJECT }, () => '404')).toEqual([]);
}, 60_000);
