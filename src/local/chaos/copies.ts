import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { localDefaults } from '../local-settings';
import { outsideName } from '../folders';
import type { Stage } from './stage';
import { SHORT } from './stage';

const run = promisify(execFile);
const ENGINE_FILES = ['temporal.db', 'temporal.db-wal', 'temporal.db-shm'];
const RECONCILE_MS = 120_000;

const copies = (dataDir: string): string => join(dataDir, 'copies');

/** The cluster lies outside where the database's user cannot reach the data folder. */
function clusterOf(dataDir: string): string {
  const inside = join(dataDir, 'postgres');
  return existsSync(inside) ? inside : join(outsideName(dataDir), 'postgres');
}

/** Copies with owners and times: the database is another user's. */
async function copy(from: string, to: string): Promise<void> {
  await run('cp', ['-a', from, to]);
}

/** Copies the data of engine and database aside; both must be stopped. */
export async function copyAside(dataDir: string): Promise<void> {
  mkdirSync(copies(dataDir), { recursive: true });
  for (const name of ENGINE_FILES.filter((file) => existsSync(join(dataDir, file))))
    await copy(join(dataDir, name), join(copies(dataDir), name));
  await copy(clusterOf(dataDir), join(copies(dataDir), 'postgres'));
}

/** Puts the engine's older data back; it must be stopped. */
export async function restoreEngine(dataDir: string): Promise<void> {
  for (const name of ENGINE_FILES) {
    rmSync(join(dataDir, name), { force: true });
    if (existsSync(join(copies(dataDir), name))) await copy(join(copies(dataDir), name), join(dataDir, name));
  }
}

/** Puts the database's older data back; it must be stopped. */
export async function restoreDatabase(dataDir: string): Promise<void> {
  const cluster = clusterOf(dataDir);
  rmSync(cluster, { recursive: true, force: true });
  await copy(join(copies(dataDir), 'postgres'), cluster);
}

/** `npm run reconcile` against the drill's own engine and database. @returns what it printed */
export async function reconcile({ dataDir, local }: Pick<Stage, 'dataDir' | 'local'>): Promise<string> {
  const { NODE_ENV: _unset, ...environment } = process.env;
  const { stdout } = await run(process.execPath, [join(__dirname, '..', '..', 'reconcile.js'), '--local'], {
    timeout: RECONCILE_MS,
    env: {
      ...environment,
      ...localDefaults(dataDir),
      ...SHORT,
      TEMPORAL_NAMESPACE: undefined,
      DATABASE_URL: local.databaseUrl,
      TEMPORAL_ADDRESS: local.temporalAddress,
      PUBLIC_BASE_URL: local.baseUrl,
      DATA_DIR: dataDir,
    },
  });
  return stdout.trim().split('\n').at(-1) ?? '';
}
