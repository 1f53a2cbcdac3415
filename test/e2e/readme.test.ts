import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { waitUntil } from '../../src/local/processes';
import type { ProcessIdentity } from '../../src/local/processes';
import { allEnded, cleanUp, runBuilt, temporaryFolder } from '../support/programs';

afterEach(cleanUp, 60_000);

const readme = readFileSync(resolve(__dirname, '../../README.md'), 'utf8');

const blockOf = (pattern: RegExp): string => pattern.exec(readme)?.[1] ?? '';

/** The block of commands that begins with the address of the API, the one that streams, and what that one prints. */
const commands = blockOf(/```sh\n(api=[\s\S]*?)```/);
const streaming = blockOf(/```sh\n(curl -sN [\s\S]*?)```/);
const frames = blockOf(/```text\n([\s\S]*?)```/);

function shell(text: string, folder: string): Promise<{ status: number | null; output: string; errors: string }> {
  const child = spawn('bash', ['-eu', '-c', text], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (output += piece));
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (errors += piece));
  return new Promise((done) => child.on('close', (status) => done({ status, output, errors })));
}

test('npm start serves the real API and worker, says where, and ends with status 0; the commands of the README do the main job and stream as they are written', async () => {
  const folder = temporaryFolder();
  const program = runBuilt('local.js', { env: { PORT: '0', DATA_DIR: join(folder, '.data') } });
  await waitUntil(() => program.output().includes('Ctrl-C') || program.child.exitCode !== null, 60_000);
  const baseUrl = /^API +(http:\/\/127\.0\.0\.1:\d+)/m.exec(program.output())?.[1] ?? 'none';
  expect((await fetch(`${baseUrl}/health`)).status).toBe(200);
  const mailbox = await fetch(`${baseUrl}/dev/mailbox?to=reader@example.com`);
  expect({ status: mailbox.status, body: await mailbox.json() }).toEqual({ status: 200, body: { data: [] } });
  expect(commands).toContain('api=http://localhost:3000\n');
  const script = `${commands.replace('http://localhost:3000', baseUrl)}printf '\\n===\\n'\n${streaming}`;
  const { status, output, errors } = await shell(script, folder);
  expect({ status, errors }).toEqual({ status: 0, errors: '' });
  const [job = '', streamed = ''] = output.split('\n===\n');
  // The result of the submission, then the transcript, written one after the other.
  const [, result = '', transcript = ''] = job.split(/(?<=\})(?=\{)/);
  expect(JSON.parse(result)).toMatchObject({
    status: 'completed',
    output: { content: 'approve_refund answered: {"approved":true}' },
  });
  expect(JSON.parse(transcript).steps).toHaveLength(2);
  expect(frames).toContain('data: [DONE]');
  expect(streamed.trimEnd()).toBe(frames.trimEnd());
  const { processes } = JSON.parse(readFileSync(join(folder, '.data', 'run.json'), 'utf8')) as {
    processes: (ProcessIdentity & { name: string })[];
  };
  expect(processes.map(({ name }) => name).sort()).toEqual(['api-0', 'guard', 'postgres', 'temporal', 'worker-0']);
  program.child.kill('SIGTERM');
  expect(await program.ended).toBe(0);
  expect(await allEnded(processes, 0)).toBe(true);
}, 120_000);
