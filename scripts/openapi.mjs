// Writes docs/openapi.json from the compiled routes; with --check it only says whether the file is what they make.
//   npm run openapi            after a change of a route or a schema; the types of the client are written too
//   npm run openapi -- --check
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

// Loading the areas reads the settings. Nothing connects, so that values of the right form do.
Object.assign(process.env, {
  DATABASE_URL: 'postgres://none@127.0.0.1:1/none',
  TEMPORAL_ADDRESS: '127.0.0.1:1',
  PUBLIC_BASE_URL: 'http://localhost:3000',
  JWT_SECRET: 'x'.repeat(32),
  SECRETS_ENCRYPTION_KEY: '0'.repeat(64),
  SMTP_URL: 'smtp://127.0.0.1:1',
  MAIL_FROM: 'nobody@localhost',
});

const { contractText } = createRequire(import.meta.url)('../dist/api/write-openapi.js');
const file = new URL('../docs/openapi.json', import.meta.url);
const text = contractText();

if (process.argv.includes('--check')) {
  const kept = await readFile(file, 'utf8').catch(() => '');
  if (kept !== text) {
    console.error('docs/openapi.json is stale: run `npm run openapi` and commit it.');
    process.exitCode = 1;
  }
} else {
  await writeFile(file, text);
  console.log(`docs/openapi.json: ${String(Object.keys(JSON.parse(text).paths).length)} paths`);
  await import('./sdk-types.mjs');
}
