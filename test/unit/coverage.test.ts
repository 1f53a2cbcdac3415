import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const ROOT = resolve(__dirname, '../..');
const SCRIPT = join(ROOT, 'scripts', 'coverage.mjs');

function coverage(...args: string[]): { status: number | null; output: string } {
  const { status, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' });
  return { status, output: stderr };
}

test('every built check has a test, every tag names a check, and docs/coverage.md says so', () => {
  expect(coverage('--check')).toEqual({ status: 0, output: '' });
});

describe('in a small checkout', () => {
  const CHECKS = [
    { area: 'limits', number: 1, check: 'One holds.', status: 'built' },
    { area: 'limits', number: 2, check: 'Two holds.', status: 'later', why: 'not built' },
  ];
  const NOT_BUILT = {
    routes: [{ area: 'members', routes: ['GET, POST /v1/members'] }],
    fields: [],
    parameters: [],
    settings: ['TRUST_PROXY'],
  };
  const DOCUMENT = { paths: {}, components: { schemas: {} } };

  let root: string;

  const put = (name: string, value: unknown): void => {
    writeFileSync(join(root, name), typeof value === 'string' ? value : JSON.stringify(value));
  };

  /** What the script finds wrong with the checkout. */
  const problems = (...args: string[]): string => {
    const { status, output } = coverage('--root', root, ...args);
    expect(status).toBe(output === '' ? 0 : 1);
    return output;
  };

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'svc-coverage-'));
    mkdirSync(join(root, 'docs'));
    mkdirSync(join(root, 'test'));
    put('docs/acceptance.json', CHECKS);
    put('docs/not-built.json', NOT_BUILT);
    put('docs/openapi.json', DOCUMENT);
    put('test/one.test.ts', `describe('a', () => { test.each([1])('[limits 1] holds %i', () => {}); });`);
  });

  afterEach(() => {
    rmSync(root, { recursive: true });
  });

  test('nothing is wrong when all agree, until a title changes', () => {
    expect(problems()).toBe('');
    expect(problems('--check')).toBe('');
    put('test/one.test.ts', `test('[limits 1] is so', () => {});`);
    expect(problems('--check')).toMatch(/stale/);
  });

  test.each([
    ['no tag', `test('holds', () => {});`, /\[limits 1\] is built, and no test says so/],
    ['a skipped test', `test.skip('[limits 1] holds', () => {});`, /\[limits 1\] is built, and no test says so/],
    [
      'a test in a skipped group',
      `describe.skip('x', () => { it('[limits 1] holds', () => {}); });`,
      /no test says so/,
    ],
    ['a group without a test', `describe('[limits 1] x', () => {});`, /no test says so/],
    ['a tag in a comment', `// [limits 1]\ntest('holds', () => {});`, /no test says so/],
    [
      'a tag of nothing',
      `test('[limits 1] [limits 9] holds', () => {});`,
      /\[limits 9\] in test\/one\.test\.ts names no acceptance check/,
    ],
  ])('%s is told', (_what, text, problem) => {
    put('test/one.test.ts', text);
    expect(problems()).toMatch(problem);
  });

  test('a check that comes later without a reason, and a check that stands twice, are told', () => {
    put('docs/acceptance.json', [...CHECKS, { area: 'limits', number: 2, check: 'Two.', status: 'later' }]);
    const output = problems();
    expect(output).toMatch(/\[limits 2\] stands twice/);
    expect(output).toMatch(/\[limits 2\]: a check that comes later says why/);
  });

  test('a route that is built and still listed as missing is told', () => {
    const paths = { '/v1/members': { post: { operationId: 'addMember', parameters: [] } } };
    put('docs/openapi.json', { ...DOCUMENT, paths });
    expect(problems()).toMatch(/POST \/v1\/members is listed as not built, and is there/);
  });

  test('a setting that is read and still listed as unread is told', () => {
    mkdirSync(join(root, 'src/api/core'), { recursive: true });
    put('src/api/core/config.ts', `const Settings = z.object({\n  TRUST_PROXY: count(0),\n});`);
    expect(problems()).toMatch(/TRUST_PROXY is listed as not read, and is a setting/);
  });

  test('a field whose entry and schema disagree is told', () => {
    const entry = { area: 'tools', schemas: ['ToolCreate'], property: 'mcp', serves: 'null', answer: '400' };
    put('docs/not-built.json', { ...NOT_BUILT, fields: [entry] });
    expect(problems()).toMatch(/ToolCreate\.mcp: .* disagree/);
  });
});
