import { clock } from '../core/clock';
import { queryOne } from '../core/db';
import { resolveMcpTools } from '../tools/mcp';
import type { ToolSnapshot } from '../tools/resolve';
import type { RunView } from './steps';
import type { Turn } from './turn';

/**
 * Asks the servers of a turn's mcp tools for their tools, once a turn, and stores the turn that comes of it. One that
 * cannot be had is left out, and the model is told. Of two tries the first one's turn counts: then null, and the rows have
 * it. Safe to repeat.
 * Spec: Tools, resolution.
 */
export async function resolveSurface(view: RunView, signal: AbortSignal): Promise<Turn | null> {
  const { turn, projectId, toolContext, generationId, seal } = view;
  const listed = await Promise.all(
    (turn.unresolved ?? []).map(async ({ tool_id: id, name, tool }) => ({
      id,
      name,
      found: await resolveMcpTools(projectId, tool ?? id, { toolContext, signal }),
    })),
  );
  const remote = new Map(listed.flatMap(({ id, found }) => (Array.isArray(found) ? [[id, found] as const] : [])));
  const gone = listed.flatMap(({ name, found }) => (Array.isArray(found) ? [] : [name]));
  const whole: Turn = {
    ...turn,
    tools: inOrder(turn, remote),
    unresolved: [],
    unavailable: [...turn.unavailable, ...gone],
  };
  const stored = await queryOne(
    'update generation_contents set turn = $2, resolved_at = $3 where generation_id = $1 and resolved_at is null returning generation_id',
    [generationId, seal.seal('turn', whole), clock.now()],
  );
  return stored === null ? null : whole;
}

/** Tools in the order of their bindings; a remote one whose name is taken is left out. */
function inOrder({ tools, bindings = [] }: Turn, remote: ReadonlyMap<string, ToolSnapshot[]>): ToolSnapshot[] {
  const taken = new Set(tools.map(({ name }) => name));
  const fresh = (tool: ToolSnapshot): boolean => !taken.has(tool.name) && taken.add(tool.name).has(tool.name);
  return bindings.flatMap((id) => remote.get(id)?.filter(fresh) ?? tools.filter((tool) => tool.id === id));
}
