import { googleTokenEndpoint } from '../../src/api/core/google-token';
import { outboundErrorOf } from '../../src/api/core/http';
import { egressPolicy, outbound } from '../../src/api/core/outbound';
import { useService } from '../support/app';
import { callListed, egressPaths, egressProject, listing, moveMcp, newKeyFile } from '../support/egress-paths';
import type { EgressPath, EgressProject } from '../support/egress-paths';
import { chainFrom, redirectFrom, stairsFrom, startEgressStage } from '../support/egress-stage';
import type { EgressStage } from '../support/egress-stage';
import { literalTricks, localNames, locationTricks, malformedTricks, nameTricks } from '../support/egress-tricks';

let stage: EgressStage;
let project: EgressProject;

// Before the service: what may be reached is read once, and a worker may call out as soon as it runs.
beforeAll(async () => {
  stage = await startEgressStage();
});
const service = useService({ worker: true });
beforeAll(async () => {
  project = await egressProject(service, stage);
}, 30_000);
beforeEach(() => {
  stage.dns.forget();
  stage.dialled.forget();
  stage.allowed.requests.length = 0;
});
afterEach(() => {
  // Whatever a test is about: nobody was connected to, not even to be told nothing.
  const reached = [stage.canary, stage.neighbour, stage.proxy].map((canary) => canary.reached());
  expect([reached, stage.strayed()]).toEqual([[0, 0, 0], []]);
});
afterAll(() => stage.close());

const paths = egressPaths(() => project);
const inside = (): string => `127.0.0.1:${String(stage.canary.port)}`;
const at = (host: string): string => `http://${host}:${String(stage.canary.port)}/x`;

/** Spellings that stand for the others where every call is a whole run. */
const REPRESENTATIVES = [
  ...['127.0.0.1', '2130706433', '017700000001', '0x7f.1', '0', '１２７.０.０.１', '169.254.169.254', '10.0.0.5'],
  ...['[::]', '[::1]', '[::ffff:127.0.0.1]', '[64:ff9b::127.0.0.1]'],
];
const denied = ['9.9.9.9', '[2620:fe::fe]', '[::ffff:9.9.9.9]', '[64:ff9b::909:909]', '[2002:909:909::]'];
const costing = (takes: EgressPath['takes']): EgressPath[] =>
  paths.filter((path) => path.takes === takes && path.callAll === undefined);
/**
 * The rows of a table that each path is called with, one call a row. A trick that stands for others is tried on every
 * path, where a call is a whole run on every other one of these; the rest is dealt out to the paths that cost little. The
 * guard itself, which every path asks, is asked for every row.
 */
const each = <Row extends object>(table: readonly Row[], isRepresentative: (row: Row) => boolean) => {
  const few = table.filter(isRepresentative);
  const rest = table.filter((row) => !isRepresentative(row));
  const rows = (path: EgressPath, given: readonly Row[]) => given.map((row) => ({ ...row, path, name: path.name }));
  return [
    ...costing(undefined).flatMap((path, turn, all) =>
      rows(path, [...few, ...rest.filter((_row, index) => index % all.length === turn)]),
    ),
    ...costing('session').flatMap((path) => rows(path, few)),
    ...costing('run').flatMap((path, turn) =>
      rows(
        path,
        few.filter((_row, index) => (index + turn) % 2 === 0),
      ),
    ),
  ];
};
/** Paths that take all representatives in one call. */
const atOnce = paths.flatMap((path) => (path.callAll === undefined ? [] : [{ ...path, callAll: path.callAll }]));
const allBlocked = (rows: readonly unknown[], { blocked }: EgressPath) =>
  rows.map(() => expect.stringMatching(blocked) as string);
const NAMES = ['private', 'loopback', 'mixed', 'six', 'mapped', 'chain', 'nothing'];
const LOCATIONS = ['the metadata address', 'a decimal address', 'a scheme-relative address', 'a slash and a backslash'];
const MORE_LOCATIONS = ['https', 'user information', 'ftp', 'a name that resolves inside'];
const isName = ({ host }: { host: string }): boolean => NAMES.includes(host.replace('.test', ''));
const isLocation = ({ what }: { what: string }): boolean => [...LOCATIONS, ...MORE_LOCATIONS].includes(what);

