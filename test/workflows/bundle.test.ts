import { bundleCode } from '../support/workflow-run';

/** What the sandbox of workflows may hold: the SDK and what it brings. Some packages go in silently when imported. */
const ALLOWED = ['@temporalio/common', '@temporalio/workflow', 'long', 'ms', 'nexus-rpc'];

/** Every module of a bundle, by the path that the bundler gave it. */
const modulesOf = (code: string): string[] =>
  [...code.matchAll(/^\/\*{3}\/ "([^"]+)"/gm)].map(([, path]) => path ?? '');

const packageOf = (path: string): string | undefined => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];

describe.each([
  ['the bundle', bundleCode(), false],
  ['the bundle of tracing', bundleCode({ traced: true }), true],
])('%s', (_name, code, traced) => {
  const modules = modulesOf(code);

  test('holds the packages of the allow list and no other: neither sequelize nor express, nor zod', () => {
    const packages = new Set(modules.map(packageOf).filter((name) => name !== undefined));
    expect([...packages].sort()).toEqual(ALLOWED);
  });

  test('of this service it holds the workflows alone', () => {
    const own = modules.filter((path) => packageOf(path) === undefined && path.startsWith('.'));
    expect(own).toContain('./dist/workflows/generations.workflow.js');
    expect(own.includes('./dist/workflows/tracing.interceptor.js')).toBe(traced);
    expect(own.filter((path) => !/^\.\/dist\/workflows\/[a-z-]+(\.[a-z]+)?\.js$/.test(path))).toEqual([]);
  });
});
