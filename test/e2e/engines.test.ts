import { chownSync, copyFileSync, cpSync, existsSync, lstatSync, mkdirSync, readFileSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Client as TemporalClient, Connection } from '@temporalio/client';
import { Client } from 'pg';
import { outsideName } from '../../src/local/folders';
import { packagedBinaries } from '../../src/local/postgres-binaries';
import { findTemporalCli, userCache } from '../../src/local/temporal-cli';
import { allEnded, cleanUp, removeLater, runFixture, temporaryFolder } from '../support/programs';
import type { Program, ProgramOptions } from '../support/programs';

interface Answer {
  databaseUrl: string;
  temporalAddress: string;
  temporalUiUrl: string | null;
  children: { name: string; pid: number; startTime: string }[];
}

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
/** Of these tests' engines: no data here is worth a wait for the disk. */
const fast = { fsync: false, ui: false };

interface Started {
  program: Program;
  answer: Answer;
}

async function start(options: object, programOptions?: ProgramOptions): Promise<Started> {
  const program = runFixture('run-engines.cjs', { ...fast, ...options }, programOptions);
  return { program, answer: await program.answer<Answer>() };
}

async function stop(program: Program): Promise<void> {
  program.child.kill('SIGTERM');
  expect(await program.ended).toBe(0);
}

async function query(databaseUrl: string, text: string): Promise<unknown[]> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

/** The platform package as an install leaves it that runs no scripts: without the symlinks of the libraries. */
function packageWithoutLinks(folder: string): string {
  const packaged = packagedBinaries();
  const target = join(folder, 'package');
  const filter = (source: string): boolean => !lstatSync(source).isSymbolicLink();
  cpSync(packaged, join(target, 'native'), { recursive: true, filter });
  copyFileSync(join(dirname(packaged), 'package.json'), join(target, 'package.json'));
  return join(target, 'native');
}

let temporalCli = '';

beforeAll(async () => {
  temporalCli = await findTemporalCli({ cacheFolders: [userCache()], log: () => undefined });
}, 120_000);

