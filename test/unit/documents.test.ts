import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = resolve(__dirname, '../..');
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');

const documents = [
  'README.md',
  'CHANGELOG.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true })
    .map((name) => join('docs', String(name)))
    .filter((name) => name.endsWith('.md')),
];

test.each(documents)('the links of %s lead to files', (name) => {
  const links = [...read(name).matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map(([, target]) => target ?? '');
  expect(links.filter((target) => !existsSync(resolve(ROOT, dirname(name), target)))).toEqual([]);
});

test('files that the documents name are there', () => {
  const named = ['README.md', 'docs/architecture.md', 'docs/operations.md'].flatMap((name) =>
    [...read(name).matchAll(/`((?:src|docs|scripts|test|\.ci)\/[\w./-]+|core\/[\w-]+\.ts)`/g)].map(
      ([, path]) => path ?? '',
    ),
  );
  const places = (path: string): string[] => [path, join('src/api', path)];
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((path) => !places(path).some((place) => existsSync(join(ROOT, place))))).toEqual([]);
});

test('the tests that the page on security names are there', () => {
  const named = [...read('docs/security.md').matchAll(/`(test\/[\w./-]+)`: “([^”]+)”/g)];
  expect(named.length).toBeGreaterThan(30);
  const missing = named.filter(([, path = '', title = '']) => !read(path).includes(title.replace(/\s+/g, ' ')));
  expect(missing.map(([text]) => text)).toEqual([]);
});

test('every type of workflow has its picture', () => {
  const types = [...read('src/workflows/index.ts').matchAll(/export \{ ([^}]+) \}/g)].flatMap(([, names]) =>
    (names ?? '').split(', '),
  );
  const headings = [...read('docs/architecture.md').matchAll(/^### (.+)$/gm)].map(([, title]) => title).join(' ');
  expect(types.filter((type) => !new RegExp(`\\b${type}\\b`).test(headings))).toEqual([]);
});

test('every decision has a number of its own and is one screen long', () => {
  const names = readdirSync(join(ROOT, 'docs/adr')).sort();
  expect(names.map((name) => name.slice(0, 4))).toEqual(
    names.map((_name, index) => String(index + 1).padStart(4, '0')),
  );
  for (const name of names) {
    const text = read(relative(ROOT, join(ROOT, 'docs/adr', name)));
    expect(text).toMatch(/^# ADR \d{4}: .+\n\nStatus: accepted\n/);
    expect(text.split('\n').length).toBeLessThanOrEqual(40);
  }
});
