import { createHash } from 'node:crypto';
import Ajv, { type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import Ajv2020 from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import { LRUCache } from 'lru-cache';
import { JqFault, JqMemoryError, ResultTooLargeError, jqResults, loadJq } from './programs-jq';
import { evaluated, logicFault, logicProblem } from './programs-logic';

interface SchemaTask {
  kind: 'validate' | 'compile';
  /** JSON text. */
  schema: string;
  /** JSON text; for `validate`. */
  value?: string;
  formats: boolean;
}
/** `data` and `value` are JSON texts. */
type LogicTask = { kind: 'logic'; logic: string; data: string } | { kind: 'compile_logic'; logic: string };
type JqTask = { kind: 'jq'; program: string; value: string } | { kind: 'compile_jq'; program: string };
export type ProgramWork = SchemaTask | LogicTask | JqTask;

/** What the pool hands to a thread. Texts, not objects: the thread pays for parsing, within its own bounds. */
export type ProgramTask = ProgramWork & {
  /** One 64-bit cell; the thread writes `process.hrtime` into it when it begins, so that waiting is not counted. */
  started: SharedArrayBuffer;
};

export interface ProgramFault {
  /** Dotted, from the value's root: `events.0`. */
  path: string;
  message: string;
}

export type ProgramResult =
  | { outcome: 'valid' }
  | { outcome: 'invalid'; errors: ProgramFault[] }
  | { outcome: 'bad_schema'; message: string }
  /** JSON text. */
  | { outcome: 'value'; text: string }
  | { outcome: 'failed'; message: string }
  | { outcome: 'too_large' }
  | { outcome: 'too_deep' };

/** Longer results would hold up the process that reads them. */
export const RESULT_BYTES_MAX = 8 * 1024 * 1024;
const FAULTS_MAX = 20;
const TEXT_LENGTH_MAX = 500;
/** Compiled schemas take a multiple of their text, out of the thread's own memory bound. */
const CACHE = { max: 200, maxSize: 1024 * 1024 };
const compiled = new LRUCache<string, ValidateFunction>(CACHE);

/** Without the `u` flag where a pattern needs it gone: many schemas in the wild escape more than it allows. */
const regularExpression = Object.assign(
  (pattern: string, flags: string): RegExp => {
    try {
      return new RegExp(pattern, flags);
    } catch {
      return new RegExp(pattern);
    }
  },
  { code: 'new RegExp' },
);

/**
 * One instance a schema, without meta-schemas and without a loader: a `$ref` finds only what stands in the document itself,
 * and two tenants' schemas of the same `$id` never meet.
 */
const perSchema: Options = {
  strict: false,
  allErrors: true,
  logger: false,
  meta: false,
  validateSchema: false,
  addUsedSchema: false,
  code: { regExp: regularExpression },
};
const checks: Options = { strict: false, logger: false };
const draft7Checks = new Ajv(checks);
const latestChecks = new Ajv2020(checks);
class SchemaFault extends Error {}

const cut = (text: string): string => (text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text);

/** Drafts 4 to 7 by their `$schema`, which tools of the MCP world still send; everything else is 2020-12. */
const isOldDraft = (dialect: unknown): boolean =>
  typeof dialect === 'string' && /^https?:\/\/json-schema\.org\/(draft-0[4-7]\/)?schema#?$/.test(dialect);

function compile(text: string, formats: boolean): ValidateFunction {
  const key = createHash('sha256')
    .update(formats ? 'formats:' : 'plain:')
    .update(text)
    .digest('base64');
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const parsed: unknown = JSON.parse(text);
  if (typeof parsed === 'boolean') return new Ajv2020(perSchema).compile(parsed);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new SchemaFault('a schema is an object or a boolean');
  }
  const { $schema: dialect, ...schema } = parsed as Record<string, unknown>;
  const old = isOldDraft(dialect);
  const checker = old ? draft7Checks : latestChecks;
  if (checker.validateSchema(schema) !== true) {
    throw new SchemaFault(checker.errorsText(checker.errors, { dataVar: 'schema' }));
  }
  const options = { ...perSchema, validateFormats: formats };
  const instance = old ? new Ajv(options) : new Ajv2020(options);
  if (formats) addFormats(instance);
  const validate = compiledBy(instance, schema);
  compiled.set(key, validate, { size: Math.max(1, text.length) });
  return validate;
}

