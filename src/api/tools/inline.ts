import { queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { clock } from '../core/clock';
import { encrypt } from '../core/encryption';
import { assertContent, assertFits, assertNamed } from './checks';
import { openTarget } from './execute';
import type { InlineToolFields, OpenInlineTool } from './fields';
import { secretsNamedBy } from './filling';
import { placeOfInline, textOfLiterals } from './literals';
import { presentDescribed } from './present';

export { inlineLiterals } from './literals';
export type { InlineToolFields, OpenInlineTool } from './fields';

/** An inline tool taken apart: what its agent's configuration keeps, and the credentials that were written out in it. */
export interface OpenedInline {
  tool: OpenInlineTool;
  /** By place; empty where none was written out. */
  literals: ReadonlyMap<string, string>;
}

/**
 * Holds a tool of an agent's configuration to what stored tools are held to, as far as its text tells; schemas and
 * programs of the tenant are tried out, so no transaction may be open. `path` is where it stands in the input. Repeatable.
 * Spec: Agents, `tool_bindings`; Tools, fields.
 * @throws VALIDATION_FAILED, INVALID_TEMPLATE_TOKEN, INVALID_TOOL_CONTEXT_KEY, PIPELINE_INVALID_STEP, GUARDRAIL_NOT_FOUND,
 *   ProgramsBusyError
 */
export async function openInlineTool(given: InlineToolFields, path: string): Promise<OpenedInline> {
  const { name, type, description, parameters, execute, mcp, actions, pipeline } = given;
  const fields = {
    ...{ name, description, parameters, execute, mcp, actions, pipeline },
    deniedActions: given.denied_actions,
    presetParameters: given.preset_parameters,
    contextKeys: given.context_keys,
    outputMapping: given.output_mapping,
    guardrailIds: given.guardrail_ids ?? null,
  };
  assertFits(type, fields, `${path}.`);
  const { literals, secretIds: _named, ...open } = openTarget(fields, `${path}.`);
  await assertContent(fields, `${path}.`);
  const tool = presentDescribed({ ...fields, type, ...open });
  // As it is read again: what is not set is not there.
  return { tool: JSON.parse(JSON.stringify(tool)) as OpenInlineTool, literals };
}

/**
 * Checks what an inline tool names, and holds it until the transaction ends.
 * @throws SECRET_NOT_FOUND, TOOL_NOT_FOUND, PIPELINE_INVALID_STEP
 */
export async function assertInlineNamed(
  projectId: string,
  { tool, path }: { tool: OpenInlineTool; path: string },
  tx: Tx,
): Promise<void> {
  const { mcp, pipeline } = tool;
  await assertNamed(projectId, { secretIds: secretsNamedBy(tool), mcp, pipeline }, tx, `${path}.`);
}

/** Stores the credentials of an inline tool under an id that nothing has yet; the agent's row is there already. */
export async function storeInlineLiterals(
  { projectId, agentId, id }: { projectId: string; agentId: string; id: string },
  literals: ReadonlyMap<string, string>,
  tx: Tx,
): Promise<void> {
  const { keyId, data } = encrypt(textOfLiterals(literals), placeOfInline(id));
  await queryOne(
    `insert into agent_credentials (id, project_id, agent_id, literals_key_id, literals_data, created_at)
     values ($1, $2, $3, $4, $5, $6) returning id`,
    [id, projectId, agentId, keyId, data, clock.now()],
    tx,
  );
}
