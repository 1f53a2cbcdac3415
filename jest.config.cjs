/** One project a folder of tests; the engines are started once per run by the global setup of those that need them. */
const shared = {
  rootDir: __dirname,
  testEnvironment: 'node',
  transform: {
    '^.+\\.[cm]?[jt]s$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2021' }, module: { type: 'commonjs' } },
    ],
  },
  // The client as it stands in this repository, built or not.
  moduleNameMapper: { '^@agent-platform/sdk$': '<rootDir>/packages/sdk/src/index.ts' },
  // What is ESM only, or loads a module by `import()`, which a runner without VM modules refuses.
  transformIgnorePatterns: ['/node_modules/(?!jose/|@opentelemetry/otlp-exporter-base/)'],
  extensionsToTreatAsEsm: [],
};
const project = (name, extra = {}) => ({
  ...shared,
  displayName: name,
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  ...extra,
});
const engines = {
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
  setupFiles: ['<rootDir>/test/support/environment.ts'],
};

module.exports = {
  // Those that need a browser are run by `npm run test:pages` alone: `npm test` asks for nothing but Node.
  projects: [project('unit'), project('integration', engines), project('workflows', engines), project('e2e')],
  maxWorkers: 2,
  testSequencer: '<rootDir>/test/support/sequencer.cjs',
  testTimeout: 30_000,
};