const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'it was called',
    (error: unknown) => error,
  );
const asked = (url: string): Promise<unknown> =>
  failureOf(
    outbound().request({
      url,
      method: 'GET',
      timeoutMs: 5_000,
      responseBytesMax: 1_000,
      onTooLarge: 'fail',
      redirects: 'follow',
    }),
  );

describe('the guard itself', () => {
  test('the table has more than forty spellings and tricks', () => {
    expect(literalTricks.length + localNames.length + malformedTricks.length).toBeGreaterThan(100);
    expect(literalTricks.map(({ host }) => host)).toEqual(expect.arrayContaining(REPRESENTATIVES));
  });

  test.each(literalTricks)(
    '$what: $host is refused by the check of writes, the client and its fetch',
    async (trick) => {
      for (const scheme of ['http', 'https']) {
        const url = `${scheme}://${trick.host}:${String(stage.canary.port)}/x`;
        expect(egressPolicy().checkUrl(url, { allowHttp: true })).toEqual({ ok: false, reason: expect.any(String) });
        expect(await asked(url)).toMatchObject({ kind: 'egress_blocked', address: trick.address, sent: false });
        const failure = outboundErrorOf(await failureOf(outbound().fetch(url, { method: 'POST', body: '{}' })));
        expect(failure).toMatchObject({ kind: 'egress_blocked', address: trick.address, sent: false });
      }
      expect(stage.dns.asked()).toEqual([]);
    },
  );

  test.each(localNames)(
    '$what: $host is refused by the check of writes, the client and its fetch',
    async ({ host }) => {
      const url = at(host);
      expect(egressPolicy().checkUrl(url, { allowHttp: true })).toMatchObject({ ok: false });
      expect(await asked(url)).toMatchObject({ kind: 'egress_blocked', sent: false });
      const failure = outboundErrorOf(await failureOf(outbound().fetch(url)));
      expect(failure).toMatchObject({ kind: 'egress_blocked', sent: false });
    },
  );

  test.each(malformedTricks)('a URL with $what is refused by each of them', async ({ url: made }) => {
    const url = made(inside());
    expect(egressPolicy().checkUrl(url, { allowHttp: true })).toMatchObject({ ok: false });
    expect(await asked(url)).toMatchObject({ kind: 'egress_blocked', sent: false });
    const failure = outboundErrorOf(await failureOf(outbound().fetch(url)));
    expect(failure).toMatchObject({ kind: 'egress_blocked', sent: false });
  });

  test.each(denied)('EGRESS_DENIED_CIDRS: %s is refused, its neighbours are not', async (host) => {
    expect(egressPolicy().checkUrl(at(host), { allowHttp: true })).toMatchObject({ ok: false });
    expect(await asked(at(host))).toMatchObject({ kind: 'egress_blocked', sent: false });
    for (const neighbour of ['9.9.10.9', '[2620:ff::fe]', '[::ffff:9.9.8.9]', '[64:ff9b::909:809]'])
      expect(egressPolicy().checkUrl(at(neighbour), { allowHttp: true })).toMatchObject({ ok: true });
  });

  test('an allowed address is allowed at its port only, in every spelling, and its neighbour is not', () => {
    const { port } = stage.models;
    const verdicts = ['127.0.0.1', '2130706433', '[::ffff:127.0.0.1]', '127.0.0.2', '[::1]'].map(
      (host) => egressPolicy().checkUrl(`http://${host}:${String(port)}/`, { allowHttp: true }).ok,
    );
    expect(verdicts).toEqual([true, true, true, false, false]);
    expect(egressPolicy().checkUrl('http://127.0.0.1/', { allowHttp: true }).ok).toBe(false);
  });
});

