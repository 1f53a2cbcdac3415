import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { METRICS } from '../../src/api/core/metrics';

const page = readFileSync(resolve(__dirname, '../../docs/metrics.md'), 'utf8');

/** The rows of the page's table of metrics: name, type, labels, meaning. */
const rows = page
  .split('\n')
  .map((line) => /^\| `([a-z_]+)` +\| (counter|gauge|histogram) +\|([^|]*)\|(.+)\|$/.exec(line))
  .filter((row) => row !== null)
  .map(([, name, type, labels]) => ({
    name,
    type,
    labels: [...(labels ?? '').matchAll(/`(\w+)`/g)].map(([, l]) => l),
  }));

test('every metric is in the page with its type and labels, and the page names no other', () => {
  const registered = Object.values(METRICS).map(({ name, type, labels }) => ({ name, type, labels: [...labels] }));
  const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }): number =>
    (a.name ?? '').localeCompare(b.name ?? '');
  expect(rows.sort(byName)).toEqual(registered.sort(byName));
});

test.each(Object.values(METRICS))('$name is named by convention and explained', ({ name, type, help }) => {
  expect(name).toMatch(/^(svc|process|nodejs)_[a-z_]+$/);
  expect(name.endsWith('_total')).toBe(type === 'counter');
  if (type === 'histogram') expect(name).toMatch(/_seconds$/);
  expect(help).toMatch(/^[A-Z].*\.$/);
});
