// Bundles the compiled workflows once per build; workers load the file instead of bundling at every start.
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { bundleWorkflowCode, DefaultLogger } = require('@temporalio/worker');

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const { code } = await bundleWorkflowCode({
  workflowsPath: at('../dist/workflows/index.js'),
  logger: new DefaultLogger('ERROR'),
});
await writeFile(at('../dist/workflow-bundle.js'), code);
