/** Pure: which steps of a pipeline a document of JSON Logic over `{input, steps}` names. */

/** Operators whose later operands see another scope than the pipeline's; `../` leads out of it. */
const SCOPED = new Set(['map', 'filter', 'reduce', 'all', 'some', 'none', 'every', 'pipe', 'try']);

/**
 * The ids of steps that the paths of a document of JSON Logic name. Paths that are computed are not known before the run,
 * where a step that has not run is null.
 */
export function stepsNamed(logic: unknown, inScope = true): string[] {
  if (typeof logic !== 'object' || logic === null) return [];
  if (Array.isArray(logic)) return logic.flatMap((entry) => stepsNamed(entry, inScope));
  const entries = Object.entries(logic as Record<string, unknown>);
  const [operator, operand] = entries[0] ?? ['', null];
  if (entries.length !== 1) return entries.flatMap(([, value]) => stepsNamed(value, inScope));
  if (operator === 'preserve') return [];
  const own = pathsOf(operator, operand).flatMap((path) => stepOf(path, inScope));
  if (!SCOPED.has(operator) || !Array.isArray(operand)) return [...own, ...stepsNamed(operand, inScope)];
  // The first operand, and the start of `reduce`, still see the pipeline.
  const outer = operand.flatMap((entry, at) => {
    const outside = at === 0 || (operator === 'reduce' && at === 2);
    return stepsNamed(entry, inScope && outside);
  });
  return [...own, ...outer];
}

interface Path {
  /** Whether it first goes out of its scope. */
  climbs: boolean;
  steps: unknown[];
}

function pathsOf(operator: string, operand: unknown): Path[] {
  const list: unknown[] = Array.isArray(operand) ? operand : [operand];
  switch (operator) {
    case 'var':
      return [dotted(list[0])];
    case 'missing':
      return list.flat().map(dotted);
    case 'missing_some':
      return [list[1]].flat().map(dotted);
    case 'val':
    case 'exists': {
      const climbs = Array.isArray(list[0]) && typeof list[0][0] === 'number';
      return [{ climbs, steps: climbs ? list.slice(1) : list.flat() }];
    }
    default:
      return [];
  }
}

function dotted(path: unknown): Path {
  const text = typeof path === 'string' ? path : '';
  const rest = text.replace(/^(\.\.\/)+/, '');
  return { climbs: rest !== text, steps: rest.split('.') };
}

const stepOf = ({ climbs, steps: [root, id] }: Path, inScope: boolean): string[] =>
  root === 'steps' && typeof id === 'string' && (inScope || climbs) ? [id] : [];
