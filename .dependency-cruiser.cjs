/** Who may import whom; types may cross where no code does. */
const runtime = { dependencyTypesNot: ['type-only'] };
const areas = '^src/api/(?!core/|migrations/)([^/]+)/';

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-orphans',
      severity: 'error',
      from: { orphan: true, pathNot: ['\\.d\\.ts$', 'src/local/guard\\.ts$', '\\.contract\\.ts$', 'engines\\.json$'] },
      to: {},
    },
    {
      name: 'core-knows-no-area',
      comment: 'Mechanisms every area uses own no table and know no area, workflow or activity.',
      severity: 'error',
      from: { path: '^src/api/core/' },
      to: { path: '^src/(?!api/core/)' },
    },
    {
      name: 'areas-are-closed',
      comment: 'An area reaches another one by its service and presenters, never by its models, routes or schemas.',
      severity: 'error',
      from: { path: areas },
      to: {
        path: '^src/api/(?!core/|migrations/)([^/]+)/(models|routes|schemas)',
        pathNot: '^src/api/$1/',
        ...runtime,
      },
    },
    {
      name: 'areas-start-runs-by-contract',
      severity: 'error',
      from: { path: '^src/api/' },
      to: { path: '^src/(activities|workflows/(?!backoff\\.ts$|.*\\.contract\\.ts$))', ...runtime },
    },
    {
      name: 'workflows-stand-alone',
      severity: 'error',
      from: { path: '^src/workflows/' },
      to: { pathNot: ['^src/workflows/', 'node_modules/@temporalio/workflow', '@temporalio/workflow'], ...runtime },
    },
    {
      name: 'activities-know-no-routes',
      severity: 'error',
      from: { path: '^src/activities/' },
      to: { path: ['/routes\\.ts$', '\\.workflow\\.ts$', 'node_modules/express/'] },
    },
    {
      name: 'worker-knows-no-routes',
      severity: 'error',
      from: { path: '^src/(worker|workers)\\.ts$' },
      to: { path: ['/routes\\.ts$', '\\.workflow\\.ts$', 'src/api/app\\.ts$'] },
    },
    {
      name: 'one-engine-client',
      severity: 'error',
      from: {
        path: '^src/',
        pathNot: [
          '^src/api/core/temporal\\.ts$',
          '^src/api/core/engine-calls\\.ts$', // The tries of its calls.
          '^src/schedules\\.ts$',
          '^src/local',
        ],
      },
      to: { path: 'node_modules/@temporalio/client', ...runtime },
    },
    {
      name: 'client-stands-alone',
      comment: 'The published client knows the contract, not the service, and depends on one library.',
      severity: 'error',
      from: { path: '^packages/sdk/' },
      to: { pathNot: ['^packages/sdk/', 'node_modules/openapi-fetch', '^openapi-fetch$'] },
    },
    {
      name: 'service-needs-no-client',
      comment: 'The demo and the tests are users of the client; the service is not.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/local/' },
      to: { path: ['^packages/', '@agent-platform/sdk'] },
    },
    {
      name: 'production-code-needs-no-development-dependency',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev'], ...runtime },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
