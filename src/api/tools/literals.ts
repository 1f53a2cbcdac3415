import { queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { decrypt } from '../core/encryption';
import type { Encrypted, Place } from '../core/encryption';

/** Credentials that were written out in a tool, kept encrypted beside what is stored of it in the open. */

export const placeOfTool = (toolId: string): Place => ({ table: 'tools', column: 'literals', rowId: toolId });

/** Of the inline tools of agents: one row a tool, which every version of its agent that holds the tool names. */
export const placeOfInline = (credentialsId: string): Place => ({
  table: 'agent_credentials',
  column: 'literals',
  rowId: credentialsId,
});

export const textOfLiterals = (literals: ReadonlyMap<string, string>): string =>
  JSON.stringify(Object.fromEntries(literals));

interface LiteralsRow {
  key_id: string | null;
  data: Buffer | null;
}

/**
 * The credentials written out in a tool, by place (older rows: by header name), read anew at every call; null when the
 * record is gone or they cannot be read with the keys at hand. They may go into one outgoing call and nowhere else.
 * @param credentialsId of an inline tool of an agent; absent = of the stored tool `id`
 */
export async function toolLiterals(
  projectId: string,
  { id, credentialsId }: { id: string; credentialsId?: string | undefined },
): Promise<Map<string, string> | null> {
  if (credentialsId !== undefined) return inlineLiterals(projectId, credentialsId);
  const row = await queryOne<LiteralsRow>(
    'select literals_key_id as key_id, literals_data as data from tools where project_id = $1 and id = $2',
    [projectId, id],
  );
  return row === null ? null : opened(row, placeOfTool(id));
}

/** Those of an inline tool; null when they are gone or cannot be read with the keys at hand. */
export async function inlineLiterals(
  projectId: string,
  credentialsId: string,
  tx?: Tx,
): Promise<Map<string, string> | null> {
  const row = await queryOne<LiteralsRow>(
    'select literals_key_id as key_id, literals_data as data from agent_credentials where project_id = $1 and id = $2',
    [projectId, credentialsId],
    tx,
  );
  return row === null ? null : opened(row, placeOfInline(credentialsId));
}

function opened({ key_id: keyId, data }: LiteralsRow, place: Place): Map<string, string> | null {
  if (keyId === null || data === null) return new Map();
  const text = decrypt({ keyId, data } satisfies Encrypted, place);
  return text === null ? null : new Map(Object.entries(JSON.parse(text) as Record<string, string>));
}
