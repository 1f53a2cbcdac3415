import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { waitUntil } from '../../src/local/processes';
import type { ProcessIdentity } from '../../src/local/processes';
import { allEnded, cleanUp, runBuilt, temporaryFolder } from '../support/programs';
import type { Program } from '../support/programs';

const RUN_MS = 90_000;
/** Whoever runs the tests may have an account and settings of their own. */
const PLAIN = { PORT: '0', OPENAI_API_KEY: '', OPENAI_BASE_URL: '', CALL_HEARTBEAT_SECONDS: '' };
const VENDOR_KEY = 'sk-test-0123456789abcdef';

interface Watched {
  program: Program;
  /** Every process that the demo started and wrote down so far, the killed one included. */
  started: Map<number, ProcessIdentity>;
  /** Resolves when it ended, or printed `text`. */
  until: (text?: string) => Promise<boolean>;
}

function startDemo(dataDir: string, args: string[], env: Record<string, string> = {}): Watched {
  const program = runBuilt('local/demo.js', { args, env: { ...PLAIN, DATA_DIR: dataDir, ...env } });
  const started = new Map<number, ProcessIdentity>();
  const look = (): void => {
    try {
      const record = JSON.parse(readFileSync(join(dataDir, 'run.json'), 'utf8')) as { processes: ProcessIdentity[] };
      for (const process of record.processes) started.set(process.pid, process);
    } catch {
      // Before the start and after the end there is no record.
    }
  };
  const until = (text?: string): Promise<boolean> =>
    waitUntil(() => {
      look();
      if (program.child.exitCode !== null || program.child.signalCode !== null) return true;
      return text !== undefined && program.output().includes(text);
    }, RUN_MS);
  return { program, started, until };
}

/** Waits for the end and for all that was started. */
async function ended({ program, started, until }: Watched): Promise<{ status: number | null; output: string }> {
  expect(await until()).toBe(true);
  expect(started.size).toBeGreaterThan(3);
  expect(await allEnded([...started.values()], 0)).toBe(true);
  return { status: await program.ended, output: program.output() };
}

/** Runs a printed `curl` line without curl: its words are an address, headers and a body, all in single quotes. */
async function runCommand(line: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '');
  expect(words.slice(0, 2)).toEqual(['curl', '-s']);
  const after = (flag: string): string[] => words.filter((_word, index) => words[index - 1] === flag);
  const headers = after('-H').map((header) => header.split(': ') as [string, string]);
  const [body] = after('-d');
  const response = await fetch(words[2]!, body === undefined ? { headers } : { method: 'POST', headers, body });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

let vendor: ModelServer;
/** Of all demos of this file: each but the first goes on with what the ones before it left. */
const dataDir = join(temporaryFolder(), 'data');
/** Runs that the first demo named. */
let firstRuns: string[];

const runsIn = (text: string): string[] => [...new Set(text.match(/gen_\w+/g))];

beforeAll(async () => {
  vendor = await startModelServer({ apiKey: VENDOR_KEY });
});
afterAll(async () => {
  await cleanUp();
  await vendor.close();
}, RUN_MS);

test('[demo 1] the demo shows the main job with a killed worker in it', async () => {
  const { status, output } = await ended(startDemo(dataDir, ['--exit']));
  expect(output.split('\n').filter((line) => /^\d+\. /.test(line))).toEqual([
    '1. Start PostgreSQL, Temporal, API and worker',
    '2. Sign in with a mailed code',
    '3. Make a project and an API key',
    '4. Make a provider, two tools and an agent',
    '5. Register a webhook',
    '6. Wait for a run that pauses for our tool',
    '7. Start a run and look at it later',
    '8. Read an answer as it comes',
    '9. Kill the worker in the middle of a run',
    '10. Verify the deliveries',
  ]);
  expect(output.match(/^ {3}done in \d+ ms$/gm)).toHaveLength(10);
  expect(output).toMatch(/mailed code +\d{6}\n/);
  const [, paused = 'none'] = /paused +(gen_\w+) after \d+ ms\n/.exec(output) ?? [];
  expect(output).toMatch(new RegExp(`in Temporal +http://127.0.0.1:\\d+/namespaces/default/workflows/${paused}\n`));
  expect(output).toMatch(new RegExp(`completed +${paused} \\d+ ms after our output\n`));
  const [, streamed = 'none'] = /opened +(gen_\w+) after \d+ ms\n/.exec(output) ?? [];
  expect(output).toMatch(new RegExp(`in Temporal +http://127.0.0.1:\\d+/namespaces/default/workflows/${streamed}\n`));
  expect(output).toMatch(/words +The parcel waits a week in a shop nearby\. After that it travels back\.\n/);
  expect(output).toMatch(/\[DONE\] +10 frames, the last after \d+ ms\n/);
  expect(output).toContain('The model said word 5 only after we had read word 4.');
  expect(output).toContain('Step 1 is stored, the model call of step 2 is under way and held.');
  const [, killed] = /killed +worker-0, process (\d+), by SIGKILL\n/.exec(output) ?? [];
  const [, restarted] = /restarted +worker-0, process (\d+), up in \d+ ms\n/.exec(output) ?? [];
  expect(Number(restarted)).not.toBe(Number(killed ?? restarted));
  expect(output).toMatch(/model server +3 calls: 2 answered, 1 cut off by the kill\n/);
  expect(output).toContain('2 answers for 2 stored steps: no step was bought twice.');
  expect(output.match(/delivery +whd_\w+ generation\.completed of gen_\w+\n/g)).toHaveLength(3);
  expect(output).toMatch(/verified +X-Svc-Signature .* standardwebhooks library\n/);
  expect(output).toContain('All of it worked.');
  expect(output).not.toContain('\u001b');
  expect(status).toBe(0);
  firstRuns = runsIn(output);
  expect(firstRuns).toHaveLength(4);
}, 180_000);