describe('the life of a data folder, in order', () => {
  let dataDir: string;
  let first: Started;
  let second: Started;

  beforeAll(async () => {
    dataDir = join(temporaryFolder(), 'data');
    first = await start({ dataDir, ui: true, namespaces: ['extra'] });
  }, 60_000);
  afterAll(cleanUp, 60_000);

  test('nobody gets into the database without its password, which only its owner can read', async () => {
    const url = new URL(first.answer.databaseUrl);
    url.password = 'wrong';
    await expect(query(url.href, 'select 1')).rejects.toThrow(/password authentication failed/);
    expect(lstatSync(join(dataDir, 'postgres.password')).mode & 0o777).toBe(0o600);
  });

  test('a second start on the same data does not open it, and leaves the first alone', async () => {
    const other = runFixture('run-engines.cjs', { ...fast, dataDir, inMemory: true, lockWaitMs: 500 });
    expect(await other.ended).toBe(1);
    expect(other.output()).toMatch(/Another PostgreSQL \(process \d+\) holds/);
    expect(await query(first.answer.databaseUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
  }, 60_000);

  test('both engines answer, on addresses of this machine only, and keep their data over a restart', async () => {
    expect(first.answer.children.map(({ name }) => name).sort()).toEqual(['guard', 'postgres', 'temporal']);
    const page = await fetch(first.answer.temporalUiUrl ?? '');
    expect(page.status).toBe(200);
    await query(first.answer.databaseUrl, "create table kept as select 'still here' as text");
    const connection = await Connection.connect({ address: first.answer.temporalAddress });
    const client = new TemporalClient({ connection, namespace: 'extra' });
    await client.workflow.start('nothing', { taskQueue: 'none', workflowId: 'kept' });
    await connection.close();
    await stop(first.program);
    expect(await allEnded(first.answer.children, 0)).toBe(true);

    second = await start({ dataDir, namespaces: ['extra'] });
    expect(await query(second.answer.databaseUrl, 'select text from kept')).toEqual([{ text: 'still here' }]);
    expect(await query(second.answer.databaseUrl, 'select current_database() as name')).toEqual([{ name: 'svc' }]);
    const again = await Connection.connect({ address: second.answer.temporalAddress });
    const { status } = await new TemporalClient({ connection: again, namespace: 'extra' }).workflow
      .getHandle('kept')
      .describe();
    await again.close();
    expect(status.name).toBe('RUNNING');
    expect(second.answer.temporalAddress).toMatch(/^127\.0\.0\.1:/);
    expect(await query(second.answer.databaseUrl, 'show listen_addresses')).toEqual([
      { listen_addresses: '127.0.0.1' },
    ]);
  }, 60_000);

  test('a database whose password is lost is not thrown away: the message says what to do', async () => {
    await stop(second.program);
    unlinkSync(join(dataDir, 'postgres.password'));
    const third = runFixture('run-engines.cjs', { ...fast, dataDir, inMemory: true });
    expect(await third.ended).toBe(1);
    expect(third.output()).toContain('postgres.password is missing: put it back');
    expect(readFileSync(join(dataDir, 'postgres', 'PG_VERSION'), 'utf8').trim()).toBe('18');
  }, 60_000);
});

describe('on its own', () => {
  afterEach(cleanUp, 60_000);

  test('an install made without its scripts works: the symlinks of the libraries are made', async () => {
    const folder = temporaryFolder();
    const postgresBinaries = packageWithoutLinks(folder);
    const link = join(postgresBinaries, 'lib', 'libpq.so.5');
    expect(lstatSync(link, { throwIfNoEntry: false })).toBeUndefined();
    const { answer } = await start({ dataDir: join(folder, 'data'), inMemory: true, search: { postgresBinaries } });
    expect(await query(answer.databaseUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
    if (process.platform === 'linux') expect(lstatSync(link).isSymbolicLink()).toBe(true);
  }, 60_000);

  test('a folder of mode 0700 with data and binaries works; for root both go elsewhere and one line says so', async () => {
    const closed = temporaryFolder(0o700);
    const postgresBinaries = packageWithoutLinks(closed);
    const dataDir = join(closed, 'data');
    const outside = outsideName(dataDir);
    removeLater(outside);
    const options = { dataDir, inMemory: true, search: { postgresBinaries } };
    const first = await start(options);
    await query(first.answer.databaseUrl, "create table kept as select 'still here' as text");
    const said = first.program
      .output()
      .split('\n')
      .filter((line) => line.includes(outside));
    expect(said).toHaveLength(isRoot ? 1 : 0);
    expect(existsSync(join(outside, 'postgres'))).toBe(isRoot);
    await stop(first.program);

    const second = await start(options);
    expect(await query(second.answer.databaseUrl, 'select text from kept')).toEqual([{ text: 'still here' }]);
  }, 60_000);

  test('a user without rights and without a home can run both engines', async () => {
    const folder = temporaryFolder();
    const home = { HOME: join(folder, 'no-home') };
    // The cache of the user who runs the tests may be closed to others.
    const cli = join(folder, 'temporal');
    copyFileSync(temporalCli, cli);
    const dataDir = join(folder, 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    if (isRoot) chownSync(dataDir, NOBODY, NOBODY);
    const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
    const { program, answer } = await start({ dataDir, temporalCli: cli }, { env: home, ...user });
    expect(await query(answer.databaseUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
    if (isRoot) expect(lstatSync(join(dataDir, 'postgres')).uid).toBe(NOBODY);
    await stop(program);
  }, 60_000);

  test('the engines end when the program that started them is killed, and a temporary folder goes with them', async () => {
    const dataDir = join(temporaryFolder(), 'data');
    const { program, answer } = await start({ dataDir, temporary: true });
    expect(answer.children).toHaveLength(3);
    expect(await allEnded(answer.children, 0)).toBe(false);
    program.child.kill('SIGKILL');
    expect(await allEnded(answer.children)).toBe(true);
    expect(existsSync(dataDir)).toBe(false);
  }, 60_000);
});
