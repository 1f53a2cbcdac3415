// Which test proves which acceptance check. Reads the titles of all tests (`[limits 4] an unknown property …`) without
// running them, and writes docs/coverage.md from docs/acceptance.json, docs/not-built.json and docs/openapi.json.
//   node scripts/coverage.mjs            writes the file
//   node scripts/coverage.mjs --check    exits 1 when it is stale, a built check has no test, a tag names no check, or
//                                        something is listed as not built that the contract document holds
//   --root DIR                           another checkout
import { parseSync } from '@swc/core';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const CALLS = new Set(['test', 'it', 'describe']);
const NOT_RUN = new Set(['skip', 'todo', 'failing']);
const TAG = /\[([a-z][a-z-]*) (\d+)\]/g;

/** `test`, `describe.each(rows)` and the like: the words of the call, or null when it is none of jest's. */
function wordsOf(node) {
  if (node.type === 'Identifier') return CALLS.has(node.value) ? [node.value] : null;
  if (node.type === 'CallExpression') return wordsOf(node.callee);
  if (node.type === 'TaggedTemplateExpression') return wordsOf(node.tag);
  if (node.type !== 'MemberExpression') return null;
  const words = wordsOf(node.object);
  return words === null ? null : [...words, node.property.value];
}

function titleOf({ arguments: [first] }) {
  const title = first?.expression;
  if (title?.type === 'StringLiteral') return title.value;
  return title?.type === 'TemplateLiteral' ? title.quasis.map(({ raw }) => raw).join('…') : '';
}

const childrenOf = (node) => (typeof node === 'object' && node !== null ? Object.values(node) : []);

/** The tests of one file: titles from the outermost group inward; those that are skipped are not there. */
function testsOf(path) {
  const found = [];
  const visit = (node, groups) => {
    const words = node?.type === 'CallExpression' ? wordsOf(node.callee) : null;
    // `test.each(rows)` alone is the head of the call that has the title.
    const complete = words !== null && !(words.at(-1) === 'each' && node.callee.type === 'MemberExpression');
    if (complete && words.some((word) => NOT_RUN.has(word))) return;
    if (complete && words[0] !== 'describe') found.push([...groups, titleOf(node)]);
    const inside = complete && words[0] === 'describe' ? [...groups, titleOf(node)] : groups;
    for (const child of childrenOf(node)) visit(child, inside);
  };
  visit(parseSync(readFileSync(path, 'utf8'), { syntax: 'typescript' }), []);
  return found;
}

function testFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((name) => name.endsWith('.test.ts'))
    .sort();
}

/** Every tag of every test: `{ key: 'limits 4', file, title }`, once a file and title. */
function tagged(root) {
  const found = new Map();
  for (const path of testFiles(join(root, 'test'))) {
    const file = relative(root, path).replaceAll('\\', '/');
    for (const titles of testsOf(path)) {
      // A tag of a group counts for the group, not for each of its tests.
      for (const [depth, title] of titles.entries()) {
        const words = titles
          .slice(0, depth + 1)
          .join(' › ')
          .replace(TAG, '')
          .replace(/\s+/g, ' ')
          .trim();
        for (const [, area, number] of title.matchAll(TAG)) {
          const key = `${area} ${Number(number)}`;
          found.set(`${key} ${file} ${words}`, { key, file, title: words });
        }
      }
    }
  }
  return [...found.values()];
}

const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const row = (...cells) => `| ${cells.map(cell).join(' | ')} |`;

function checkRows(checks, tests) {
  return checks.map(({ area, number, check, status, why }) => {
    const own = tests.filter(({ key }) => key === `${area} ${number}`);
    const proof = own.map(({ file, title }) => `\`${file}\`: ${title}`).join('<br>');
    const state = status === 'built' ? 'built' : `later: ${why}${proof === '' ? '' : '; in part:'}`;
    return row(area, String(number), check, state, proof);
  });
}

function render({ checks, notBuilt, tests }) {
  const built = checks.filter(({ status }) => status === 'built');
  const proven = built.filter(({ area, number }) => tests.some(({ key }) => key === `${area} ${number}`));
  return `# Coverage

Made by \`node scripts/coverage.mjs\` from \`acceptance.json\`, \`not-built.json\`, \`openapi.json\` and the titles of the
tests; do not edit it by hand. Of the ${checks.length} acceptance checks of the areas below ${built.length} are built; a test proves ${proven.length} of these.

## Acceptance checks

| Area | Check | What must hold | State | Test |
| --- | --- | --- | --- | --- |
${checkRows(checks, tests).join('\n')}

## Not in this build

Nothing is accepted and ignored. What is documented but not built is refused by name, or not there at all.

### Fields, values and filters

"Serves" is all that is taken; anything else gets the answer. A field that only steers an area which is not built, and does
no harm while that area is empty, is stored and returned.

| Area | Where | Serves | Anything else |
| --- | --- | --- | --- |
${[
  ...notBuilt.fields.map(({ area, schemas, property, serves, answer }) =>
    row(area, schemas.map((name) => `\`${name}.${property}\``).join(', '), serves ?? 'nothing', answer),
  ),
  ...notBuilt.parameters.map(({ area, operation, parameter, serves, answer }) =>
    row(area, `\`${operation}\`, query \`${parameter}\``, serves ?? 'nothing', answer),
  ),
].join('\n')}

