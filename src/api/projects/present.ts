import type { z } from 'zod';
import { isoTime, isoTimeOrNull } from '../core/timestamps';
import type { ProjectOut } from './schemas';
import type { Project } from './models';
import type { SeenProject } from './seen';

/** A project in the shape of the API, as the member who asks sees it. */
export const presentProject = ({ project, role }: SeenProject): z.output<typeof ProjectOut> => ({
  id: project.id,
  name: project.name,
  role,
  owner_user_id: project.ownerUserId,
  status: project.status,
  paused_at: isoTimeOrNull(project.pausedAt),
  pause_reason: project.pauseReason,
  // What follows without a column belongs to areas that are not in this build, where these are the only values.
  guardrail_ids: [],
  default_model_route_id: null,
  max_concurrent_runs: project.maxConcurrentRuns,
  max_chain_generations: project.maxChainGenerations,
  max_orchestration_run_depth: project.maxOrchestrationRunDepth,
  audit_reads_enabled: project.auditReadsEnabled,
  managed_conversion: project.managedConversion,
  require_priced_model: project.requirePricedModel,
  trace_content_mode: project.traceContentMode,
  trace_content_retention_days: project.traceContentRetentionDays,
  created_at: isoTime(project.createdAt),
  updated_at: isoTime(project.updatedAt),
});

/** What the events of a pause and of its end tell; after the end both facts are null. */
export const presentPause = (project: Pick<Project, 'id' | 'pausedAt' | 'pauseReason'>): Record<string, unknown> => ({
  project_id: project.id,
  paused_at: isoTimeOrNull(project.pausedAt),
  pause_reason: project.pauseReason,
});
