import { ApiError } from '../core/errors';
import { ProgramLimitError } from '../core/programs';
import { programs } from '../core/tenant-programs';

export type JsonObject = Record<string, unknown>;

export const isJsonObject = (given: unknown): given is JsonObject =>
  typeof given === 'object' && given !== null && !Array.isArray(given);

/**
 * The schema of an agent's output as it may be stored; null = none. Compiles it, so no transaction may be open.
 * Spec: Agents, `output_schema`; Limits, tenant programs.
 * @throws INVALID_OUTPUT_SCHEMA when it is no object, does not compile or breaks a bound; ProgramsBusyError
 */
export async function checkedOutputSchema(given: unknown): Promise<JsonObject | null> {
  if (given === null) return null;
  if (!isJsonObject(given)) throw invalidSchema('must be an object');
  const compiled = await programs().compileSchema(given).catch(faultOf);
  if (!compiled.ok) throw invalidSchema(`is no schema that can be used: ${compiled.message}`);
  return given;
}

function faultOf(error: unknown): { ok: false; message: string } {
  if (error instanceof ProgramLimitError) return { ok: false, message: error.message };
  throw error;
}

const invalidSchema = (message: string): ApiError =>
  new ApiError('INVALID_OUTPUT_SCHEMA', `output_schema ${message}.`, {
    details: [{ path: 'output_schema', message }],
  });