describe('writing a URL', () => {
  const writers = paths.flatMap(({ name, write }) => (write === undefined ? [] : [[name, write] as const]));
  /** U+0000 is refused of every body, before any rule of a URL. */
  const code = (name: string, url: string): string =>
    name === 'a webhook delivery' || url.includes('\u0000') ? '400 bad_request' : '400 VALIDATION_FAILED';

  test.each(
    writers.flatMap(([name, write]) => malformedTricks.map(({ what, url }) => [name, what, write, url] as const)),
  )('of %s: one with %s is 400', async (name, _what, write, url) => {
    expect(await write(url(inside()))).toBe(code(name, url(inside())));
  });

  test.each([...literalTricks, ...localNames].map(({ what, host }) => [what, host]))(
    'of a webhook: %s, %s, is 400',
    async (_what, host) => {
      const [[, write] = []] = writers;
      expect(await write?.(at(host))).toBe('400 bad_request');
    },
  );

  test.each(writers)(
    'of %s: a public one, and a name that is only known when it is called, are taken',
    async (_name, write) => {
      expect([await write('https://1.1.1.1/x'), await write(at('loopback.test'))]).toEqual(['201', '201']);
      expect(stage.dns.asked()).toEqual([]);
    },
  );
});

describe('calling a URL', () => {
  test.each(each(literalTricks, ({ host }) => REPRESENTATIVES.includes(host)))(
    '$name: $what, $host, is refused and nobody is reached',
    async ({ host, path }) => {
      expect(await path.call(at(host))).toMatch(path.blocked);
    },
  );

  test.each(paths.flatMap((path) => denied.slice(0, 2).map((host) => [path.name, host, path] as const)))(
    '%s: %s of EGRESS_DENIED_CIDRS is refused',
    async (_name, host, path) => {
      expect(await path.call(at(host))).toMatch(path.blocked);
    },
  );

  test.each(each(nameTricks, isName))('$name: a name with $what ($host) is refused', async ({ host, path }) => {
    expect(await path.call(at(host))).toMatch(path.blocked);
    expect(stage.dns.asked()).toEqual([host]);
  });

  test.each(atOnce)('$name: all of them in one step are refused, and each name is asked for once', async (path) => {
    const literals = REPRESENTATIVES.map(at);
    expect(await path.callAll(literals)).toEqual(allBlocked(literals, path));
    const names = nameTricks.filter(isName).map(({ host }) => host);
    expect(await path.callAll(names.map(at))).toEqual(allBlocked(names, path));
    expect(stage.dns.asked().sort()).toEqual([...names].sort());
  });

  test.each(paths.map((path) => [path.name, path] as const))(
    '%s: a name that nobody knows is refused',
    async (_name, path) => {
      expect(await path.call(at('unknown.test'))).toMatch(path.blocked);
    },
  );

  test.each(paths.map((path) => [path.name, path] as const))(
    '%s: the address that was checked is called without a second look-up; when the name then means another, it is refused',
    async (_name, path) => {
      const { tries = 1 } = path;
      const safe = Array.from({ length: tries }, () => ({ a: ['127.0.0.1'] }));
      stage.dns.set({ 'rebind.test': [...safe, { a: ['127.0.0.2'] }] });
      const url = `http://rebind.test:${String(stage.allowed.port)}`;
      expect(await path.call(url)).not.toMatch(path.blocked);
      expect([stage.dns.asked().length, stage.allowed.requests.length]).toEqual([tries, tries]);
      expect(stage.allowed.requests[0]?.headers.host).toBe(`rebind.test:${String(stage.allowed.port)}`);
      expect(await path.call(url)).toMatch(path.blocked);
      expect(stage.allowed.requests).toHaveLength(tries);
    },
  );

  test('a turn goes on without the tools of an mcp server that may not be called, and the model is told', async () => {
    await moveMcp(project, at('127.0.0.1'));
    stage.models.script(project.model, [{ text: 'done' }]);
    const body = { messages: [{ role: 'user', content: 'hi' }] };
    const run = await project.api.post(`${project.at}/agents/${project.mcp.agentId}/generate?wait=true`, body);
    expect([run.status, run.body.status]).toEqual([200, 'completed']);
    const [call] = stage.models.calls({ generationId: String(run.body.id) });
    expect(JSON.stringify(call?.body)).toMatch(/unavailable/i);
  });

  test('a direct call tells the template of the URL and the address', async () => {
    await project.api.patch(`${project.at}/tools/${project.tool.id}`, {
      execute: { url: 'http://2852039166/{x}', method: 'GET' },
    });
    const answer = await project.api.post(`${project.at}/tools/${project.tool.id}/call`, { input: { x: 'private' } });
    expect([answer.status, answer.body.error.code, answer.body.error.meta]).toEqual([
      403,
      'TOOL_EGRESS_BLOCKED',
      { tool_url: 'http://2852039166/{x}', tool_address: '169.254.169.254' },
    ]);
  });
});

