/** How figures are taken: both sides in turn within one run, so that a machine whose speed drifts moves both alike. */

/** The p-th percentile (0 to 1) of numbers, by nearest rank. */
export function percentile(values, p) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(p * sorted.length) - 1))];
}

export const median = (values) => percentile(values, 0.5);

/** Milliseconds that `work` takes. */
export async function timed(work) {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** Milliseconds of each of `count` runs of `work`, one after the other. */
export async function samples(count, work) {
  const taken = [];
  for (let index = 0; index < count; index++) taken.push(await timed(() => work(index)));
  return taken;
}

/**
 * Measures the sides in turn, `rounds` times after one round that does not count. A side gives its figure (a number, the
 * smaller or larger the better, as the bar says) of one round.
 * @returns per side its figures in the order of the rounds
 */
export async function inTurn(rounds, sides) {
  const figures = Object.fromEntries(Object.keys(sides).map((name) => [name, []]));
  for (let round = -1; round < rounds; round++) {
    const names = Object.keys(sides);
    if (round % 2 !== 0) names.reverse(); // Neither side is always the one that comes after the other.
    for (const name of names) {
      const figure = await sides[name]();
      if (round >= 0) figures[name].push(figure);
    }
  }
  return figures;
}

/** Median of the ratios round by round, with the least and the greatest one. */
export function ratioOf(ours, baseline) {
  const ratios = ours.map((value, index) => value / baseline[index]);
  return { median: median(ratios), least: Math.min(...ratios), greatest: Math.max(...ratios) };
}

/** Runs `work` in `lanes` at once until `count` runs are done. */
export async function inLanes(lanes, count, work) {
  let next = 0;
  const lane = async () => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: Math.min(lanes, count) }, lane));
}

/** Asks again until `done` gives something; @throws Error with `goal` after `timeoutMs`. */
export async function until(done, { timeoutMs, goal, everyMs = 50 }) {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await done();
    if (found) return found;
    if (performance.now() > end) throw new Error(`Gave up waiting for ${goal}.`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
