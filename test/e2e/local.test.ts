import { spawn } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { isRunning, startTimeOf, waitUntil } from '../../src/local/processes';
import { allEnded, cleanUp, runFixture, temporaryFolder } from '../support/programs';
import type { Program } from '../support/programs';

interface Process {
  name: string;
  pid: number;
  startTime: string;
}

interface Answer {
  baseUrl: string;
  databaseUrl: string;
  temporalUiUrl: string;
  processes: Process[];
}

interface Record {
  supervisor: Process;
  processes: Process[];
}

interface Started {
  program: Program;
  answer: Answer;
}

async function start(dataDir: string, env?: { [name: string]: string }): Promise<Started> {
  const program = runFixture('run-local.cjs', { dataDir }, env === undefined ? {} : { env });
  return { program, answer: await program.answer<Answer>() };
}

const recordOf = (dataDir: string): Record => JSON.parse(readFileSync(join(dataDir, 'run.json'), 'utf8')) as Record;

function named(processes: Process[], name: string): Process {
  const found = processes.find((process) => process.name === name);
  if (found === undefined) throw new Error(`No ${name} runs.`);
  return found;
}

async function query(databaseUrl: string, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query<{ [name: string]: unknown }>(text)).rows;
  } finally {
    await client.end();
  }
}

/** The order in which processes end, looked at every few milliseconds. */
async function orderOfEnd(processes: Process[]): Promise<string[]> {
  const order: string[] = [];
  await waitUntil(async () => {
    for (const process of processes) {
      if (!order.includes(process.name) && !(await isRunning(process))) order.push(process.name);
    }
    return order.length === processes.length;
  }, 30_000);
  return order;
}

const environmentOf = async ({ baseUrl }: Answer): Promise<{ [name: string]: string }> =>
  (await (await fetch(`${baseUrl}/environment`)).json()) as { [name: string]: string };

/** A start in a folder that another has answers in one line, and the other goes on. */
async function expectRefused(dataDir: string, { program, answer }: Started): Promise<void> {
  const second = runFixture('run-local.cjs', { dataDir });
  expect(await second.ended).toBe(1);
  expect(second.output()).toContain(`is in use by another run (process ${String(program.child.pid)})`);
  expect(recordOf(dataDir).processes).toEqual(answer.processes);
  expect((await fetch(`${answer.baseUrl}/health`)).status).toBe(200);
}

describe('the life of a data folder, in order', () => {
  let dataDir: string;
  let first: Started;
  let environment: { [name: string]: string };

  beforeAll(async () => {
    dataDir = join(temporaryFolder(), 'data');
    first = await start(dataDir, { TOOL_EGRESS_ALLOWED_HOSTS: '', LOG_LEVEL: 'warn' });
  }, 60_000);
  afterAll(cleanUp, 60_000);

  test('it says what runs', () => {
    expect(recordOf(dataDir).processes).toEqual(first.answer.processes);
    expect(recordOf(dataDir).supervisor.pid).toBe(first.program.child.pid);
  });

  test('a second start in the same folder says so and exits with 1', () => expectRefused(dataDir, first), 60_000);

  test('children get local settings; what the environment has wins, the empty value included', async () => {
    environment = await environmentOf(first.answer);
    const { baseUrl, databaseUrl, temporalUiUrl } = first.answer;
    const { port } = new URL(baseUrl);
    expect(environment).toMatchObject({
      TOOL_EGRESS_ALLOWED_HOSTS: '',
      LOG_LEVEL: 'warn',
      WEBHOOK_ALLOW_HTTP: 'true',
      HOST: '127.0.0.1',
      PORT: port,
      PUBLIC_BASE_URL: `http://localhost:${port}`,
      DATABASE_URL: databaseUrl,
      TEMPORAL_UI_URL: temporalUiUrl,
      DATA_DIR: dataDir,
      SECRETS_ENCRYPTION_KEY: expect.stringMatching(/^[0-9a-f]{64}$/) as unknown,
    });
    expect(environment['EMBEDDING_BASE_URL']).toBeUndefined();
    expect(lstatSync(join(dataDir, 'encryption.key')).mode & 0o777).toBe(0o600);
  });

  test('the worker puts mails into the mailbox and the API reads them, newest first', async () => {
    const response = await fetch(`${first.answer.baseUrl}/mailbox?to=reader@example.com`);
    expect(await response.json()).toEqual([
      {
        to: 'Reader@example.com',
        subject: 'Code',
        text: 'Your code is 123456',
        code: '123456',
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as unknown,
      },
    ]);
    const others = await fetch(`${first.answer.baseUrl}/mailbox?to=other@example.com`);
    expect(await others.json()).toEqual([]);
  });

  test('a taken port is named, and nothing is left behind', async () => {
    const elsewhere = join(temporaryFolder(), 'data');
    const { port } = new URL(first.answer.baseUrl);
    const program = runFixture('run-local.cjs', { dataDir: elsewhere, port: Number(port) });
    expect(await program.ended).toBe(1);
    expect(program.output()).toContain(`Port ${port} is in use`);
    expect(existsSync(join(elsewhere, 'run.json'))).toBe(false);
  }, 60_000);

  test('a crashed process and a crashed engine come back, with one line each', async () => {
    const { program, answer } = first;
    await fetch(`${answer.baseUrl}/crash`).catch(() => undefined);
    process.kill(named(answer.processes, 'postgres').pid, 'SIGKILL');
    const freshNames = (): string[] =>
      recordOf(dataDir)
        .processes.filter(({ pid }) => answer.processes.every((before) => before.pid !== pid))
        .map(({ name }) => name);
    const isBack = await waitUntil(async () => {
      if (freshNames().sort().join() !== 'api-0,postgres') return false;
      const health = await fetch(`${answer.baseUrl}/health`).catch(() => null);
      if (health?.status !== 200) return false;
      return query(answer.databaseUrl, 'select 1').then(
        () => true,
        () => false,
      );
    }, 20_000);
    expect(isBack).toBe(true);
    const lines = program
      .output()
      .split('\n')
      .filter((line) => line.includes('starting it again'));
    expect(lines.sort()).toEqual([
      'api-0 ended (status 3): starting it again.',
      'postgres ended (SIGKILL): starting it again.',
    ]);
  }, 60_000);

  test('SIGTERM ends API, worker, Temporal and PostgreSQL in this order, and nothing is left', async () => {
    const { program } = first;
    const { processes } = recordOf(dataDir);
    program.child.kill('SIGTERM');
    const order = await orderOfEnd(processes);
    expect(await program.ended).toBe(0);
    // The guard ends right after the last engine, too soon for a look in between.
    expect(order.slice(0, 3)).toEqual(['api-0', 'worker-0', 'temporal']);
    expect(order.slice(3).sort()).toEqual(['guard', 'postgres']);
    // The worker looked itself: both engines still answered when it was asked to end.
    expect(readFileSync(join(dataDir, 'order.log'), 'utf8')).toBe('api\nworker temporal=true postgres=true\n');
    expect(readFileSync(join(dataDir, 'logs', 'postgres.log'), 'utf8')).toContain('database system is shut down');
    expect(existsSync(join(dataDir, 'run.json'))).toBe(false);
    expect(existsSync(join(dataDir, 'run.sock'))).toBe(false);
  }, 60_000);

  test('the next start has the same secrets, and settings of its own', async () => {
    const second = await start(dataDir);
    const later = await environmentOf(second.answer);
    expect(later['JWT_SECRET']).toBe(environment['JWT_SECRET']);
    expect(later['SECRETS_ENCRYPTION_KEY']).toBe(environment['SECRETS_ENCRYPTION_KEY']);
    expect(later['TOOL_EGRESS_ALLOWED_HOSTS']).toBe('127.0.0.1,localhost');
  }, 60_000);
});