test('[demo 1] run again on the same data, with an account of a vendor, it uses that one, and serves until Ctrl-C; the commands it prints work', async () => {
  const env = { OPENAI_API_KEY: VENDOR_KEY, OPENAI_BASE_URL: vendor.url, OPENAI_MODEL: 'test-vendor-model' };
  const demo = startDemo(dataDir, [], env);
  await demo.until('Ctrl-C stops it.');
  const output = demo.program.output();
  expect(output).toContain('All of it worked.');
  expect(output).toContain('Everything keeps running.');
  expect(runsIn(output)).toHaveLength(4);
  expect(runsIn(output).filter((id) => firstRuns.includes(id))).toEqual([]);
  expect(output).toMatch(/words +You said: Tell a customer .*\n {3}\[DONE\] +\d+ frames/);
  expect(output).toContain('Step 1 is stored, the tool call of step 1 is under way and held.');
  expect(output).not.toContain(VENDOR_KEY);
  expect(vendor.calls({ model: 'test-vendor-model' }).length).toBeGreaterThanOrEqual(6);

  const answers: Awaited<ReturnType<typeof runCommand>>[] = [];
  for (const line of output.split('\n').filter((candidate) => candidate.startsWith('curl '))) {
    answers.push(await runCommand(line));
  }
  expect(answers).toEqual([
    { status: 200, body: expect.objectContaining({ status: 'completed' }) as unknown },
    { status: 200, body: expect.objectContaining({ status: 'completed', step_count: 2 }) as unknown },
    { status: 200, body: expect.objectContaining({ data: expect.any(Array) as unknown }) as unknown },
  ]);
  expect(JSON.stringify(answers[0])).toContain('ord_7');

  const second = runBuilt('local/demo.js', { env: { ...PLAIN, DATA_DIR: dataDir } });
  expect(await second.ended).toBe(1);
  expect(second.output()).toContain(`is in use by another run (process ${String(demo.program.child.pid)})`);

  demo.program.child.kill('SIGINT');
  expect((await ended(demo)).status).toBe(0);
}, 120_000);

test('a step that fails ends it with its reason in one line, and stops everything', async () => {
  const env = { OPENAI_API_KEY: 'sk-wrong-0123456789', OPENAI_BASE_URL: vendor.url };
  const { status, output } = await ended(startDemo(dataDir, ['--exit'], env));
  expect(output.trimEnd().split('\n').at(-1)).toMatch(
    /^Step 6 \(Wait for a run that pauses for our tool\) failed: POST \S+ answered 502 AI_PROVIDER_ERROR: Provider returned 401: Incorrect API key provided\.$/,
  );
  expect(output).not.toContain('sk-wrong');
  expect(output).not.toContain('All of it worked.');
  expect(status).toBe(1);
}, 120_000);

test('Ctrl-C in the middle of a step stops everything', async () => {
  const demo = startDemo(dataDir, ['--exit']);
  await demo.until('the model call of step 2 is under way and held');
  demo.program.child.kill('SIGINT');
  const { status, output } = await ended(demo);
  expect(output).not.toContain('All of it worked.');
  expect(status).toBe(130);
}, 120_000);

test('an argument that it does not know is named, and nothing is started', async () => {
  const program = runBuilt('local/demo.js', { args: ['--quick'], env: { ...PLAIN, DATA_DIR: '/nowhere' } });
  expect(await program.ended).toBe(2);
  expect(program.output()).toBe('--quick is not understood; the only argument is --exit.\n');
});
