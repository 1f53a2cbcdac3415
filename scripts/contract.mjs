/**
 * `npm run contract -- [--cases N] [--seed N] [--minutes M]`: starts the service on this machine and has schemathesis send it
 * generated requests by the contract document: with a key, without one, an operator's to the operators' routes, and chains of
 * requests that use what those before them made. Status 0 when every answer was a documented one.
 * The program is `schemathesis` of the PATH, or the one that the variable SCHEMATHESIS names.
 */
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const require = createRequire(import.meta.url);
const { NO_ENGINES_OF_OTHERS } = require('../dist/local/local-settings.js');
const { RAISED_LIMITS } = require('../dist/local/raised-limits.js');
const { signInByMail } = require('../dist/local/sign-in.js');
const { startLocal } = require('../dist/local/supervisor.js');

const USAGE = 'npm run contract -- [--cases N] [--seed N] [--minutes M], each a whole number from 1.';

const OPERATOR = 'operator@people.test';

const SETTINGS = {
  ...RAISED_LIMITS,
  ADMIN_EMAILS: OPERATOR,
  AUTH_CODE_PER_MINUTE: '1000000',
  AUTH_CODE_PER_DAY: '1000000',
  INVITES_PER_DAY: '1000000',
  // Generated addresses are the world's: nothing but this machine is called.
  TOOL_EGRESS_ALLOWED_HOSTS: '127.0.0.1',
  EGRESS_DENIED_CIDRS: '0.0.0.0/0,::/0',
  // A generated run may pause for ever, and whoever waits for it may not.
  GENERATION_WAIT_MAX_SECONDS: '1',
  WAIT_MAX_SECONDS: '1',
  LOG_LEVEL: 'warn',
  DRAIN_SECONDS: '2',
};

/** What every answer is held to. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'unsupported_method',
  'allow_header_conformance',
];
/*
 * Left out:
 * - negative_data_rejection: rules of the document's schemas are coarser or finer than the service's by intent: limits of a
 *   page are clamped, and a malformed identifier is 404.
 * - positive_data_acceptance: rules that JSON Schema cannot say (a provider that needs an address, a name taken) refuse too.
 * - missing_required_header: no operation has one; the credential is a security scheme.
 * - ignored_auth: a missing credential is the second run; it sends other credentials only where the first answer was a success.
 * - object_level_authorization: it needs a second person; the table of routes in the tests has sixteen kinds of caller.
 */

/** What chains of requests show beside that: what was made is there, and what was deleted is not. */
const CHAIN_CHECKS = [...CHECKS, 'use_after_free', 'ensure_resource_availability'];

/** How many chains, and of how many requests each at most: few, since each request waits for the one before. */
const CHAINS = 30;
const CHAIN_STEPS = 5;

/** Operations that would take the ground from under those after them, by method and path. */
const LEFT_OUT = [
  // Ends the session of the person.
  ['POST', '/v1/auth/logout'],
  // May end or replace the key that makes the requests.
  ['DELETE', '/v1/api-keys/{api_key_id}'],
  ['POST', '/v1/api-keys/{api_key_id}:rotate'],
  // Ends or stops the project in which the requests act.
  ['DELETE', '/v1/projects/{project_id}'],
  ['PATCH', '/v1/projects/{project_id}'],
  ['POST', '/v1/projects/{project_id}/pause'],
];

/** Of a hundred identifiers in paths so many are those of things that are there. */
const KNOWN_SHARE = 0.8;

function optionsOf(given) {
  const options = { cases: { type: 'string' }, seed: { type: 'string' }, minutes: { type: 'string' } };
  const { values } = parseArgs({ args: given, options });
  const whole = (text) => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : Number.NaN);
  const read = {
    cases: whole(values.cases ?? '10000'),
    seed: whole(values.seed ?? String(1 + (Date.now() % 1_000_000))),
    minutes: whole(values.minutes ?? '10'),
  };
  if (Object.values(read).some(Number.isNaN)) throw new Error(USAGE);
  return read;
}

