import { bundleCode } from '../support/workflow-run';

/** What the sandbox of workflows may hold: the SDK and what it brings. Some packages go in silently when imported. */
const ALLOWED = ['@temporalio/common', '@temporalio/workflow', 'long', 'ms', 'nexus-rpc'];

/** Every module of the bundle, by the path that the bundler gave it. */
const modules = [...bundleCode().matchAll(/^\/\*{3}\/ "([^"]+)"/gm)].map(([, path]) => path ?? '');

const packageOf = (path: string): string | undefined => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];

test('the bundle holds the packages of the allow list and no other: neither sequelize nor express, nor zod', () => {
  const packages = new Set(modules.map(packageOf).filter((name) => name !== undefined));
  expect([...packages].sort()).toEqual(ALLOWED);
});

test('of this service it holds the workflows alone', () => {
  const own = modules.filter((path) => packageOf(path) === undefined && path.startsWith('.'));
  expect(own).toContain('./dist/workflows/generations.workflow.js');
  expect(own.filter((path) => !/^\.\/dist\/workflows\/[a-z-]+(\.[a-z]+)?\.js$/.test(path))).toEqual([]);
});
