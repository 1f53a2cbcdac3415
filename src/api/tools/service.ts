import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, invalidInput, notFound } from '../core/errors';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { ProgramLimitError } from '../core/programs';
import { programs } from '../core/tenant-programs';
import { missingSecrets } from '../secrets/service';
import { readLiterals, storedExecute } from './execute';
import { Tool } from './models';
import type { ToolType } from './models';
import type { ExecuteFields } from './schemas';

export interface ToolInput {
  name: string;
  type: ToolType;
  description: string | null;
  parameters: Record<string, unknown>;
  execute: ExecuteFields | null;
  guardrailIds: string[] | null;
}

export type ToolChange = Partial<Omit<ToolInput, 'type'>>;

/**
 * Stores a tool. Nothing is called. Not repeatable: each call makes one.
 * @throws VALIDATION_FAILED, INVALID_TEMPLATE_TOKEN, SECRET_NOT_FOUND, GUARDRAIL_NOT_FOUND
 */
export async function createTool(projectId: string, input: ToolInput): Promise<Tool> {
  assertExecuteFits(input.type, input.execute);
  assertNoGuardrails(input.guardrailIds);
  await assertParameters(input.parameters);
  const id = newId('tool');
  const stored = storedExecute(id, input.execute);
  return inTransaction(async (tx) => {
    await assertSecrets(projectId, stored.secretIds, tx);
    const now = clock.now();
    const { name, type, description, parameters } = input;
    return Tool.create(
      { id, projectId, name, type, description, parameters, ...stored, createdAt: now, updatedAt: now },
      { transaction: tx },
    );
  });
}

/**
 * Changes the given fields; `execute` is replaced whole. Agents see the change on their next turn. Repeatable.
 * @throws not_found, VALIDATION_FAILED, INVALID_TEMPLATE_TOKEN, SECRET_NOT_FOUND, GUARDRAIL_NOT_FOUND
 */
export async function updateTool(projectId: string, toolId: string, change: ToolChange): Promise<Tool> {
  const { execute, guardrailIds, ...plain } = change;
  assertNoGuardrails(guardrailIds ?? null);
  // Before the transaction: compiling takes its time, and no connection waits for it.
  if (change.parameters !== undefined) await assertParameters(change.parameters);
  return inTransaction(async (tx) => {
    const row = await Tool.findOne({
      where: { projectId, id: toolId },
      transaction: tx,
      lock: tx.LOCK.NO_KEY_UPDATE,
    });
    if (row === null) throw notFound();
    if (execute !== undefined) {
      assertExecuteFits(row.type, execute);
      const stored = storedExecute(toolId, execute);
      await assertSecrets(projectId, stored.secretIds, tx);
      row.set(stored);
    }
    return row.set({ ...plain, updatedAt: clock.now() }).save({ transaction: tx });
  });
}

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
 * The project's tools among the given ids, with the names the model would see. Inside a transaction they are held until
 * it ends, so that none is deleted while the agent that binds it is written.
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

/**
 * The credentials written out in a tool's headers, by header name, read anew at every call; null when the tool is gone
 * or they cannot be read with the keys at hand. They may go into one outgoing call and nowhere else.
 */
export async function toolLiterals(projectId: string, toolId: string): Promise<Map<string, string> | null> {
  const row = await queryOne<{ key_id: string | null; data: Buffer | null }>(
    'select literals_key_id as key_id, literals_data as data from tools where project_id = $1 and id = $2',
    [projectId, toolId],
  );
  if (row === null) return null;
  return row.key_id === null || row.data === null
    ? new Map()
    : readLiterals(toolId, { keyId: row.key_id, data: row.data });
}

function assertExecuteFits(type: ToolType, execute: ExecuteFields | null): void {
  if (type === 'http' && execute === null) {
    throw invalidInput('VALIDATION_FAILED', 'execute', 'is required for an http tool');
  }
  if (type !== 'http' && execute !== null) {
    throw invalidInput('VALIDATION_FAILED', 'execute', `must be null for a ${type} tool`);
  }
}

/** No guardrail exists in this build: an id names none, and an empty list has no place to be kept. */
function assertNoGuardrails(ids: string[] | null): void {
  if (ids === null) return;
  if (ids.length === 0) throw invalidInput('VALIDATION_FAILED', 'guardrail_ids', 'is not served by this build');
  throw new ApiError('GUARDRAIL_NOT_FOUND', 'guardrail_ids names no guardrail of this project.', {
    details: [{ path: 'guardrail_ids.0', message: 'names no guardrail of this project' }],
  });
}

/** The schema must compile, within the bounds of tenants' programs. Spec: Limits, tenant programs. */
async function assertParameters(parameters: Record<string, unknown>): Promise<void> {
  const compiled = await programs()
    .compileSchema(parameters)
    .catch((error: unknown) => {
      if (error instanceof ProgramLimitError) return { ok: false as const, message: error.message };
      throw error;
    });
  if (!compiled.ok) {
    throw invalidInput('VALIDATION_FAILED', 'parameters', `is no schema that can be used: ${compiled.message}`);
  }
}

async function assertSecrets(projectId: string, secretIds: string[], tx: Tx): Promise<void> {
  const missing = await missingSecrets(projectId, secretIds, tx);
  if (missing.length === 0) return;
  throw new ApiError('SECRET_NOT_FOUND', `execute names no secret of this project: ${missing.join(', ')}.`, {
    meta: { secret_ids: missing },
    details: [{ path: 'execute', message: `names no secret of this project: ${missing.join(', ')}` }],
  });
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
