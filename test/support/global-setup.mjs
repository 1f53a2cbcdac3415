/**
 * Runs once before all test files: one PostgreSQL and one Temporal server for the whole run. Native ESM that imports the compiled
 * program, because a test runner's transform would reach into packages that must stay as they are.
 */
import { chmodSync, existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import pg from 'pg';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));

async function createTemplate(adminUrl) {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  await client.query('create database template');
  await client.end();
  const migrate = join(dist, 'migrate.js');
  if (!existsSync(migrate)) return;
  const { migrateUp } = await import(pathToFileURL(migrate).href);
  const url = new URL(adminUrl);
  url.pathname = '/template';
  await migrateUp(url.href);
}

export default async function setup() {
  const program = join(dist, 'local', 'engines.js');
  if (!existsSync(program)) throw new Error('dist/ is missing: run `npm run build` first.');
  const { startEngines } = await import(pathToFileURL(program).href);
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-'));
  // Passable, so that root's database, which runs as another user, can stay inside.
  chmodSync(dataDir, 0o711);
  const engines = await startEngines({
    dataDir,
    // The environment's own engines are never used: tests make and drop databases.
    temporalCli: process.env.TEMPORAL_CLI,
    namespaces: ['test-1', 'test-2', 'test-3', 'test-4'],
    inMemory: true,
    fsync: false,
    ui: false,
    temporary: true,
    log: (line) => process.stderr.write(`${line}\n`),
  });
  globalThis.__engines = engines;
  const adminUrl = engines.databaseUrl.replace(/\/svc$/, '/postgres');
  try {
    await createTemplate(adminUrl);
  } catch (error) {
    await engines.stop();
    throw error;
  }
  process.env.TEST_DATABASE_ADMIN_URL = adminUrl;
  process.env.TEST_TEMPORAL_ADDRESS = engines.temporalAddress;
}
