const { relative } = require('node:path');
const SECONDS = require('./seconds.json');

/** Of a file that the table does not know. */
const OTHERWISE = { e2e: 40, integration: 10, workflows: 5, unit: 1 };

/**
 * Gives the order in which files are taken: the longest first, so that none is left running alone at the end. Files of `e2e` start
 * engines and processes of their own; while others are left, one runner takes those, so that waiting meets work.
 * @param files `{ project, seconds }`, any order
 * @param runners how many files run at a time
 * @returns the same objects in a new array
 */
function inOrder(files, runners) {
  const longestFirst = [...files].sort((a, b) => b.seconds - a.seconds);
  const left = {
    service: longestFirst.filter(({ project }) => project === 'e2e'),
    other: longestFirst.filter(({ project }) => project !== 'e2e'),
  };
  const running = Array.from({ length: runners }, () => ({ until: 0, kind: 'other' }));
  const ordered = [];
  while (ordered.length < files.length) {
    const free = running.reduce((first, runner) => (runner.until < first.until ? runner : first));
    const services = running.filter(({ until, kind }) => until > free.until && kind === 'service').length;
    const wanted = services < Math.max(1, runners - 1) ? 'service' : 'other';
    const kind = left[wanted].length > 0 ? wanted : wanted === 'service' ? 'other' : 'service';
    const file = left[kind].shift();
    ordered.push(file);
    free.kind = kind;
    free.until += file.seconds;
  }
  return ordered;
}

/** Jest's own order knows the times of former runs, of which a fresh checkout has none: here they come from a table. */
class LongestFirst {
  constructor({ globalConfig }) {
    this.runners = globalConfig.maxWorkers;
  }

  sort(tests) {
    const files = [...tests].map((test) => {
      const path = relative(test.context.config.rootDir, test.path);
      const [, project] = path.split('/');
      return { test, project, seconds: SECONDS[path] ?? OTHERWISE[project] ?? 1 };
    });
    return inOrder(files, this.runners).map(({ test, seconds }) => Object.assign(test, { duration: seconds * 1000 }));
  }

  /** Nothing is kept of former runs, their failures included. */
  allFailedTests(tests) {
    return tests;
  }

  cacheResults() {}
}

module.exports = LongestFirst;
module.exports.inOrder = inOrder;
