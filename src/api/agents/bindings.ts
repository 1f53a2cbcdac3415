import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '../core/db';
import { newId } from '../core/ids';
import { inlineLiterals, openInlineTool, storeInlineLiterals } from '../tools/inline';
import type { InlineToolFields, OpenInlineTool, OpenedInline } from '../tools/inline';

/** A binding as a body gives it: credentials may be written out in an inline tool. */
export type GivenBinding = { tool_id: string } | { tool: InlineToolFields };

/** A binding as configurations keep it: an inline tool without its credentials, and the id under which those are kept. */
export type StoredBinding = { tool_id: string } | { tool: OpenInlineTool; credentials_id?: string | undefined };

/** Bindings whose inline tools are taken apart. */
export type OpenedBinding = { tool_id: string } | OpenedInline;

/** Where a binding stands in the input. */
export const bindingPath = (index: number): string => `tool_bindings.${String(index)}`;

/**
 * Checks the inline tools among the bindings, as far as their text tells, and takes their credentials out. Programs of
 * the tenant are tried out, so no transaction may be open. Repeatable. @throws the codes of `openInlineTool`
 */
export async function openBindings(given: GivenBinding[]): Promise<OpenedBinding[]> {
  const opened: OpenedBinding[] = [];
  for (const [index, binding] of given.entries()) {
    opened.push('tool' in binding ? await openInlineTool(binding.tool, `${bindingPath(index)}.tool`) : binding);
  }
  return opened;
}

/** Credentials that the write has to store, under ids that its bindings name. */
export type FreshCredentials = { id: string; literals: ReadonlyMap<string, string> }[];

/**
 * The bindings as the configuration keeps them. An inline tool that is live already, credentials included, keeps the id of
 * those, so that a write that changes nothing is seen as one.
 */
export async function storedBindings(
  projectId: string,
  { opened, live }: { opened: OpenedBinding[] | null; live: StoredBinding[] | null },
  tx: Tx,
): Promise<{ bindings: StoredBinding[] | null; fresh: FreshCredentials }> {
  if (opened === null) return { bindings: null, fresh: [] };
  const fresh: FreshCredentials = [];
  const free = new Set((live ?? []).flatMap((binding) => ('tool' in binding ? [binding] : [])));
  const bindings: StoredBinding[] = [];
  for (const binding of opened) {
    if (!('tool' in binding)) {
      bindings.push(binding);
      continue;
    }
    const { tool, literals } = binding;
    if (literals.size === 0) {
      bindings.push({ tool });
      continue;
    }
    const same = await sameAs(projectId, binding, free, tx);
    const id = same ?? newId('agentCredentials');
    if (same === null) fresh.push({ id, literals });
    bindings.push({ tool, credentials_id: id });
  }
  return { bindings, fresh };
}

/** The id of the credentials of a live inline tool that is the same in all; each live one is taken once. */
async function sameAs(
  projectId: string,
  { tool, literals }: OpenedInline,
  free: Set<Extract<StoredBinding, { tool: unknown }>>,
  tx: Tx,
): Promise<string | null> {
  for (const live of free) {
    if (live.credentials_id === undefined || !isDeepStrictEqual(live.tool, tool)) continue;
    const kept = await inlineLiterals(projectId, live.credentials_id, tx);
    if (kept === null || !isDeepStrictEqual(kept, new Map(literals))) continue;
    free.delete(live);
    return live.credentials_id;
  }
  return null;
}

/** Stores the credentials of a write; the agent's row is there already. */
export async function storeCredentials(
  agent: { projectId: string; id: string },
  fresh: FreshCredentials,
  tx: Tx,
): Promise<void> {
  for (const { id, literals } of fresh) {
    await storeInlineLiterals({ projectId: agent.projectId, agentId: agent.id, id }, literals, tx);
  }
}