describe('redirects of an allowed host', () => {
  const statuses = [301, 302, 303, 307, 308];

  test.each(
    paths
      .filter((path) => path.callAll === undefined)
      .flatMap((path) => statuses.map((status) => ({ status, path, name: path.name }))),
  )('$name: $status to an address inside is not followed', async ({ status, path }) => {
    const said = await path.call(redirectFrom(stage.allowed.url, status, `http://${inside()}/`));
    expect(said).toMatch(path.notFollowed?.(status) ?? path.blocked);
    expect(stage.allowed.requests).toHaveLength(1);
  });

  test.each(atOnce)('[tools 3] $name: no status to an address inside is followed', async (path) => {
    const urls = statuses.map((status) => redirectFrom(stage.allowed.url, status, `http://${inside()}/`));
    expect(await path.callAll(urls)).toEqual(allBlocked(urls, path));
    expect(stage.allowed.requests).toHaveLength(statuses.length);
  });

  test('[tools 3] a call of an mcp tool in a run: no status to an address inside is followed', async () => {
    const redirects = statuses.map((status) => ({ status, location: `http://${inside()}/` }));
    const blocked = expect.stringMatching(/^200 completed: .*The target may not be called: /) as string;
    expect(await callListed(project, redirects)).toEqual(statuses.map(() => blocked));
    expect([stage.remote.redirects, stage.remote.calls]).toEqual([[], []]);
  });

  test.each(paths.filter(({ tooMany }) => tooMany !== undefined).map((path) => ({ path, name: path.name })))(
    '$name: every status to a host that may be called is followed, 307 and 308 with the method, the others as GET',
    async ({ path }) => {
      const { tries = 1 } = path;
      expect(await path.call(stairsFrom(stage.allowed.url, [307, 308, 301, 302, 303], '/end'))).not.toMatch(
        path.blocked,
      );
      const { requests } = stage.allowed;
      expect(requests).toHaveLength(6 * tries);
      const method = requests[0]?.method ?? '';
      expect(requests.slice(0, 6).map((request) => request.method)).toEqual([
        method,
        method,
        method,
        'GET',
        'GET',
        'GET',
      ]);
      expect(requests[5]?.path).toMatch(/^\/end/);
      expect(requests[5]?.body).toBe('');
    },
  );

  test.each(paths.flatMap(({ notFollowed, ...path }) => (notFollowed === undefined ? [] : [{ ...path, notFollowed }])))(
    '$name: no status is followed, though its host may be called',
    async ({ call, notFollowed }) => {
      for (const status of statuses)
        expect(await call(redirectFrom(stage.allowed.url, status, `${stage.allowed.url}/end`))).toMatch(
          notFollowed(status),
        );
      expect(stage.allowed.requests.map(({ path }) => path.split('/')[1])).toEqual(statuses.map(() => 'redirect'));
    },
  );

  test.each(each(locationTricks, isLocation))('$name: 303 to $what is not followed', async ({ location, path }) => {
    const said = await path.call(redirectFrom(stage.allowed.url, 303, location(inside())));
    expect(said).toMatch(path.notFollowed?.(303) ?? path.blocked);
    expect(stage.allowed.requests).toHaveLength(1);
  });

  test.each(atOnce)('$name: all of them in one step are not followed', async (path) => {
    const urls = locationTricks
      .filter(isLocation)
      .map(({ location }) => redirectFrom(stage.allowed.url, 303, location(inside())));
    expect(await path.callAll(urls)).toEqual(allBlocked(urls, path));
    expect(stage.allowed.requests).toHaveLength(urls.length);
  });

  test.each(paths.map((path) => [path.name, path] as const))(
    '%s: 300 with a location is no redirect',
    async (_name, path) => {
      const said = await path.call(redirectFrom(stage.allowed.url, 300, `http://${inside()}/`));
      expect(said).not.toMatch(path.blocked);
      expect(stage.allowed.requests).toHaveLength(path.tries ?? 1);
    },
  );

  test.each(paths.filter(({ tooMany }) => tooMany !== undefined).map((path) => [path.name, path] as const))(
    '%s: a fifth redirect is followed only when its host may be called, a sixth never',
    async (_name, path) => {
      expect(await path.call(chainFrom(stage.allowed.url, 4, `http://${inside()}/`))).toMatch(path.blocked);
      expect(stage.allowed.requests).toHaveLength(5);
      stage.allowed.requests.length = 0;
      const { tries = 1 } = path;
      expect(await path.call(chainFrom(stage.allowed.url, 4, '/end'))).not.toMatch(path.blocked);
      expect(stage.allowed.requests).toHaveLength(6 * tries);
      expect(await path.call(chainFrom(stage.allowed.url, 5, '/end'))).toMatch(path.tooMany!);
      expect(await path.call(chainFrom(stage.allowed.url, 5, `http://${inside()}/`))).toMatch(path.tooMany!);
      expect(stage.allowed.requests).toHaveLength(18 * tries);
    },
  );
});

