import { invalidInput } from '../core/errors';
import { ProgramFailedError, ProgramLimitError } from '../core/programs';
import { programs } from '../core/tenant-programs';

/** A value, or why an expression of the tenant gave none; the problem names the limit where one was met. */
export type Evaluated = { ok: true; value: unknown } | { ok: false; problem: string };

/**
 * Checks that a document of JSON Logic can be used; nothing is evaluated. Repeatable.
 * @throws VALIDATION_FAILED at `path`; ProgramsBusyError
 */
export async function assertMapping(path: string, logic: unknown): Promise<void> {
  const problem = await logicProblem(logic);
  if (problem !== null) throw invalidInput('VALIDATION_FAILED', path, problem);
}

/** What is wrong with a document of JSON Logic as it is stored; null when it can be used. @throws ProgramsBusyError */
export async function logicProblem(logic: unknown): Promise<string | null> {
  try {
    const compiled = await programs().compileLogic(logic);
    return compiled.ok ? null : compiled.message;
  } catch (error) {
    if (error instanceof ProgramLimitError) return error.message;
    throw error;
  }
}

/**
 * The value that a tool's `output_mapping` makes of a raw output and the merged arguments. Spec: Tools, presets, mapping.
 * Pure but for the thread it runs in: the same every time.
 * @throws ProgramsBusyError when too many programs wait; asking again is safe
 */
export const applyMapping = (logic: unknown, data: { output: unknown; input: unknown }): Promise<Evaluated> =>
  evaluate(logic, data);

/** The value of a document of JSON Logic over some data. @throws ProgramsBusyError */
export async function evaluate(logic: unknown, data: unknown): Promise<Evaluated> {
  try {
    return { ok: true, value: await programs().evaluateLogic(logic, data) };
  } catch (error) {
    if (error instanceof ProgramFailedError || error instanceof ProgramLimitError) {
      return { ok: false, problem: error.message };
    }
    throw error;
  }
}
