import { LogicEngine } from 'json-logic-engine';

/** Runs in the threads of tenant programs only. */

type Scopes = readonly unknown[];
type Operation = (args: unknown[], context: unknown, above: Scopes) => unknown;

/** More than anyone writes by hand, and far from what exhausts a thread's stack. */
const DEPTH_MAX = 100;
/** Operators whose operand stands as a list, since they evaluate its entries themselves. */
const LISTED = new Set('if ?: and or ?? map filter reduce some all every none pipe < <= > >= == === != !=='.split(' '));

/** A property of the value itself; what it inherits belongs to the runtime and is not there for tenants. */
const own = (value: unknown, key: string): unknown => {
  if (value === null || value === undefined || !Object.hasOwn(Object(value) as object, key)) return undefined;
  return (value as Record<string, unknown>)[key];
};

const reached = (start: unknown, steps: string[]): unknown => steps.reduce(own, start);

/** Parts of a dotted path; a backslash before a dot, a slash or itself takes it as it is. */
function pathOf(text: string): string[] {
  const steps = [''];
  for (let at = 0; at < text.length; at += 1) {
    const next = text[at + 1];
    if (text[at] === '\\' && (next === '.' || next === '/' || next === '\\')) {
      steps.push(`${steps.pop() ?? ''}${next}`);
      at += 1;
    } else if (text[at] === '.') steps.push('');
    else steps.push(`${steps.pop() ?? ''}${text.charAt(at)}`);
  }
  return steps;
}

/** The scope so many levels out: each list of scopes ends with the list around it. */
function scopeOut(context: unknown, above: Scopes, levels: number): unknown {
  let [scope, outer, at] = [context, above, 0];
  for (let level = 0; level < levels; level += 1) {
    if (at >= outer.length) return undefined;
    scope = outer[at];
    at += 1;
    if (at === outer.length && Array.isArray(scope)) {
      outer = scope as unknown[];
      scope = outer[0];
      at = 1;
    }
  }
  return scope;
}

const isScalar = (value: unknown): value is string | number => typeof value === 'string' || typeof value === 'number';

/** Where a path of `var` leads; `../` goes one scope out. */
function variable(path: unknown, context: unknown, above: Scopes): unknown {
  if (path === undefined || path === null || path === '') return context;
  if (!isScalar(path)) return undefined;
  const text = String(path);
  const climbed = /^(\.\.\/)*/.exec(text)?.[0] ?? '';
  const rest = text.slice(climbed.length);
  const scope = scopeOut(context, above, climbed.length / '../'.length);
  return rest === '' ? scope : reached(scope, pathOf(rest));
}

/** Where the steps of `val` lead; a list of one number first goes that many scopes out. */
function value(args: unknown[], context: unknown, above: Scopes): unknown {
  const steps = args.length === 1 && Array.isArray(args[0]) && !isClimb(args[0]) ? (args[0] as unknown[]) : args;
  const climb = isClimb(steps[0]) ? Math.abs(steps[0][0]) : 0;
  const path = isClimb(steps[0]) ? steps.slice(1) : steps;
  const named = path.filter((step) => step !== null);
  if (!named.every(isScalar)) return undefined;
  return reached(climb === 0 ? context : scopeOut(context, above, climb), named.map(String));
}

const isClimb = (step: unknown): step is [number] =>
  Array.isArray(step) && step.length === 1 && typeof step[0] === 'number';

const missing = (paths: unknown[], context: unknown): unknown[] =>
  paths.filter((path) => reached(context, pathOf(isScalar(path) ? String(path) : '')) === undefined);

/** The library's readers of data follow prototypes; these see own properties only, so that no function is ever reached. */
const readers: Record<string, Operation> = {
  var: ([path, fallback], context, above) => variable(path, context, above) ?? fallback ?? null,
  val: (args, context, above) => value(args, context, above) ?? null,
  exists: (args, context, above) => value(args, context, above) !== undefined,
  get: ([from, path, fallback]) => reached(from, pathOf(isScalar(path) ? String(path) : '')) ?? fallback ?? null,
  missing: (args, context) => missing(Array.isArray(args[0]) ? (args[0] as unknown[]) : args, context),
  missing_some: ([needed, paths], context) => {
    if (!Array.isArray(paths)) throw new Error('missing_some takes a number and a list');
    const absent = missing(paths as unknown[], context);
    return paths.length - absent.length >= Number(needed) ? [] : absent;
  },
};

class TenantLogic extends LogicEngine {
  constructor() {
    // Interpreted, never compiled to code; accumulators may hold anything, since the run is bounded as a whole.
    super(undefined, { disableInline: true, disableInterpretedOptimization: true, maxDepth: Infinity });
    // Without a prototype: `constructor` and the like are no operators.
    this.methods = Object.assign(Object.create(null), this.methods, readers) as Record<string, unknown>;
  }

  has = (operator: string): boolean => operator in (this.methods as object);

  /** An object is an expression when its only key is an operator; else its values are looked through for expressions. */
  override _parse(...call: Parameters<LogicEngine['_parse']>): ReturnType<LogicEngine['_parse']> {
    const [logic, context, above, operator, keys] = call as [object, unknown, unknown, string, number];
    if (keys === 1 && this.has(operator)) return super._parse(...call);
    const values = Object.entries(logic).map(([key, entry]) => [key, this.run(entry, context, { above }) as unknown]);
    return Object.fromEntries(values) as ReturnType<LogicEngine['_parse']>;
  }

  /** Falsy are nothing, false, 0, the empty text, the empty list and the empty object. */
  override truthy(given: unknown): boolean {
    return typeof given === 'object' && given !== null ? Object.keys(given).length > 0 : Boolean(given);
  }
}

const engine = new TenantLogic();

/** The value of a document of JSON Logic; whatever its operators throw is thrown. */
export const evaluated = (logic: unknown, data: unknown): unknown => engine.run(logic, data) as unknown;

/** What is wrong with a document of JSON Logic, whatever its data; null when it can be used. */
export function logicProblem(logic: unknown, depth = 0): string | null {
  if (depth > DEPTH_MAX) return `is nested more than ${String(DEPTH_MAX)} levels deep`;
  if (typeof logic !== 'object' || logic === null) return null;
  const operator = calledOperator(logic);
  if (operator === 'preserve') return null;
  const values = Object.values(logic) as unknown[];
  if (operator !== null && LISTED.has(operator) && !Array.isArray(values[0])) return `${operator} takes a list`;
  return values.map((entry) => logicProblem(entry, depth + 1)).find((problem) => problem !== null) ?? null;
}

function calledOperator(logic: object): string | null {
  const [only, ...more] = Object.keys(logic);
  return !Array.isArray(logic) && only !== undefined && more.length === 0 && engine.has(only) ? only : null;
}

/** What an operator threw, as one text: the library throws bare values. */
export function logicFault(thrown: unknown): string {
  if (Number.isNaN(thrown)) return 'an operand is not a number';
  if (thrown instanceof Error) return thrown.message;
  const type = own(thrown, 'type');
  return typeof type === 'string' ? type : 'an error was thrown';
}