function compiledBy(instance: Pick<Ajv, 'compile'>, schema: Record<string, unknown>): ValidateFunction {
  try {
    return instance.compile(schema);
  } catch (error) {
    // Too deep is a limit, not a fault of the schema's grammar.
    if (error instanceof RangeError || !(error instanceof Error)) throw error;
    throw new SchemaFault(error.message);
  }
}

/** Names the property itself where the fault is a missing or an unknown one. */
function faultOf({ instancePath, params, message = 'invalid' }: ErrorObject): ProgramFault {
  const details = params as Record<string, unknown>;
  const named = details.missingProperty ?? details.additionalProperty ?? details.unevaluatedProperty;
  const steps = instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (typeof named === 'string') steps.push(named);
  return { path: cut(steps.join('.')), message: cut(message) };
}

function schemaResult(task: SchemaTask): ProgramResult {
  const validate = compile(task.schema, task.formats);
  if (task.kind === 'compile') return { outcome: 'valid' };
  if (validate(JSON.parse(task.value ?? 'null'))) return { outcome: 'valid' };
  return { outcome: 'invalid', errors: (validate.errors ?? []).slice(0, FAULTS_MAX).map(faultOf) };
}

function logicResult(task: LogicTask): ProgramResult {
  const logic: unknown = JSON.parse(task.logic);
  const problem = logicProblem(logic);
  if (problem !== null) return { outcome: 'failed', message: problem };
  if (task.kind === 'compile_logic') return { outcome: 'valid' };
  const data: unknown = JSON.parse(task.data);
  try {
    // What is no JSON (nothing at all, a number that is none) is null.
    const text = (JSON.stringify(evaluated(logic, data)) as string | undefined) ?? 'null';
    return Buffer.byteLength(text) > RESULT_BYTES_MAX ? { outcome: 'too_large' } : { outcome: 'value', text };
  } catch (error) {
    if (error instanceof RangeError) throw error;
    return { outcome: 'failed', message: cut(logicFault(error)) };
  }
}

async function jqResult(jq: object, task: JqTask): Promise<ProgramResult> {
  // Bound to nothing, a program is compiled and never run.
  const compiling = task.kind === 'compile_jq';
  const [program, value] = compiling ? [`empty as $nothing | ${task.program}`, 'null'] : [task.program, task.value];
  const results = await jqResults(jq, program, value, RESULT_BYTES_MAX);
  return compiling ? { outcome: 'valid' } : { outcome: 'value', text: `[${results.join(',')}]` };
}

async function resultOf(task: ProgramTask): Promise<ProgramResult> {
  // A thread that has no jq yet loads it before the clock of the run starts.
  const jq = task.kind === 'jq' || task.kind === 'compile_jq' ? await loadJq() : {};
  Atomics.store(new BigInt64Array(task.started), 0, process.hrtime.bigint());
  switch (task.kind) {
    case 'validate':
    case 'compile':
      return schemaResult(task);
    case 'logic':
    case 'compile_logic':
      return logicResult(task);
    case 'jq':
    case 'compile_jq':
      return jqResult(jq, task);
  }
}

/** Runs one tenant program; what it throws besides is a fault of ours. */
export async function run(task: ProgramTask): Promise<ProgramResult> {
  try {
    return await resultOf(task);
  } catch (error) {
    if (error instanceof SchemaFault) return { outcome: 'bad_schema', message: cut(error.message) };
    if (error instanceof JqFault) return { outcome: 'failed', message: cut(error.message) };
    if (error instanceof ResultTooLargeError) return { outcome: 'too_large' };
    if (error instanceof RangeError || error instanceof JqMemoryError) return { outcome: 'too_deep' };
    throw error;
  }
}

/** Compiles the meta-schemas and runs the code once while the thread starts; no tenant's 250 ms pay for it. */
function warmUp(): void {
  void draft7Checks.validateSchema({});
  const schema = { type: 'object', properties: { a: { type: 'string', format: 'email' } }, required: ['a'] };
  schemaResult({ kind: 'validate', schema: JSON.stringify(schema), value: '{}', formats: true });
  evaluated({ map: [{ var: 'a' }, { '+': [{ var: '' }, 1] }] }, { a: [1] });
}
warmUp();
