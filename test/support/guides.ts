import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

const FOLDER = resolve(__dirname, '../../docs/guides');
/** Blocks for machines that a test does not have: containers, a cloud. */
const ELSEWHERE = new Set(['docker', 'cloud']);
const RUN_MS = 90_000;

/** One block of commands, with the output that the guide shows below it. */
export interface CommandBlock {
  title: string;
  commands: string;
  /** Null where the guide shows none. */
  shown: string | null;
  /** What the machine must have, or the service must be (`stopped`); null for nothing. */
  mark: string | null;
}

export interface Guide {
  name: string;
  blocks: CommandBlock[];
  /** Files that the guide spells out, by name. */
  files: Map<string, string>;
}

interface Fence {
  language: string;
  mark: string | null;
  body: string;
}

function fencesOf(text: string): Fence[] {
  return [...text.matchAll(/^```([^\n]*)\n([\s\S]*?)^```$/gm)].map(([, info = '', body = '']) => {
    const [language = '', mark = null] = info.split(' ');
    return { language, mark, body };
  });
}

/** The command that a block begins with, as far as a title may be long. */
function titleOf(number: number, body: string): string {
  const first = body.split('\n').find((line) => line !== '' && !line.startsWith('#')) ?? '';
  return `${String(number)}: ${first.slice(0, 60)}`;
}

function parse(name: string): Guide {
  const guide: Guide = { name, blocks: [], files: new Map() };
  let last: CommandBlock | null = null;
  for (const { language, mark, body } of fencesOf(readFileSync(join(FOLDER, `${name}.md`), 'utf8'))) {
    if (language === 'sh') {
      last = { title: titleOf(guide.blocks.length + 1, body), commands: body, shown: null, mark };
      if (mark === null || !ELSEWHERE.has(mark)) guide.blocks.push(last);
      continue;
    }
    if (language === 'text' && last !== null) last.shown = body;
    else if (mark !== null) guide.files.set(mark, body);
    last = null;
  }
  return guide;
}

/** Every guide with commands; the first block of the quickstart stands before those that say that they begin with it. */
export function guides(): Guide[] {
  const names = readdirSync(FOLDER).map((file) => file.replace(/\.md$/, ''));
  const all = names.filter((name) => name !== 'README').map(parse);
  const setUp = all.find(({ name }) => name === 'quickstart')?.blocks[0];
  if (setUp === undefined) throw new Error('The quickstart has no block that sets up.');
  return all
    .filter(({ blocks }) => blocks.length > 0)
    .map((guide) => (beginsWithSetUp(guide.name) ? { ...guide, blocks: [setUp, ...guide.blocks] } : guide));
}

function beginsWithSetUp(name: string): boolean {
  const text = readFileSync(join(FOLDER, `${name}.md`), 'utf8').replaceAll('\n', ' ');
  return text.includes('egin with the block [Set up](quickstart.md#set-up)');
}

/** Whether what came is what the guide shows, in which `…` stands for anything within a line. */
export function isShown(shown: string, output: string): boolean {
  const pattern = shown
    .trimEnd()
    .split('…')
    .map((piece) => piece.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&'))
    .join('.*');
  return new RegExp(`^${pattern}$`).test(output.trimEnd());
}

export interface ShellRun {
  folder: string;
  env: Record<string, string>;
  /** Words of the guides and what stands in their place here: addresses and ports. */
  instead: [string, string][];
  stop: () => Promise<void>;
  /** Starts what `stop` ended, and gives the address at which its engine is now. */
  start: () => Promise<string>;
}

export interface BlockResult {
  output: string;
  tookMs: number;
}

const SIGN = '@@guide@@';

/** One script of all blocks: it says before each that it comes, and waits where the service has to stop or start. */
function scriptOf(blocks: CommandBlock[]): string {
  const lines: string[] = [];
  let isDown = false;
  for (const [index, { commands, mark }] of blocks.entries()) {
    const down = mark === 'stopped';
    if (down !== isDown) lines.push(`echo '${SIGN} ${down ? 'stop' : 'start'}'; read -r TEMPORAL_ADDRESS`);
    isDown = down;
    lines.push(`echo '${SIGN} ${String(index)}'`, commands);
  }
  if (isDown) lines.push(`echo '${SIGN} start'; read -r TEMPORAL_ADDRESS`);
  return [...lines, `echo '${SIGN} end'`].join('\n');
}

/**
 * Runs the blocks of a guide in one shell, and ends whatever they left in the background.
 * @throws with everything that was printed, when a command fails or the shell does not come to its end
 */
export function runBlocks(blocks: CommandBlock[], run: ShellRun): Promise<BlockResult[]> {
  const script = run.instead.reduce((text, [word, here]) => text.replaceAll(word, here), scriptOf(blocks));
  const child = spawn('bash', ['-eu', '-c', script], {
    cwd: run.folder,
    env: { ...process.env, ...run.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const results: BlockResult[] = [];
  let [errors, rest, at, since] = ['', '', -1, Date.now()];
  const line = (text: string): void => {
    const [, sign] = new RegExp(`^${SIGN} (.*)$`).exec(text) ?? [];
    const current = results[at];
    if (sign === undefined) {
      if (current !== undefined) current.output += `${text}\n`;
      return;
    }
    if (current !== undefined) current.tookMs = Date.now() - since;
    [at, since] = [/^\d+$/.test(sign) ? Number(sign) : -1, Date.now()];
    if (at >= 0) results[at] = { output: '', tookMs: 0 };
    if (sign === 'stop') void run.stop().then(() => child.stdin.write('\n'));
    if (sign === 'start') void run.start().then((address) => child.stdin.write(`${address}\n`));
  };
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(line);
  });
  child.stderr.setEncoding('utf8').on('data', (piece: string) => (errors += piece));
  return new Promise((done, failed) => {
    const end = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // Nothing was left.
      }
    };
    const timer = setTimeout(end, RUN_MS);
    child.on('exit', end);
    child.on('close', (status) => {
      clearTimeout(timer);
      const printed = results.map(({ output }, index) => `${blocks[index]?.title ?? ''}\n${output}`).join('\n');
      if (status === 0) done(results);
      else failed(new Error(`The shell ended with ${String(status)}.\n${printed}\n${errors}`));
    });
  });
}