### Settings

Not read, so that setting one has no effect: ${notBuilt.settings.map((name) => `\`${name}\``).join(', ')}.

### Areas and routes

Each of these answers 404 \`not_found\` (405 where another method of the path is there). An id of an area that is not built
names nothing and gets that kind's not-found code; counters of such an area are 0, its refusals never happen.

| Area | Routes |
| --- | --- |
${notBuilt.routes.map(({ area, routes }) => row(area, routes.map((name) => `\`${name}\``).join('<br>'))).join('\n')}
`;
}

/** `tool_bindings[].tool`: the schema of a property, by its way from a named schema; undefined when there is none. */
function propertyOf(document, schema, path) {
  const resolved = (node) => {
    if (node?.$ref !== undefined) return resolved(document.components.schemas[node.$ref.split('/').at(-1)]);
    return node?.anyOf?.map(resolved).find((option) => option.type !== 'null') ?? node;
  };
  let at = document.components.schemas[schema];
  for (const word of path.split('.')) {
    at = resolved(at)?.properties?.[word.replace('[]', '')];
    if (word.endsWith('[]')) at = resolved(at)?.items;
  }
  return at;
}

/** Names of the settings that the service reads. */
function settingsOf(root) {
  const path = join(root, 'src', 'api', 'core', 'config.ts');
  return existsSync(path)
    ? [...readFileSync(path, 'utf8').matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name)
    : [];
}

/** What is listed as not built, but is in the contract document, and the other way round. */
function staleEntries({ notBuilt, document, settings }) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const names = new Set(operations.map(({ name }) => name));
  const routes = notBuilt.routes.flatMap(({ routes: lines }) =>
    lines.flatMap((line) => {
      const [, methods, path] = /^([A-Z, ]+) (\S+)$/.exec(line) ?? [];
      return (methods ?? '').split(', ').map((method) => `${method} ${path}`);
    }),
  );
  const fields = notBuilt.fields.flatMap(({ schemas, property, serves }) =>
    schemas
      .filter((schema) => (propertyOf(document, schema, property) !== undefined) !== (serves !== null))
      .map((schema) => `${schema}.${property}`),
  );
  const parameters = notBuilt.parameters.filter(({ operation, parameter, serves }) => {
    const found = operations.find((entry) => entry.operation.operationId === operation);
    return (
      found === undefined || found.operation.parameters.some(({ name }) => name === parameter) !== (serves !== null)
    );
  });
  return [
    ...notBuilt.settings
      .filter((name) => settings.includes(name))
      .map((name) => `${name} is listed as not read, and is a setting`),
    ...routes.filter((name) => names.has(name)).map((name) => `${name} is listed as not built, and is there`),
    ...fields.map((name) => `${name}: docs/not-built.json and docs/openapi.json disagree whether it is there`),
    ...parameters.map(
      ({ operation, parameter }) => `${operation}?${parameter}: docs/not-built.json and docs/openapi.json disagree`,
    ),
  ];
}

function problemsOf(facts) {
  const { checks, tests } = facts;
  const keys = checks.map(({ area, number }) => `${area} ${number}`);
  const proven = new Set(tests.map(({ key }) => key));
  return [
    ...keys
      .filter((key, index) => keys.indexOf(key) !== index)
      .map((key) => `[${key}] stands twice in docs/acceptance.json`),
    ...checks
      .filter(({ status, why }) => (status === 'built') !== (why === undefined))
      .map(({ area, number }) => `[${area} ${number}]: a check that comes later says why, a built one does not`),
    ...tests
      .filter(({ key }) => !keys.includes(key))
      .map(({ key, file }) => `[${key}] in ${file} names no acceptance check`),
    ...checks
      .filter(({ status, area, number }) => status === 'built' && !proven.has(`${area} ${number}`))
      .map(({ area, number, check }) => `[${area} ${number}] is built, and no test says so: ${check}`),
    ...staleEntries(facts),
  ];
}

const given = process.argv.indexOf('--root');
const root = given === -1 ? fileURLToPath(new URL('..', import.meta.url)) : resolve(process.argv[given + 1]);
const read = (name) => JSON.parse(readFileSync(join(root, 'docs', name), 'utf8'));
const facts = {
  checks: read('acceptance.json'),
  notBuilt: read('not-built.json'),
  document: read('openapi.json'),
  tests: tagged(root),
  settings: settingsOf(root),
};
const target = join(root, 'docs', 'coverage.md');
const text = render(facts);
const problems = problemsOf(facts);

if (process.argv.includes('--check')) {
  const kept = existsSync(target) ? readFileSync(target, 'utf8') : '';
  if (kept !== text) problems.unshift('docs/coverage.md is stale: run `node scripts/coverage.mjs` and commit it');
} else {
  writeFileSync(target, text);
}
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
