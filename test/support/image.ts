import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';

/** The steps of the Dockerfile without Docker, as far as they need no network: `npm ci` becomes a copy of what is installed. */
const root = resolve(__dirname, '../..');

export interface Stage {
  name: string;
  steps: { kind: string; text: string }[];
}

/** The stages of the Dockerfile with their instructions, in order. */
export function dockerfile(): Stage[] {
  const stages: Stage[] = [];
  for (const line of readFileSync(join(root, 'Dockerfile'), 'utf8').split('\n')) {
    const [, kind = '', text = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    if (kind === 'FROM') stages.push({ name: text.split(' AS ')[1] ?? '', steps: [] });
    else if (kind !== '') stages.at(-1)?.steps.push({ kind, text });
  }
  return stages;
}

const ignoreLines = (): string[] =>
  readFileSync(join(root, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

const matches = (pattern: string, path: string): boolean => {
  if (pattern === '*') return true;
  if (pattern.startsWith('**/')) return path.split('/').includes(pattern.slice(3));
  return path === pattern || path.startsWith(`${pattern}/`);
};

/** Whether `.dockerignore` lets a path of the repository into the build; the last line that matches decides. */
function isInContext(path: string): boolean {
  let isIn = true;
  for (const line of ignoreLines()) {
    const isBack = line.startsWith('!');
    if (matches(isBack ? line.slice(1) : line, path)) isIn = isBack;
  }
  return isIn;
}

/** Files below the repository's `source`, as the build's context has them. */
function contextFiles(source: string): string[] {
  const at = join(root, source);
  if (!existsSync(at)) return [];
  if (!lstatSync(at).isDirectory()) return isInContext(source) ? [source] : [];
  return readdirSync(at).flatMap((name) => (name === 'node_modules' ? [] : contextFiles(`${source}/${name}`)));
}

interface Locked {
  dev?: boolean;
  extraneous?: boolean;
}

/** `npm ci --omit=dev`, as the lock has it: a copy of what is installed, less what the lock calls of development. */
function install(folder: string): void {
  try {
    execFileSync('cp', ['-al', join(root, 'node_modules'), folder], { stdio: 'ignore' });
  } catch {
    execFileSync('cp', ['-a', join(root, 'node_modules'), folder]); // Another file system takes no links.
  }
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Locked>;
  };
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (dev === true) rmSync(join(folder, path), { recursive: true, force: true });
  }
  for (const path of installedPackages(join(folder, 'node_modules'))) {
    const name = relative(folder, path);
    if (lock.packages[name] === undefined) rmSync(path, { recursive: true, force: true });
  }
}

function installedPackages(modules: string): string[] {
  return readdirSync(modules).flatMap((name) => {
    const path = join(modules, name);
    if (name.startsWith('@')) return readdirSync(path).map((inner) => join(path, inner));
    return [path];
  });
}

/** One source of a COPY out of the build's context. */
function copyOut(source: string, target: string, folder: string): void {
  const files = contextFiles(source);
  if (files.length === 0) throw new Error(`COPY ${source}: the build's context has no such file`);
  for (const file of files) {
    const place = file === source ? target : join(target, relative(source, file));
    mkdirSync(dirname(join(folder, place)), { recursive: true });
    cpSync(join(root, file), join(folder, place));
  }
}

function copy(text: string, folder: string, folders: Map<string, string>): void {
  const words = text.split(' ');
  const target = words.pop() ?? '';
  const [from] = words.filter((word) => word.startsWith('--from='));
  for (const source of words.filter((word) => word !== from)) {
    if (from === undefined) copyOut(source, target === './' ? basename(source) : target, folder);
    else {
      const stage = folders.get(from.slice('--from='.length)) ?? '';
      execFileSync('cp', ['-al', join(stage, relative('/app', source)), join(folder, target)]);
    }
  }
}

/** The build itself, with all that it needs installed, would take minutes: what the test run has built is the same. */
function run(command: string, folder: string): void {
  if (command.startsWith('npm ci --omit=dev')) install(folder);
  else if (command.startsWith('npm ci')) return;
  else if (command === 'npm run -s build') execFileSync('cp', ['-al', join(root, 'dist'), folder]);
  else execFileSync('sh', ['-c', command], { cwd: folder });
}

/**
 * Goes through the stages below `work` and gives the folder of the last one: exactly the files that the image would have.
 * @throws when a source of a COPY is not in the build's context
 */
export function assemble(work: string): string {
  const folders = new Map<string, string>();
  let last = work;
  for (const { name, steps } of dockerfile()) {
    last = join(work, name);
    mkdirSync(last);
    folders.set(name, last);
    for (const { kind, text } of steps) {
      if (kind === 'COPY') copy(text, last, folders);
      if (kind === 'RUN') run(text, last);
    }
  }
  return last;
}

/** The words of a step in exec form. */
export function execForm(stage: Stage, kind: string): string[] {
  const text = stage.steps.find((step) => step.kind === kind)?.text ?? '';
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}
