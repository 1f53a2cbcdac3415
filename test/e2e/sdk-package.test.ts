import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { cleanUp, temporaryFolder } from '../support/programs';

const ROOT = resolve(__dirname, '../..');
const run = promisify(execFile);

/** Calls a program in a folder. @returns what it printed @throws with its whole output */
async function call(folder: string, file: string, args: string[]): Promise<string> {
  const { NODE_ENV: _unset, ...env } = process.env;
  const npm = { npm_config_cache: join(folder, '.npm'), npm_config_update_notifier: 'false' };
  try {
    return (await run(file, args, { cwd: folder, env: { ...env, ...npm } })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${file} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error });
  }
}

const SCRIPT = `
const folder = { projectId: 'proj_1', agentId: 'agent_1' };
const fetch = async () => new Response('{"id":"gen_1","generation_id":"gen_1","trace_id":"t","status":"accepted"}', {
  status: 202, headers: { 'content-type': 'application/json' } });
const client = createClient({ baseUrl: 'http://api.test', apiKey: 'k', fetch });
client.generations.start(folder, { messages: [{ role: 'user', content: 'hi' }] }).then(async (id) => {
  const refused = await verifyWebhook('{}', {}, 'whsec_AAAA').catch((error) => error.name);
  console.log(id, refused, typeof ApiError, typeof unwrap);
});
`;
const NAMES = '{ ApiError, createClient, unwrap, verifyWebhook }';

/** What must compile, and what must not. */
const SAMPLE = `
import { createClient, unwrap, verifyWebhook } from '@agent-platform/sdk';
import type { Agent, GenerationResult } from '@agent-platform/sdk';

const client = createClient({ baseUrl: 'http://api.test', apiKey: 'k' });
const path = { project_id: 'proj_1' };

export async function sample(): Promise<string> {
  const agents: Agent[] = [];
  for await (const agent of client.items('/v1/projects/{project_id}/agents', { path, pageSize: 2 })) agents.push(agent);
  const { data, error } = await client.GET('/v1/projects/{project_id}/agents', { params: { path } });
  const total: number = data?.total ?? Number(error?.error.code);
  const result: GenerationResult = await client.generations.runWithTools(
    { projectId: 'proj_1', agentId: 'agent_1' },
    { messages: [{ role: 'user', content: 'hi' }] },
    { look_up: async ({ id }: { id: string }, { signal }) => ({ id, aborted: signal.aborted }) },
  );
  const event = await verifyWebhook('{}', new Headers(), ['whsec_AAAA']);
  if (event.type === 'generation.completed') return event.data.status;
  const key = await unwrap(client.POST('/v1/api-keys', { body: { name: 'mine' } }));
  // @ts-expect-error a path that is none
  void client.GET('/v1/nowhere');
  // @ts-expect-error the name is missing
  void client.POST('/v1/projects', { body: {} });
  // @ts-expect-error a list needs its project
  client.items('/v1/projects/{project_id}/agents');
  return key.key + (result.output?.content ?? '') + String(total);
}
`;
const TSCONFIG = {
  compilerOptions: {
    strict: true,
    noEmit: true,
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2022', 'dom', 'dom.iterable'],
    types: [],
  },
  files: ['sample.mts', 'sample.cts'],
};

let folder: string;

beforeAll(async () => {
  folder = temporaryFolder();
  mkdirSync(join(folder, 'home'));
  // From tarballs alone: the client as it would be published, and its one dependency with the one of that.
  const names = ['packages/sdk', 'node_modules/openapi-fetch', 'node_modules/openapi-typescript-helpers'];
  const packed = await call(folder, 'npm', [
    'pack',
    '--json',
    '--ignore-scripts',
    ...names.map((name) => join(ROOT, name)),
  ]);
  const tarballs = (JSON.parse(packed) as { filename: string }[]).map(({ filename }) => join(folder, filename));
  const home = join(folder, 'home');
  writeFileSync(join(home, 'package.json'), '{"name":"somebody","private":true}');
  await call(home, 'npm', ['install', '--offline', '--no-audit', '--no-fund', ...tarballs]);
}, 120_000);
afterAll(cleanUp);

test('the package holds the built client, its types, its licence and its description, and no source', async () => {
  const at = join(folder, 'home/node_modules/@agent-platform/sdk');
  for (const name of ['dist/index.js', 'dist/index.d.ts', 'dist/schema.d.ts', 'LICENSE', 'README.md']) {
    expect([name, existsSync(join(at, name))]).toEqual([name, true]);
  }
  for (const name of ['src', 'tsconfig.json', 'dist/.tsbuildinfo']) expect(existsSync(join(at, name))).toBe(false);
  const listed = await call(join(folder, 'home'), 'npm', ['ls', '--all', '--parseable']);
  expect(listed.trim().split('\n')).toHaveLength(4);
});

test('installed elsewhere it works for CommonJS, for ES modules and for the TypeScript compiler', async () => {
  const home = join(folder, 'home');
  writeFileSync(join(home, 'use.cjs'), `const ${NAMES} = require('@agent-platform/sdk');${SCRIPT}`);
  writeFileSync(join(home, 'use.mjs'), `import ${NAMES} from '@agent-platform/sdk';${SCRIPT}`);
  const said = 'gen_1 WebhookVerificationError function function\n';
  expect(await call(home, process.execPath, ['use.cjs'])).toBe(said);
  expect(await call(home, process.execPath, ['use.mjs'])).toBe(said);
  writeFileSync(join(home, 'sample.mts'), SAMPLE);
  writeFileSync(join(home, 'sample.cts'), SAMPLE);
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  expect(await call(home, process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', '.'])).toBe('');
}, 120_000);