describe('proxy variables', () => {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy'];
  beforeAll(() => {
    for (const name of names) process.env[name] = `http://127.0.0.1:${String(stage.proxy.port)}`;
    Object.assign(process.env, { NO_PROXY: '', no_proxy: '', NODE_USE_ENV_PROXY: '1' });
  });
  afterAll(() => {
    for (const name of [...names, 'NO_PROXY', 'no_proxy', 'NODE_USE_ENV_PROXY'])
      Reflect.deleteProperty(process.env, name);
  });

  test.each(paths.map((path) => [path.name, path] as const))(
    '%s: no request goes to the proxy',
    async (_name, path) => {
      expect(await path.call(stage.allowed.url)).not.toMatch(path.blocked);
      expect(stage.allowed.requests).toHaveLength(path.tries ?? 1);
      expect(await path.call(at('10.0.0.5'))).toMatch(path.blocked);
      expect(await path.call('https://loopback.test/')).toMatch(path.blocked);
    },
  );
});

describe("Google's token endpoint", () => {
  const tokenUris = (): string[] => [
    `http://${inside()}/token`,
    'http://169.254.169.254/token',
    `http://localhost:${String(stage.canary.port)}/token`,
    `${stage.allowed.url}/token`,
    'file:///etc/passwd',
  ];

  test('is the fixed one whatever the key file says, and is guarded like any other', async () => {
    expect(googleTokenEndpoint.url).toBe('https://oauth2.googleapis.com/token');
    stage.dns.set({ 'oauth2.googleapis.com': [{ a: ['127.0.0.1'] }] });
    for (const token_uri of tokenUris()) {
      stage.dns.forget();
      await newKeyFile(project, { token_uri, auth_uri: token_uri, universe_domain: 'loopback.test' });
      const answer = await listing(project, project.vertex.id);
      expect([answer.status, answer.body.error.code]).toEqual([502, 'MODEL_LISTING_FAILED']);
      expect(stage.dns.asked()).toEqual(['oauth2.googleapis.com']);
    }
    expect(stage.allowed.requests).toEqual([]);
  });
});
