import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';

const LOG_BYTES_MAX = 10 * 1024 * 1024;

/** Makes the data folder when missing and gives its real path. Root's is passable, since its database runs as another user. */
export function openDataDir(dataDir: string): string {
  mkdirSync(resolve(dataDir), { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
  return realpathSync(resolve(dataDir));
}

/** The name of the folder that stands in for a data folder which the database's user cannot reach. */
export function outsideName(dataDir: string): string {
  return `/var/tmp/svc-${createHash('sha256').update(dataDir).digest('hex').slice(0, 12)}`;
}

/**
 * Makes that folder. Everybody may write to /var/tmp, so what stands there already is only used when it is ours alone.
 * @throws when somebody else made it.
 */
export function openOutside(dataDir: string): string {
  const folder = outsideName(dataDir);
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const stat = lstatSync(folder);
  if (!stat.isDirectory() || stat.uid !== process.getuid?.() || (stat.mode & 0o022) !== 0) {
    throw new Error(`${folder} is not ours alone: remove it, or choose another DATA_DIR.`);
  }
  return folder;
}

/** Lets everybody read a tree; what its owner may execute, everybody may. */
export function openForAll(path: string): void {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return;
  chmodSync(path, stat.mode | 0o444 | ((stat.mode & 0o100) === 0 ? 0 : 0o111));
  if (stat.isDirectory()) for (const name of readdirSync(path)) openForAll(join(path, name));
}

/** Gives a finished folder its name at once; when another process was first, its folder stays and ours goes. */
export function renameInto(unfinished: string, folder: string): void {
  try {
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}

/** A random value in hex that is made once and kept in a file only its owner can read. */
export function keptSecret(file: string, bytes: number): string {
  try {
    writeFileSync(file, randomBytes(bytes).toString('hex'), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return readFileSync(file, 'utf8').trim();
}

/** The path of a log in the data folder; one that has grown large is set aside, so that two are the most there are. */
export function logFile(dataDir: string, name: string): string {
  const folder = join(dataDir, 'logs');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, `${name}.log`);
  if (existsSync(file) && statSync(file).size > LOG_BYTES_MAX) renameSync(file, `${file}.1`);
  return file;
}
