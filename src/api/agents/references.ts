import type { Tx } from '../core/db';
import { ApiError, invalidInput } from '../core/errors';
import { findProvider } from '../providers/service';
import { boundTools } from '../tools/service';
import { assertKnowledge } from './knowledge';
import type { AgentConfig } from './schemas';

/**
 * Checks what a write names, and holds it until the transaction ends. Only the fields that the write gives are looked at:
 * a tool that was deleted by force since does not keep an agent from being renamed.
 * @throws VALIDATION_FAILED, not_found (ai_provider_id), TOOL_NOT_FOUND, MODEL_ROUTE_NOT_FOUND, GUARDRAIL_NOT_FOUND,
 *   DOCUMENT_NOT_FOUND, MEMORY_STORE_NOT_FOUND
 */
export async function assertReferences(
  projectId: string,
  { given, result }: { given: Partial<AgentConfig>; result: AgentConfig },
  tx: Tx,
): Promise<string> {
  const aiProviderId = modelSourceOf(result);
  if (given.guardrail_ids !== undefined) assertNoGuardrails(given.guardrail_ids);
  if (given.knowledge_config !== undefined) assertKnowledge(given.knowledge_config);
  if (given.ai_provider_id !== undefined) await assertProvider(projectId, aiProviderId, tx);
  if (given.tool_bindings !== undefined) await assertTools(projectId, given.tool_bindings ?? [], tx);
  return aiProviderId;
}

/** Exactly one source of models must be set; this build has providers only. */
function modelSourceOf({ ai_provider_id: aiProviderId, model_route_id: modelRouteId }: AgentConfig): string {
  if (aiProviderId !== null && modelRouteId !== null) {
    throw invalidInput('VALIDATION_FAILED', 'model_route_id', 'excludes ai_provider_id');
  }
  if (modelRouteId !== null) {
    throw new ApiError('MODEL_ROUTE_NOT_FOUND', 'model_route_id names no model route of this project.', {
      details: [{ path: 'model_route_id', message: 'names no model route of this project' }],
    });
  }
  if (aiProviderId === null) {
    throw invalidInput('VALIDATION_FAILED', 'ai_provider_id', 'is required: an agent names its source of models');
  }
  return aiProviderId;
}

function assertNoGuardrails(ids: string[] | null): void {
  if (ids === null || ids.length === 0) return;
  throw new ApiError('GUARDRAIL_NOT_FOUND', 'guardrail_ids names no guardrail of this project.', {
    details: [{ path: 'guardrail_ids.0', message: 'names no guardrail of this project' }],
  });
}

/** The one reference in a body that is 404, as the specification has it. Spec: Agents, create. */
async function assertProvider(projectId: string, aiProviderId: string, tx: Tx): Promise<void> {
  if ((await findProvider(projectId, aiProviderId, tx)) !== null) return;
  throw new ApiError('not_found', 'ai_provider_id names no AI provider of this project.');
}

async function assertTools(projectId: string, bindings: { tool_id: string }[], tx: Tx): Promise<void> {
  const ids = bindings.map((binding) => binding.tool_id);
  const found = await boundTools(projectId, ids, tx);
  const taken = new Set<string>();
  for (const [index, id] of ids.entries()) {
    const path = `tool_bindings.${String(index)}.tool_id`;
    const tool = found.get(id);
    if (tool === undefined) {
      throw new ApiError('TOOL_NOT_FOUND', `${path} names no tool of this project.`, {
        details: [{ path, message: 'names no tool of this project' }],
      });
    }
    if (taken.has(tool.name)) {
      throw invalidInput('VALIDATION_FAILED', path, `is a second tool with the name ${tool.name}`);
    }
    taken.add(tool.name);
  }
}
