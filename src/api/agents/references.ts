import type { Tx } from '../core/db';
import { ApiError, invalidInput } from '../core/errors';
import { projectContentMode } from '../projects/service';
import { findProvider } from '../providers/service';
import { assertKnowledge } from './knowledge';
import type { AgentConfig } from './schemas';
import { assertCanStop } from './steering';
import { assertTools } from './tool-rules';

/** A write of a configuration: the fields it gives, and what it leaves behind. */
export interface ConfigWrite {
  given: Partial<AgentConfig>;
  result: AgentConfig;
  /** How an unknown provider is answered: a restore names it in no body, so there it is as any other reference. */
  unknownProvider: 'not_found' | 'AI_PROVIDER_NOT_FOUND';
}

/**
 * Checks what a write names, and holds it until the transaction ends. Only the fields that the write gives are looked at:
 * a tool that was deleted by force since does not keep an agent from being renamed.
 * @throws VALIDATION_FAILED, not_found or AI_PROVIDER_NOT_FOUND (ai_provider_id), TOOL_NOT_FOUND, MODEL_ROUTE_NOT_FOUND,
 *   GUARDRAIL_NOT_FOUND, DOCUMENT_NOT_FOUND, MEMORY_STORE_NOT_FOUND, FORCED_TOOL_CHOICE_CANNOT_STOP
 */
export async function assertReferences(projectId: string, write: ConfigWrite, tx: Tx): Promise<string> {
  const { given, result } = write;
  const aiProviderId = modelSourceOf(result);
  if (given.trace_content_mode === 'full') assertContentMode('full', await projectContentMode(projectId, tx));
  if (given.guardrail_ids !== undefined) assertNoGuardrails(given.guardrail_ids);
  if (given.knowledge_config !== undefined) assertKnowledge(given.knowledge_config);
  if (given.ai_provider_id !== undefined && (await findProvider(projectId, aiProviderId, tx)) === null) {
    throw unknownProvider(write.unknownProvider);
  }
  await assertTools(projectId, write, tx);
  assertCanStop(result);
  return aiProviderId;
}

/** Refuses to keep content in a project that keeps none. Spec: Agents, `trace_content_mode`. @throws VALIDATION_FAILED */
export function assertContentMode(agent: 'full' | 'none' | null, project: 'full' | 'none'): void {
  if (agent !== 'full' || project === 'full') return;
  throw invalidInput('VALIDATION_FAILED', 'trace_content_mode', 'cannot be full in a project that keeps no content');
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

/** In a body it is the one reference that is 404, as the specification has it. Spec: Agents, create; Versions. */
const unknownProvider = (code: ConfigWrite['unknownProvider']): ApiError =>
  new ApiError(
    code,
    'ai_provider_id names no AI provider of this project.',
    code === 'not_found'
      ? {}
      : { details: [{ path: 'ai_provider_id', message: 'names no AI provider of this project' }] },
  );