/** A caller of the API: the parsed body of a success. @throws Error for every other answer */
const callerOf = (baseUrl, token) => async (method, path, body) => {
  const response = await fetch(baseUrl + path, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer}`);
  return answer === '' ? null : JSON.parse(answer);
};

const signIn = async (local, email) => callerOf(local.baseUrl, await signInByMail(local, email));

/** Makes a project with a few of everything. @returns the key, the operator's, and identifiers by the name of their path parameter */
async function furnish(local) {
  const member = await (await signIn(local, 'member@people.test'))('GET', '/v1/users/me');
  const session = await signIn(local, 'contract@people.test');
  const me = await session('GET', '/v1/users/me');
  const project = await session('POST', '/v1/projects', { name: 'contract' });
  const other = await session('POST', '/v1/api-keys', { name: 'another' });
  const { key } = await session('POST', '/v1/api-keys', { name: 'contract' });
  const operator = await (await signIn(local, OPERATOR))('POST', '/v1/api-keys', { name: 'operator' });
  const at = `/v1/projects/${project.id}`;
  const api = callerOf(local.baseUrl, key);
  const make = async (path, body) => (await api('POST', `${at}/${path}`, body)).id;
  const parameters = { type: 'object', properties: { order: { type: 'string' } } };
  await api('POST', `${at}/members`, { email: 'member@people.test', role: 'member' });
  const secrets = [
    await make('secrets', { name: 'free', value: 'x' }),
    await make('secrets', { name: 'used', value: 'y' }),
  ];
  const provider = { name: 'local', provider: 'custom', default_model: 'plain', base_url: local.modelServerUrl };
  const providers = [await make('ai-providers', provider), await make('ai-providers', { ...provider, name: 'free' })];
  const tools = [
    await make('tools', { type: 'client', name: 'ask', description: 'Asks a person', parameters }),
    await make('tools', {
      name: 'look_up',
      description: 'Looks an order up',
      parameters,
      execute: {
        url: `${local.modelServerUrl}/orders/{order}`,
        method: 'GET',
        headers: { 'x-key': `{secret:${secrets[1]}}` },
      },
    }),
  ];
  const agentOf = (model, bindings) =>
    make('agents', { name: model, model, ai_provider_id: providers[0], tool_bindings: bindings });
  local.modelServer.script('asking', [{ toolCalls: [{ name: 'ask', args: { order: '1' } }] }, { text: 'Done.' }]);
  const agents = [await agentOf('plain', []), await agentOf('asking', [{ tool_id: tools[0] }])];
  const webhooks = [];
  for (const path of ['kept', 'other']) {
    webhooks.push(await make('webhooks', { url: `${local.modelServerUrl}/${path}`, events: ['*'] }));
  }
  const generations = [];
  for (const agent of agents) {
    const question = { messages: [{ role: 'user', content: 'How are you?' }] };
    generations.push(await api('POST', `${at}/agents/${agent}/generate?wait=true`, question));
  }
  const deliveries = (await api('GET', `${at}/webhook-deliveries`)).data;
  const known = {
    project_id: [project.id],
    user_id: [me.id, member.id],
    member_id: (await api('GET', `${at}/members`)).data.map(({ id }) => id),
    api_key_id: [other.id],
    secret_id: secrets,
    ai_provider_id: providers,
    tool_id: tools,
    agent_id: agents,
    webhook_id: webhooks,
    generation_id: generations.map(({ id }) => id),
    trace_id: generations.map(({ trace_id }) => trace_id),
    delivery_id: deliveries.map(({ id }) => id),
    version: ['1'],
  };
  return { key, operatorKey: operator.key, known };
}

/**
 * Statuses from 500 that are answers of their own where the document has them: an upstream that fails, and in one place a sign-in that
 * is not set up. A plain 503 means that something was down.
 */
const SERVER_ERRORS = [
  '[checks.not_a_server_error]',
  'expected-statuses = ["2xx", "3xx", "4xx", 502, 504]',
  '[[operations]]',
  'include-operation-id = "signInWithGoogle"',
  '[operations.checks.not_a_server_error]',
  'expected-statuses = ["2xx", "3xx", "4xx", 503]',
];

/** The configuration of schemathesis: which identifiers stand in paths. */
function configOf(known) {
  const lines = Object.entries(known)
    .filter(([, ids]) => ids.length > 0)
    .flatMap(([name, ids]) => [
      `[dictionaries.${name}]`,
      `values = ${JSON.stringify(ids)}`,
      `[parameters."path.${name}"]`,
      `dictionary = "${name}"`,
      `probability = ${KNOWN_SHARE}`,
    ]);
  const chains = ['[phases.stateful]', `max-steps = ${CHAIN_STEPS}`];
  return [...lines, ...chains, ...SERVER_ERRORS].join('\n');
}

/** How many cases the first phase makes of an operation, about; the second one has the rest. */
const COVERAGE_CASES = 57;

/**
 * The document as it is served, but for one thing: the schema of a stream of events is that of its whole text, and schemathesis
 * would hold every single event to it.
 */
async function documentOf(local) {
  const document = await callerOf(local.baseUrl)('GET', '/openapi.json');
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const leftOut = LEFT_OUT.filter(([method, path]) => document.paths[path]?.[method.toLowerCase()] !== undefined);
  for (const { responses } of operations) {
    for (const { content } of Object.values(responses)) {
      if (content?.['text/event-stream'] !== undefined) content['text/event-stream'] = {};
    }
  }
  return { document, operations: operations.length - leftOut.length };
}

/** One worker, so that a seed makes the same cases again. */
function argumentsOf({
  folder,
  local,
  seed,
  examples,
  report,
  key,
  only,
  checks = CHECKS,
  phases = 'coverage,fuzzing',
}) {
  return [
    `--config-file=${join(folder, 'schemathesis.toml')}`,
    'run',
    join(folder, 'openapi.json'),
    `--url=${local.baseUrl}`,
    `--checks=${checks.join(',')}`,
    `--phases=${phases}`,
    '--workers=1',
    `--seed=${seed}`,
    `--max-examples=${examples}`,
    '--request-timeout=20',
    '--suppress-health-check=all',
    '--generation-with-security-parameters=false',
    '--generation-database=none',
    '--continue-on-failure',
    '--no-shrink',
    '--warnings=off',
    '--no-color',
    '--report=json',
    `--report-json-path=${report}`,
    ...(key === undefined ? [] : [`--header=Authorization: Bearer ${key}`]),
    ...(only === undefined ? [] : [`--include-path-regex=${only}`]),
    ...LEFT_OUT.map(([method, path]) => `--exclude-name=${method} ${path}`),
  ];
}

/** Runs schemathesis to its end. @returns how many cases it made in which time, what it said, and whether it found nothing */
async function runCases(run) {
  const report = join(run.folder, `${run.name}.json`);
  const begun = Date.now();
  const child = spawn(process.env.SCHEMATHESIS ?? 'schemathesis', argumentsOf({ ...run, report }), {
    cwd: run.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: run.signal,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  const status = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code));
  });
  const made = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).test_cases.generated : 0;
  return { name: run.name, holds: status === 0, output, made, seconds: Math.round((Date.now() - begun) / 1000) };
}

/** @returns whether every answer of all runs was a documented one, and there were as many as asked for */
async function check({ local, folder, signal }, { cases, seed }) {
  const { key, operatorKey, known } = await furnish(local);
  const { document, operations } = await documentOf(local);
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(document));
  writeFileSync(join(folder, 'schemathesis.toml'), configOf(known));
  const examples = Math.max(1, Math.ceil(cases / 2 / operations) - COVERAGE_CASES);
  const begun = Date.now();
  const runs = await Promise.all(
    [
      { name: 'with a key', key, examples },
      { name: 'without one', examples },
      { name: 'by an operator', key: operatorKey, only: '^/v1/admin/', examples },
      { name: 'in chains', key, phases: 'stateful', checks: CHAIN_CHECKS, examples: CHAINS },
    ].map((run) => runCases({ ...run, local, folder, seed, signal })),
  );
  for (const { holds, output } of runs) if (!holds) say(output);
  const made = runs.reduce((sum, run) => sum + run.made, 0);
  const each = runs.map((run) => `${run.made} ${run.name}: ${run.seconds} s`).join(', ');
  say(`${made} cases (${each}) in ${Math.round((Date.now() - begun) / 1000)} s`);
  if (made < cases) say(`They are fewer than ${cases}.`);
  const empty = runs.filter((run) => run.made === 0);
  for (const { name } of empty) say(`There is none ${name}.`);
  return made >= cases && empty.length === 0 && runs.every(({ holds }) => holds);
}

const say = (line) => process.stdout.write(`${line}\n`);

async function main() {
  const options = optionsOf(process.argv.slice(2));
  say(`seed ${options.seed}`);
  // Passable, so that the database, which does not run as root, can live below it.
  const folder = mkdtempSync(join(tmpdir(), 'svc-contract-'));
  chmodSync(folder, 0o711);
  const giveUp = new AbortController();
  const { signal } = giveUp;
  for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => giveUp.abort(new Error('Stopped.')));
  const late = new Error(`The cases took more than ${options.minutes} minutes.`);
  setTimeout(() => giveUp.abort(late), options.minutes * 60_000).unref();
  const asked = new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });
  let local;
  try {
    local = await startLocal({
      dataDir: join(folder, 'data'),
      port: 0,
      quiet: true,
      restartCrashed: false,
      signal,
      env: { ...NO_ENGINES_OF_OTHERS, ...SETTINGS },
    });
    const holds = await Promise.race([check({ local, folder, signal }, options), asked]);
    if (!holds) say(problemsIn(local.logs));
    say(
      holds ? 'Every answer was a documented one.' : `Not every answer was: the same cases are --seed ${options.seed}.`,
    );
    return holds ? 0 : 1;
  } finally {
    await local?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What the API itself took for errors of its own. */
function problemsIn(logs) {
  const lines = readFileSync(join(logs, 'api-0.log'), 'utf8').split('\n');
  return lines
    .filter((line) => line.includes('unforeseen error'))
    .slice(0, 20)
    .join('\n');
}

main().then(
  (status) => process.exit(status),
  (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  },
);
