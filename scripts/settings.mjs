// Writes docs/settings.md from the schema of the settings; with --check it only says whether the page is what it makes.
//   npm run settings            after a change of a setting
//   npm run settings -- --check
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { format } from 'prettier';

const { settingsPage } = createRequire(import.meta.url)('../dist/api/core/settings-reference.js');
const file = new URL('../docs/settings.md', import.meta.url);
const text = await format(settingsPage(), { parser: 'markdown', printWidth: 120, singleQuote: true });

if (process.argv.includes('--check')) {
  if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
    console.error('docs/settings.md is stale: run `npm run settings` and commit it.');
    process.exitCode = 1;
  }
} else {
  await writeFile(file, text);
}
