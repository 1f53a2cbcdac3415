import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { assertContent, assertFits, assertNamed } from './checks';
import type { ToolFields } from './checks';
import { storedTarget } from './execute';
import { Tool } from './models';
import type { ToolType } from './models';

export type ToolInput = ToolFields & { type: ToolType };

export type ToolChange = Partial<ToolFields>;

/**
 * Stores a tool. Nothing is called. Not repeatable: each call makes one.
 * @throws VALIDATION_FAILED, INVALID_TEMPLATE_TOKEN, INVALID_TOOL_CONTEXT_KEY, PIPELINE_INVALID_STEP, SECRET_NOT_FOUND,
 *   TOOL_NOT_FOUND, GUARDRAIL_NOT_FOUND
 */
export async function createTool(projectId: string, input: ToolInput): Promise<Tool> {
  assertFits(input.type, input);
  const id = newId('tool');
  const stored = storedTarget(id, input);
  await assertContent(input);
  return inTransaction(async (tx) => {
    await assertNamed(projectId, stored, tx);
    const now = clock.now();
    const { name, type, description, parameters, actions, deniedActions } = input;
    const { presetParameters, contextKeys, outputMapping } = input;
    return Tool.create(
      {
        ...{ id, projectId, name, type, description, parameters, actions, deniedActions },
        ...{ presetParameters, contextKeys, outputMapping, ...stored, createdAt: now, updatedAt: now },
      },
      { transaction: tx },
    );
  });
}

/**
 * Changes the given fields; `execute`, `mcp` and `pipeline` are replaced whole. Agents see the change on their next turn.
 * Repeatable.
 * @throws not_found, VALIDATION_FAILED, INVALID_TEMPLATE_TOKEN, INVALID_TOOL_CONTEXT_KEY, PIPELINE_INVALID_STEP,
 *   SECRET_NOT_FOUND, TOOL_NOT_FOUND, GUARDRAIL_NOT_FOUND
 */
export async function updateTool(projectId: string, toolId: string, change: ToolChange): Promise<Tool> {
  const { execute, mcp, pipeline, guardrailIds: _none, ...plain } = change;
  // Before the transaction: programs take their time, and no connection waits for them.
  await assertContent(change);
  return inTransaction(async (tx) => {
    const row = await Tool.findOne({
      where: { projectId, id: toolId },
      transaction: tx,
      lock: tx.LOCK.NO_KEY_UPDATE,
    });
    if (row === null) throw notFound();
    assertFits(row.type, { ...fittingOf(row), ...change });
    // Only the one that the type has can be set: giving it replaces all that was stored of the target.
    if (execute != null || mcp != null || pipeline != null) {
      const stored = storedTarget(toolId, { execute: execute ?? null, mcp: mcp ?? null, pipeline: pipeline ?? null });
      await assertNamed(projectId, stored, tx);
      row.set(stored);
    }
    return row.set({ ...plain, updatedAt: clock.now() }).save({ transaction: tx });
  });
}

const fittingOf = ({ parameters, execute, mcp, pipeline, actions, deniedActions }: Tool) => ({
  ...{ parameters, execute, mcp, pipeline, actions, deniedActions },
});

/**
 * Deletes a tool; with `force` agents keep bindings that resolve to nothing. The row is locked first, so that an agent
 * being written with it is either counted or refused.
 * @throws not_found, TOOL_HAS_DEPENDENTS
 */
export async function deleteTool(projectId: string, toolId: string, force: boolean): Promise<void> {
  await inTransaction(async (tx) => {
    const row = await Tool.findOne({ where: { projectId, id: toolId }, transaction: tx, lock: tx.LOCK.UPDATE });
    if (row === null) throw notFound();
    const agents = await agentCount(projectId, toolId, tx);
    if (agents > 0 && !force) {
      throw new ApiError('TOOL_HAS_DEPENDENTS', 'Agents bind this tool.', {
        meta: { agent_count: agents, accepted_share_count: 0, decider_count: 0, ingestion_rule_count: 0 },
      });
    }
    await row.destroy({ transaction: tx });
  });
}

/** One tool of the project. @throws not_found */
export async function getTool(projectId: string, toolId: string): Promise<Tool> {
  const row = await Tool.findOne({ where: { projectId, id: toolId } });
  if (row === null) throw notFound();
  return row;
}

/** A page of the project's tools, newest first. */
export const listTools = (projectId: string, page: { limit: number; offset: number }) =>
  listByOffset(Tool, { where: { projectId }, ...page });

/** A tool as an agent that binds it knows it; the type says whether the name is a prefix. */
export interface BoundTool {
  name: string;
  type: string;
}

/**
 * The project's tools among the given ids, with the names the model would see; an mcp tool takes no name itself, since its
 * remote tools are named when they are known, and stands under its id. Inside a transaction they are held until it ends,
 * so that none is deleted while the agent that binds it is written.
 */
export async function boundTools(projectId: string, toolIds: string[], tx: Tx): Promise<Map<string, BoundTool>> {
  const asked = toolIds.filter((id) => isId('tool', id));
  if (asked.length === 0) return new Map();
  const rows = await query<BoundTool & { id: string }>(
    'select id, name, type from tools where project_id = $1 and id = any($2) order by id for key share',
    [projectId, asked],
    tx,
  );
  return new Map(rows.map(({ id, name, type }) => [id, { name, type }]));
}

/** The rows of the project's tools among the given ids. */
export async function findTools(projectId: string, toolIds: string[]): Promise<Tool[]> {
  const asked = toolIds.filter((id) => isId('tool', id));
  return asked.length === 0 ? [] : Tool.findAll({ where: { projectId, id: asked } });
}

/** Agents import this area, so it counts their rows by statement and not through their service. */
async function agentCount(projectId: string, toolId: string, tx: Tx): Promise<number> {
  const found = await queryOne<{ count: number }>(
    'select count(*)::int as count from agents where project_id = $1 and tool_ids @> array[$2]',
    [projectId, toolId],
    tx,
  );
  return found?.count ?? 0;
}
