// Bundles the compiled workflows once per build; workers load the file instead of bundling at every start. The second bundle
// also holds the interceptor of tracing, and is loaded only where a receiver of traces is named.
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { bundleWorkflowCode, DefaultLogger } = require('@temporalio/worker');

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const requestIds = at('../dist/workflows/request-id.interceptor.js');
const tracing = at('../dist/workflows/tracing.interceptor.js');

async function bundle(name, workflowInterceptorModules) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: at('../dist/workflows/index.js'),
    workflowInterceptorModules,
    logger: new DefaultLogger('ERROR'),
  });
  await writeFile(at(`../dist/${name}`), code);
}

await Promise.all([
  bundle('workflow-bundle.js', [requestIds]),
  bundle('workflow-bundle-traced.js', [tracing, requestIds]),
]);