describe('a path too long for a socket file', () => {
  let dataDir: string;
  let first: Started;

  beforeAll(async () => {
    dataDir = join(temporaryFolder(), 'x'.repeat(60), 'y'.repeat(60), 'data');
    first = await start(dataDir);
  }, 60_000);
  afterAll(cleanUp, 60_000);

  test('a second start there says so and exits with 1', () => expectRefused(dataDir, first), 60_000);

  test('a kill of the supervisor alone leaves no process behind', async () => {
    first.program.child.kill('SIGKILL');
    expect(await allEnded(first.answer.processes)).toBe(true);
  }, 60_000);
});

describe('on its own', () => {
  afterEach(cleanUp, 60_000);

  test('after a kill the next start ends exactly what was recorded, and goes on with the data', async () => {
    const dataDir = join(temporaryFolder(), 'data');
    const first = await start(dataDir);
    await query(first.answer.databaseUrl, "create table kept as select 'still here' as text");
    // Without their guard the engines outlive everything, and a paused API does not see that its supervisor died.
    process.kill(named(first.answer.processes, 'api-0').pid, 'SIGSTOP');
    process.kill(named(first.answer.processes, 'guard').pid, 'SIGSTOP');
    first.program.child.kill('SIGKILL');
    await first.program.ended;
    process.kill(named(first.answer.processes, 'guard').pid, 'SIGKILL');
    const bystander = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    const pid = bystander.pid ?? 0;
    try {
      const bystanderTime = await startTimeOf(pid);
      const record = recordOf(dataDir);
      record.processes.push({ name: 'worker-7', pid, startTime: `1${String(bystanderTime)}` });
      writeFileSync(join(dataDir, 'run.json'), JSON.stringify(record));
      expect(await allEnded([named(first.answer.processes, 'postgres')], 0)).toBe(false);

      const second = await start(dataDir);
      expect(await allEnded(first.answer.processes, 0)).toBe(true);
      expect(second.program.output()).toContain(
        `Ending api-0 (process ${String(named(first.answer.processes, 'api-0').pid)})`,
      );
      expect(second.program.output()).not.toContain(`process ${String(pid)}`);
      expect(await startTimeOf(pid)).toBe(bystanderTime);
      expect(await query(second.answer.databaseUrl, 'select text from kept')).toEqual([{ text: 'still here' }]);
    } finally {
      bystander.kill('SIGKILL');
    }
  }, 120_000);

  test.each([
    ['HOST', '0.0.0.0'],
    ['HOST', '192.168.1.5'],
    ['PUBLIC_BASE_URL', 'https://agents.example.com'],
  ])('%s=%s is refused, and nothing is started', async (name, value) => {
    const dataDir = join(temporaryFolder(), 'data');
    const program = runFixture('run-local.cjs', { dataDir }, { env: { [name]: value } });
    expect(await program.ended).toBe(1);
    expect(program.output()).toContain(`${name}=${value} is refused in local mode`);
    expect(existsSync(dataDir)).toBe(false);
  });
});
