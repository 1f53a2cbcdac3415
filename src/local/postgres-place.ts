import { existsSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openOutside, outsideName } from './folders';
import { binariesOpenTo, packagedBinaries, readyBinaries } from './postgres-binaries';
import type { PostgresBinaries } from './postgres-binaries';
import { databaseUser, isOpenTo } from './postgres-user';
import type { SystemUser } from './postgres-user';

/** Where the cluster and its binaries live, and as whom the server runs. */
export interface PostgresPlace {
  cluster: string;
  /** Holds the cluster; only its owner may write there. */
  parent: string;
  binaries: PostgresBinaries;
  user: SystemUser | undefined;
  /** Folders outside the data folder that hold any of it. */
  outside: string[];
}

export interface PlaceOptions {
  /** Real path of the data folder. */
  dataDir: string;
  /** The folder `native` of the binaries; the installed platform package when left out. */
  binaries?: string | undefined;
  log: (line: string) => void;
}

export function passwordFile(dataDir: string): string {
  return join(dataDir, 'postgres.password');
}

/** A cluster belongs to the user that made it; root keeps to that one. */
async function userOf(cluster: string): Promise<SystemUser | undefined> {
  const user = await databaseUser();
  if (user === undefined || !existsSync(cluster)) return user;
  const { uid, gid } = statSync(cluster);
  return uid === 0 ? user : { uid, gid };
}

/** A cluster outside that has lost its data folder is set aside, since nobody knows its password any more. */
function bringOver(inside: string, moved: string, { dataDir, log }: PlaceOptions): void {
  if (existsSync(moved) && !existsSync(passwordFile(dataDir))) {
    rmSync(`${moved}.old`, { recursive: true, force: true });
    renameSync(moved, `${moved}.old`);
    log(`${dataDir} is new: the database of the earlier one was set aside as ${moved}.old.`);
  }
  if (existsSync(moved) || !existsSync(inside)) return;
  try {
    renameSync(inside, moved);
  } catch {
    throw new Error(
      `${inside} is closed to the user of PostgreSQL and on another disk: run \`mv ${inside} ${moved}\`.`,
    );
  }
}

interface Choice {
  user: SystemUser | undefined;
  /** The cluster, or the binaries, must live outside; null when they need not. */
  clusterOutside: string | null;
  binariesOutside: string | null;
}

/** What cannot stay inside, with the reason. */
async function choose(dataDir: string, packaged: string): Promise<Choice> {
  const inside = join(dataDir, 'postgres');
  const moved = join(outsideName(dataDir), 'postgres');
  const user = await userOf(existsSync(inside) ? inside : moved);
  const wasMoved = !existsSync(inside) && existsSync(moved) ? 'it was moved there earlier' : null;
  if (user === undefined) return { user, clusterOutside: wasMoved, binariesOutside: null };
  return {
    user,
    clusterOutside: isOpenTo(user, dataDir, 'pass') ? wasMoved : `${dataDir} is closed to its user`,
    binariesOutside: binariesOpenTo(user, packaged) ? null : `${packaged} is closed to its user`,
  };
}

/**
 * Chooses the place: the data folder and the package, unless the server's user cannot reach these (only root's start has a
 * user of its own); then a folder in /var/tmp, and one line says so. A cluster that moved there stays there.
 */
export async function choosePlace(options: PlaceOptions): Promise<PostgresPlace> {
  const { dataDir, log } = options;
  const packaged = realpathSync(options.binaries ?? packagedBinaries());
  const { user, clusterOutside, binariesOutside } = await choose(dataDir, packaged);
  const reason = clusterOutside ?? binariesOutside;
  if (reason === null) {
    const binaries = readyBinaries(packaged, { folder: dataDir, always: false });
    return { cluster: join(dataDir, 'postgres'), parent: dataDir, binaries, user, outside: [] };
  }
  const folder = openOutside(dataDir);
  log(`PostgreSQL lives in ${folder}: ${reason}.`);
  const parent = clusterOutside === null ? dataDir : folder;
  if (clusterOutside !== null) bringOver(join(dataDir, 'postgres'), join(folder, 'postgres'), options);
  const binaries = readyBinaries(packaged, { folder, always: binariesOutside !== null });
  return { cluster: join(parent, 'postgres'), parent, binaries, user, outside: [folder] };
}
