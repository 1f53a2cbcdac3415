/** `npm run bench -- [name…] [--rounds N]`: measures against baselines in the same run, and prints a table in Markdown. */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';

const benches = {
  accept: async (options) => (await import('./accept.mjs')).accept(options),
  wait: async (options) => (await import('./wait.mjs')).wait(options),
  stream: async (options) => (await import('./stream.mjs')).stream(options),
  deliveries: async (options) => (await import('./deliveries.mjs')).deliveries(options),
  reads: async (options) => (await import('./reads.mjs')).reads(options),
  limits: async (options) => (await import('./limits.mjs')).limits(options),
  paused: async (options) => (await import('./paused.mjs')).paused(options),
};
/** Takes minutes: by name only. */
const BY_NAME_ONLY = ['paused'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' }, count: { type: 'string' } },
});
const names =
  positionals.length > 0 ? positionals : Object.keys(benches).filter((name) => !BY_NAME_ONLY.includes(name));
const unknown = names.filter((name) => !(name in benches));
const rounds = Number(values.rounds);
if (unknown.length > 0 || !Number.isInteger(rounds) || rounds < 1) {
  console.error(`npm run bench -- [${Object.keys(benches).join('|')}…] [--rounds N] [--count N]`);
  process.exit(2);
}

const spread = ({ median, least, greatest }, digits) =>
  `${median.toFixed(digits)} (${least.toFixed(digits)}–${greatest.toFixed(digits)})`;

function barOf({ bar, ratio, value }) {
  if (bar === undefined) return ['—', ''];
  const { median } = ratio ?? value;
  const text =
    bar.most === undefined ? `≥ ${bar.least}` : `≤ ${bar.most}${bar.unit === undefined ? ' ×' : ` ${bar.unit}`}`;
  return [text, (bar.most === undefined ? median >= bar.least : median <= bar.most) ? 'holds' : 'missed'];
}

console.log(`${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, Node ${process.version}, ${rounds} rounds\n`);
console.log('| Figure | Service | Baseline | Ratio (spread) | Bar | |');
console.log('| --- | --- | --- | --- | --- | --- |');
const notes = [];
for (const name of names) {
  const options = { rounds, ...(values.count === undefined ? {} : { count: Number(values.count) }) };
  for (const row of await benches[name](options)) {
    const figure = row.ratio === undefined ? spread(row.value, 1) : spread(row.ratio, 2);
    console.log(`| ${[row.figure, row.ours, row.baseline, figure, ...barOf(row)].join(' | ')} |`);
    if (row.note !== undefined) notes.push(`${row.figure}: ${row.note}.`);
  }
}
if (notes.length > 0) console.log(`\n${notes.join('\n')}`);
process.exit(0);
