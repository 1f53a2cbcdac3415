import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformSync } from '@swc/core';
import { signedHeaders } from '../../src/api/webhooks/signing';
import { freePorts } from '../../src/local/ports';
import { findTemporalCli, userCache } from '../../src/local/temporal-cli';
import { guides, isShown, runBlocks } from '../support/guides';
import type { BlockResult, CommandBlock, Guide } from '../support/guides';
import { useLocal } from '../support/local';
import { temporaryFolder } from '../support/programs';

const folder = temporaryFolder();
const bin = join(folder, 'bin');
const PORTS = ['4001', '4002', '4003', '4004'];
/** The client programs refuse a server that is newer than they are. */
const SERVER_MAJOR = 18;

const options = {
  port: 0,
  dataDir: join(folder, '.data'),
  // Long enough that a delivery is still being retried when it is looked for.
  env: { WEBHOOK_BACKOFF_BASE_SECONDS: '4' },
};
const service = useLocal(options);
let instead: [string, string][] = [];

beforeAll(async () => {
  mkdirSync(bin);
  const cacheFolders = [userCache(), join(options.dataDir, 'cache')];
  symlinkSync(
    await findTemporalCli({ cacheFolders, log: () => undefined, temporalCli: process.env['TEMPORAL_CLI'] }),
    join(bin, 'temporal'),
  );
  // The same after a stop, as the guide's own port is.
  options.port = Number(new URL(service.local.baseUrl).port);
  const ports = await freePorts(PORTS.length);
  instead = PORTS.map((port, index) => [port, String(ports[index])]);
}, 60_000);

function outputOf(program: string, ...words: string[]): string | null {
  try {
    return execFileSync(program, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return null;
  }
}

const machineHas: Record<string, boolean> = {
  stopped: true,
  'needs-python3': outputOf('python3', '--version') !== null,
  'needs-go': outputOf('go', 'version') !== null,
  'needs-pg-client':
    Number(/ (\d+)/.exec(outputOf('pg_dump', '--version') ?? '')?.[1] ?? 0) >= SERVER_MAJOR &&
    outputOf('psql', '--version') !== null,
};
const canRun = ({ mark }: CommandBlock): boolean => mark === null || (machineHas[mark] ?? false);

const LAST = ['operating', 'backup-and-restore'];
/** The one whose times are looked at, and the one that stops the service, run alone and last. */
const alone = (name: string): boolean => LAST.includes(name);

/** The folder in which a guide runs: one of its own, but for a copy of everything. */
function folderOf(name: string): string {
  if (name === 'backup-and-restore') return folder;
  const own = join(folder, name);
  mkdirSync(join(own, '.data'), { recursive: true });
  symlinkSync(join(options.dataDir, 'model-server.port'), join(own, '.data', 'model-server.port'));
  copyFileSync(join(__dirname, '../../.env.example'), join(own, '.env.example'));
  return own;
}

async function runGuide({ name, blocks, files }: Guide): Promise<BlockResult[]> {
  const here = folderOf(name);
  for (const [file, text] of files) {
    writeFileSync(
      join(here, file),
      instead.reduce((all, [port, free]) => all.replaceAll(port, free), text),
    );
  }
  const { baseUrl, temporalAddress, databaseUrl } = service.local;
  return runBlocks(blocks.filter(canRun), {
    folder: here,
    env: { TEMPORAL_ADDRESS: temporalAddress, DATABASE_URL: databaseUrl, PATH: `${bin}:${process.env['PATH'] ?? ''}` },
    instead: [['http://localhost:3000', baseUrl], ['ana@', `${name}@`], ...instead],
    stop: () => service.stop(),
    start: async () => {
      await service.start();
      return service.local.temporalAddress;
    },
  });
}

const inOrder = guides().sort((a, b) => LAST.indexOf(a.name) - LAST.indexOf(b.name));

let together: Map<string, Promise<BlockResult[]>> | undefined;

/** What the blocks of a guide printed; the short guides run at the same time. */
async function resultsOf(guide: Guide): Promise<BlockResult[]> {
  if (alone(guide.name)) return runGuide(guide);
  together ??= new Map(
    inOrder
      .filter(({ name }) => !alone(name))
      .map((one) => {
        const running = runGuide(one);
        running.catch(() => undefined); // Said by the test that waits for it.
        return [one.name, running];
      }),
  );
  return (await together.get(guide.name)) ?? [];
}

describe.each(inOrder.map((guide) => [guide.name, guide] as const))('the guide %s', (name, guide) => {
  const blocks = guide.blocks.filter(canRun);
  let results: BlockResult[] = [];

  test('runs as it is written', async () => {
    results = await resultsOf(guide);
    expect(results).toHaveLength(blocks.length);
    // What an operator looks for by its id is found in under ten seconds.
    if (name === 'operating') expect(Math.max(...results.map(({ tookMs }) => tookMs))).toBeLessThan(10_000);
  }, 120_000);

  for (const block of guide.blocks) {
    const { title, shown } = block;
    if (shown === null) continue;
    const mayRun = canRun(block) ? test : test.skip;
    mayRun(`prints what it shows at ${title}`, () => {
      const output = results[blocks.indexOf(block)]?.output ?? 'nothing: the guide did not run';
      if (!isShown(shown, output)) expect(output).toBe(shown);
    });
  }
});

test('the check in TypeScript takes what is signed by this service, and nothing else', () => {
  const source = inOrder.find(({ name }) => name === 'webhooks')?.files.get('verify.ts') ?? '';
  const { code } = transformSync(source, {
    jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
    module: { type: 'commonjs' },
  });
  const loaded: { exports: { isGenuine?: (header: string | undefined, body: Buffer, secret: string) => boolean } } = {
    exports: {},
  };
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the guide's own text is what is tested
  new Function('require', 'exports', code)(require, loaded.exports);
  const isGenuine = loaded.exports.isGenuine;
  if (isGenuine === undefined) throw new Error('The guide exports no check.');
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const signed = (atSeconds: number): string | undefined =>
    signedHeaders({ deliveryId: 'whd_1', eventId: 'evt_1', eventType: 'x', body: '{"é":1}', secret, atSeconds })[
      'X-Svc-Signature'
    ];
  const now = Math.floor(Date.now() / 1000);
  expect(isGenuine(signed(now), Buffer.from('{"é":1}'), secret)).toBe(true);
  expect(isGenuine(signed(now), Buffer.from('{"é":2}'), secret)).toBe(false);
  expect(isGenuine(signed(now), Buffer.from('{"é":1}'), `${secret}x`)).toBe(false);
  expect(isGenuine(signed(now - 400), Buffer.from('{"é":1}'), secret)).toBe(false);
  expect(isGenuine(undefined, Buffer.from('{}'), secret)).toBe(false);
});
